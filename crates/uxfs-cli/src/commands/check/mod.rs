//! `uxfs check`: compares every structure of a file system with every other.
//!
//! | module | holds |
//! |---|---|
//! | [`choice`] | which findings are wanted |
//! | [`report`] | findings as text and as JSON |

mod choice;
pub(super) mod report;

use std::{num::NonZeroUsize, ops::ControlFlow, sync::Arc};

use uxfs_block::device::BlockDevice;
use uxfs_repair::{
    CheckOptions, Finding, check_with_progress,
    opening::{self, Opened, OpeningOptions},
};
use uxfs_volume::inode::scan::ScanOptions;

use self::{
    choice::{Choice, ChoiceArguments},
    report::Report,
};
use crate::{
    commands::Context,
    failure::{About, Exit, Failure, Outcome},
    image::{ImageArguments, no_file_system},
    paths::Paths,
    progress::Progress,
};

/// Arguments of `uxfs check`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Compares free space, reverse mappings, reference counts, inode indexes, inodes, extents, directories, \
    attributes, parent pointers, link counts and counters with each other. A dirty log is recovered in memory, and the file \
    system is checked as it will be. Each finding has a number that never changes.\n\
    Exits with 0 where nothing was found, with 3 where something was.\n\
    Examples:\n  uxfs check disk.img\n  uxfs check --only damaged --json disk.img\n  uxfs check --path /var/log disk.img",
    mut_arg("tolerant", |argument| argument.hide(true)),
    mut_arg("repaired", |argument| argument.hide(true)),
    mut_arg("no_lock", |argument| argument
        .help("Check even while the image is mounted or another program changes it; findings may be false")),
)]
pub struct Arguments {
    #[command(flatten)]
    image: ImageArguments,
    /// Print only how many findings of each number there are
    #[arg(short, long)]
    summary: bool,
    #[command(flatten)]
    choice: ChoiceArguments,
    /// Do not look for the paths of inodes
    #[arg(long)]
    no_paths: bool,
    /// Threads; with one, findings come in the same order every time [default: all processors]
    #[arg(short, long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    let image = &arguments.image;
    let device = image.device_at_rest()?;
    let options = OpeningOptions {
        cache_budget_bytes: image.cache_size,
        superblock: image.superblock_choice(),
        ignore_log: image.ignore_log,
    };
    let opened = opening::open(&device, &options).map_err(no_file_system).about(image.image.display())?;
    let choice = arguments.choice.choice(&opened.volume)?;
    check_opened(opened, arguments, &choice, context)
}

fn check_opened(mut opened: Opened, arguments: &Arguments, choice: &Choice, context: &Context) -> Outcome {
    let volume = &opened.volume;
    let device: Arc<dyn BlockDevice> = Arc::clone(volume.device());
    let paths = match arguments.no_paths || arguments.summary {
        true => Paths::default(),
        false => Paths::new(device),
    };
    let mut report = Report::new(context.json, arguments.summary, paths, volume.geometry().clone());
    let mut failure: Option<Failure> = None;
    let mut take = |finding: Finding| {
        if !choice.takes(&finding) {
            return ControlFlow::Continue(());
        }
        match report.add(&finding) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error.into());
                ControlFlow::Break(())
            }
        }
    };
    let mut is_stopped = false;
    for finding in std::mem::take(&mut opened.findings) {
        is_stopped |= take(finding).is_break();
    }
    if is_stopped {
        return failure.map_or(Ok(Exit::Corruption), Err);
    }
    let scan = match arguments.threads {
        None => ScanOptions::default(),
        Some(NonZeroUsize::MIN) => ScanOptions::in_order(),
        Some(threads) => ScanOptions { threads, ..ScanOptions::default() },
    };
    let superblock = opened.volume.superblock();
    let inodes = superblock.inode_count.get().saturating_sub(superblock.free_inodes.get());
    let progress = Progress::new("inodes", Some(inodes.saturating_mul(2)));
    let show = |inodes| progress.add(inodes);
    let summary = check_with_progress(&opened.volume, &CheckOptions { scan }, &show, &mut take);
    drop(progress);
    if let Some(failure) = failure {
        return Err(failure);
    }
    Ok(report.finish(&summary, opened.recovery.as_ref())?)
}
