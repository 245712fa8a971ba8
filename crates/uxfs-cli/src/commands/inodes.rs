//! `uxfs inodes`: every inode in use, read and verified.

use std::{io::Write, num::NonZeroUsize, ops::ControlFlow, sync::Mutex};

use serde_json::json;
use uxfs_format::fault::{Corruption, Location, Structure};
use uxfs_volume::inode::{
    Inode,
    scan::{ScanEvent, ScanOptions, ScanSummary, ScannedInode},
};
use uxfs_volume::volume::Volume;

use crate::{
    commands::{Context, freespace::too_many_damaged},
    document::JsonInode,
    failure::{Complaints, Exit, Failure, Outcome},
    output::{Output, message},
    progress::Progress,
    text,
};

/// Inodes that a thread counts before it moves the progress bar.
const PROGRESS_STEP: u64 = 4096;

/// Arguments of `uxfs inodes`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uxfs inodes --count disk.img\n\
    Inodes are found by the inode btrees, not by names, so that files without a name are seen too. Each is read and \
    verified in full, also when they are only counted. Listed on one thread they come in order.")]
pub struct Arguments {
    /// Print only the number of inodes
    #[arg(short, long)]
    count: bool,
    /// Threads [default: all processors to count, 1 to list]
    #[arg(short, long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
}

/// Runs the command.
pub fn run(filesystem: &Volume, arguments: &Arguments, context: &Context) -> Outcome {
    let options = match (arguments.threads, arguments.count) {
        (Some(threads), true) => ScanOptions { threads, ..ScanOptions::default() },
        // Listed on one thread they come in order.
        (Some(threads), false) => ScanOptions { threads, helpers: 0 },
        (None, true) => ScanOptions::default(),
        (None, false) => ScanOptions::in_order(),
    };
    let superblock = filesystem.superblock();
    let expected = superblock.inode_count.get().saturating_sub(superblock.free_inodes.get());
    let scan = Scan {
        filesystem,
        json: context.json,
        lists: !arguments.count,
        shared: Mutex::new(Shared::default()),
        progress: Progress::new("inodes", Some(expected)),
    };
    let (summary, _) = filesystem.scan_inodes(&options, || 0, |seen, event| scan.visit(seen, event));
    let mut shared = scan.shared.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    drop(scan.progress);
    if let Some(failure) = shared.failure {
        return Err(failure);
    }
    if arguments.count {
        print_counts(&summary, context.json, &mut shared.output)?;
    }
    shared.output.finish()?;
    if summary.unseen_groups > 0 {
        let message = too_many_damaged(summary.unseen_groups, filesystem);
        shared.complaints.conclude(Exit::Corruption, message);
    }
    if !summary.is_clean() {
        shared.complaints.raise(Exit::Failed);
    }
    Ok(shared.complaints.exit())
}

struct Scan<'a> {
    filesystem: &'a Volume,
    json: bool,
    lists: bool,
    shared: Mutex<Shared>,
    progress: Progress,
}

/// What all threads write to.
#[derive(Default)]
struct Shared {
    output: Output,
    complaints: Complaints,
    failure: Option<Failure>,
}

impl Scan<'_> {
    fn visit(&self, seen: &mut u64, event: ScanEvent<'_>) -> ControlFlow<()> {
        *seen += 1;
        if seen.is_multiple_of(PROGRESS_STEP) {
            self.progress.add(PROGRESS_STEP);
        }
        match event {
            ScanEvent::Inode(ScannedInode { core: Ok(_), .. }) if !self.lists => ControlFlow::Continue(()),
            ScanEvent::Inode(scanned) => self.inode(&scanned),
            ScanEvent::UnreadableChunks { group, first, inode_count, error } => {
                let subject = format!("group {group}: {inode_count} inodes from {first} on");
                self.complain(subject, &error)
            }
            ScanEvent::UnreadableIndex { group, error } => {
                self.complain(format!("group {group}: inode index"), &error)
            }
        }
    }

    fn inode(&self, scanned: &ScannedInode<'_>) -> ControlFlow<()> {
        let core = match scanned.core {
            Ok(core) => core,
            Err(fault) => {
                let location = Location::of_inode(scanned.number);
                let error = Corruption::new(Structure::Inode, location, fault).into();
                return self.complain("inode scan".to_owned(), &error);
            }
        };
        let Some(inode) = Inode::decode(scanned.bytes, core, self.filesystem.geometry()) else {
            return ControlFlow::Continue(());
        };
        let Ok(mut shared) = self.shared.lock() else { return ControlFlow::Break(()) };
        match self.print(&inode, &mut shared.output) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                shared.failure = Some(failure);
                ControlFlow::Break(())
            }
        }
    }

    fn complain(&self, subject: String, error: &uxfs_volume::error::Error) -> ControlFlow<()> {
        let Ok(mut shared) = self.shared.lock() else { return ControlFlow::Break(()) };
        shared.complaints.add(subject, error);
        ControlFlow::Continue(())
    }

    fn print(&self, inode: &Inode, output: &mut Output) -> Result<(), Failure> {
        if self.json {
            output.json(&JsonInode::new(inode))?;
            return Ok(());
        }
        let mode = text::mode_string(inode.mode());
        write!(output, "{:>12} ", inode.number)?;
        output.write_all(&mode)?;
        writeln!(
            output,
            " {:>5} {:>6} {:>6} {:>14} {:>10}",
            inode.link_count(),
            inode.uid(),
            inode.gid(),
            inode.size_bytes(),
            inode.generation()
        )?;
        Ok(())
    }
}

fn print_counts(summary: &ScanSummary, json: bool, output: &mut Output) -> Result<(), Failure> {
    if json {
        output.json(&json!({
            "inodes": summary.inodes,
            "damaged_inodes": summary.damaged_inodes,
            "unread_inodes": summary.unread_inodes,
            "damaged_indexes": summary.damaged_indexes,
            "unseen_groups": summary.unseen_groups,
            "chunks": summary.chunks,
        }))?;
        return Ok(());
    }
    writeln!(output, "{}", summary.inodes)?;
    let damage = [
        (summary.damaged_inodes, "damaged inodes"),
        (summary.unread_inodes, "inodes that could not be read"),
        (summary.damaged_indexes.into(), "damaged inode indexes"),
    ];
    for (count, name) in damage.iter().filter(|(count, _)| *count > 0) {
        message!("uxfs: {count} {name}");
    }
    Ok(())
}
