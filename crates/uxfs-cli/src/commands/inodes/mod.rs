//! `uxfs inodes`: every inode in use, read and verified.
//!
//! | module | holds |
//! |---|---|
//! | [`listing`] | printing in a thread of its own, while the scan reads on |

mod listing;

use std::{io::Write, num::NonZeroUsize, ops::ControlFlow, thread};

use parking_lot::Mutex;
use serde_json::json;
use uxfs_format::fault::{Corruption, Location, Structure};
use uxfs_volume::inode::scan::{ScanEvent, ScanOptions, ScanSummary, ScannedInode};
use uxfs_volume::volume::Volume;

use self::listing::{Batch, Sender};
use crate::{
    commands::put_image,
    commands::{Context, freespace::too_many_damaged},
    failure::{Complaints, Exit, Failure, Outcome},
    kind::Note,
    output::{Output, notice},
    progress::{Measure, Progress, QuietArgument},
    text::parse_threads,
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
    #[arg(short, long, value_name = "COUNT", value_parser = parse_threads)]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    quiet: QuietArgument,
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
    let mut output = Output::new();
    // A list on the terminal is progress enough.
    let is_quiet = arguments.quiet.quiet || (output.is_terminal() && !arguments.count);
    let progress = Progress::new("reading", Measure::Things("inodes", Some(expected)), is_quiet);
    let scan = Scan { filesystem, complaints: Mutex::default(), progress };
    let summary = match arguments.count {
        true => scan.count(&options),
        false => scan.list(&options, context.json, &mut output)?,
    };
    let Scan { complaints, progress, .. } = scan;
    drop(progress);
    let mut complaints = complaints.into_inner();
    if arguments.count {
        print_counts(&summary, context, &mut output)?;
    }
    output.finish()?;
    if summary.unseen_groups > 0 {
        let message = too_many_damaged(summary.unseen_groups, filesystem);
        complaints.conclude(Exit::Corruption, message);
    }
    if !summary.is_clean() {
        complaints.raise(Exit::Failed);
    }
    Ok(complaints.exit())
}

struct Scan<'a> {
    filesystem: &'a Volume,
    complaints: Mutex<Complaints>,
    progress: Progress,
}

/// The state of one thread of the scan.
#[derive(Default)]
struct ThreadState {
    seen: u64,
    /// Sound inodes that are not printed yet.
    batch: Batch,
}

impl Scan<'_> {
    fn count(&self, options: &ScanOptions) -> ScanSummary {
        let visit = |state: &mut ThreadState, event: ScanEvent<'_>| self.visit(state, event, None);
        self.filesystem.scan_inodes(options, ThreadState::default, visit).0
    }

    fn list(&self, options: &ScanOptions, json: bool, output: &mut Output) -> Result<ScanSummary, Failure> {
        let printed = Mutex::default();
        let (sender, printer) = listing::channel(self.filesystem.geometry(), json, &printed);
        thread::scope(|scope| {
            let printing = thread::Builder::new().name("print".to_owned());
            let printing = printing.spawn_scoped(scope, || printer.run(output));
            let printing = printing
                .map_err(|error| Failure::caused_by(&error).about("cannot start the printing thread"))?;
            let visit =
                |state: &mut ThreadState, event: ScanEvent<'_>| self.visit(state, event, Some(&sender));
            let (summary, states) = self.filesystem.scan_inodes(options, ThreadState::default, visit);
            // Where printing has ended it says why.
            let _ = states.into_iter().try_for_each(|state| sender.hand_over(state.batch));
            drop(sender);
            match printing.join() {
                Ok(printed) => printed.map(|()| summary),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    fn visit(
        &self,
        state: &mut ThreadState,
        event: ScanEvent<'_>,
        listing: Option<&Sender<'_>>,
    ) -> ControlFlow<()> {
        state.seen += 1;
        if state.seen.is_multiple_of(PROGRESS_STEP) {
            self.progress.add(PROGRESS_STEP);
        }
        match event {
            ScanEvent::Inode(ScannedInode { core: Ok(_), bytes, .. }) => {
                return listing
                    .map_or(ControlFlow::Continue(()), |listing| listing.add(&mut state.batch, bytes));
            }
            ScanEvent::Inode(ScannedInode { core: Err(fault), number, .. }) => {
                let error = Corruption::new(Structure::Inode, Location::of_inode(number), fault).into();
                self.complain("inode scan".to_owned(), &error);
            }
            ScanEvent::UnreadableChunks { group, first, inode_count, error } => {
                let subject = format!("group {group}: {inode_count} inodes from {first} on");
                self.complain(subject, &error);
            }
            ScanEvent::UnreadableIndex { group, error } => {
                self.complain(format!("group {group}: inode index"), &error);
            }
        }
        ControlFlow::Continue(())
    }

    fn complain(&self, subject: String, error: &uxfs_volume::error::Error) {
        self.complaints.lock().add(subject, error);
    }
}

fn print_counts(summary: &ScanSummary, context: &Context, output: &mut Output) -> Result<(), Failure> {
    if context.json {
        let mut document = json!({
            "inodes": summary.inodes,
            "damaged_inodes": summary.damaged_inodes,
            "unread_inodes": summary.unread_inodes,
            "damaged_indexes": summary.damaged_indexes,
            "unseen_groups": summary.unseen_groups,
            "chunks": summary.chunks,
        });
        put_image(&mut document, context);
        output.json(&document)?;
        return Ok(());
    }
    writeln!(output, "{}", summary.inodes)?;
    let damage = [
        (summary.damaged_inodes, "damaged inode", ""),
        (summary.unread_inodes, "inode", " that could not be read"),
        (summary.damaged_indexes.into(), "damaged inode index", ""),
    ];
    for (count, name, what) in damage.iter().filter(|(count, ..)| *count > 0) {
        let plural = if name.ends_with('x') { "es" } else { "s" };
        notice!(Note::Damaged, "{count} {name}{}{what}", if *count == 1 { "" } else { plural });
    }
    Ok(())
}
