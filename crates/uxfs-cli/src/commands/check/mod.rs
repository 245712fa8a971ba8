//! `uxfs check`: compares every structure of a file system with every other.
//!
//! | module | holds |
//! |---|---|
//! | [`choice`] | which findings are wanted |
//! | [`report`] | findings as text and as JSON |
//! | [`page`] | `--html`: the image as a page |

mod choice;
mod page;
pub(super) mod report;

use std::{
    fs,
    io::{self, Read},
    num::NonZeroUsize,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use uxfs_block::{device::BlockDevice, engine::unread::UnreadDevice};
use uxfs_format::geometry::Geometry;
use uxfs_repair::{
    CheckOptions, Finding, SeeBlocks, Watch, check_watched,
    memory::Memory,
    opening::{self, Opened, OpeningOptions},
    pass::Pass,
};
use uxfs_volume::{error::Error, inode::scan::ScanOptions};

use self::{
    choice::{Choice, ChoiceArguments},
    page::{Cells, Page},
    report::Report,
};
use crate::{
    commands::Context,
    counted_kinds::Amount,
    ddrescue_map::MapArgument,
    failure::{About, Exit, Failure, Outcome},
    image::ImageArguments,
    output::set_image,
    paths::Paths,
    progress::{Measure, Progress, QuietArgument},
    text::{parse_size, parse_threads},
};

/// Arguments of `uxfs check`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Compares free space, reverse mappings, reference counts, inode indexes, inodes, extents, directories, \
    attributes, parent pointers, link counts and counters with each other. A dirty log is recovered in memory, and the file \
    system is checked as it will be. Each finding has a number that never changes: uxfs help finding N explains it.\n\
    Exits with 0 where nothing was found, with 3 where something was, and with 1 where there is no file system, or the check or its \
    output failed. A reader of the output that has gone (| head) changes no code.\n\
    Examples:\n  uxfs check disk.img\n  uxfs check --only damaged --json disk.img\n  uxfs check --path /var/log disk.img\n  uxfs check --html disk.html disk.img\n  uxfs check --map copy.map copy.img",
    mut_arg("tolerant", |argument| argument.hide(true)),
    mut_arg("superblock", |argument| argument
        .help("Use the superblock of allocation group N, or of the first one with a sound superblock")),
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
    /// Print every finding, not only the first ten of each number
    #[arg(short, long, conflicts_with = "summary")]
    all: bool,
    #[command(flatten)]
    choice: ChoiceArguments,
    #[command(flatten)]
    map: MapArgument,
    /// Draw the image block by block, with what was found, as a page that works offline. An existing page is replaced, and no other file;
    /// links stay, and lead to it
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Do not look for the paths of inodes
    #[arg(long)]
    no_paths: bool,
    /// Memory that the check may take, with K, M, G; more goes to temporary files in TMPDIR [default: 256M]
    #[arg(long, value_name = "BYTES", value_parser = parse_memory)]
    memory: Option<u64>,
    /// Threads, as far as --memory has room for them (8M each); with one, findings come in the same order every time
    /// [default: all processors]
    #[arg(short, long, value_name = "COUNT", value_parser = parse_threads)]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    quiet: QuietArgument,
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    set_image(&arguments.image.image);
    if arguments.memory.is_some() {
        // Where huge pages are always given, each touch of 2 MiB of addresses takes all of them. Old kernels have no such wish.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
    let image = &arguments.image;
    let device = device_of(arguments)?;
    let options = OpeningOptions {
        cache_budget_bytes: Some(image.cache_size.unwrap_or(arguments.memory().cache_bytes())),
        superblock: image.superblock_choice(),
        ignore_log: image.ignore_log,
        ..OpeningOptions::default()
    };
    let opened = opening::open(&device, &options).map_err(|error| image.not_opened(error))?;
    // Of features of the future nothing can be said. Recovery has judged a log that holds something.
    let features = opened.volume.superblock().feature_words().judge_with_clean_log();
    features.and_then(|judged| judged.write).map_err(Error::from).about_image(&image.image)?;
    let choice = arguments.choice.choice(&opened.volume)?;
    check_opened(opened, arguments, &choice, context)
}

impl Arguments {
    fn amount(&self) -> Amount {
        match (self.summary, self.all) {
            (true, _) => Amount::Counts,
            (false, true) => Amount::All,
            (false, false) => Amount::First,
        }
    }

    fn memory(&self) -> Memory {
        let memory = self.memory.map(Memory::of_bytes).unwrap_or_default();
        self.threads.map_or(memory, |threads| memory.with_threads(threads))
    }
}

/// What is checked. Sectors that the map does not say to be read cannot be read.
fn device_of(arguments: &Arguments) -> Result<Arc<dyn BlockDevice>, Failure> {
    let image = &arguments.image;
    let device = image.device_at_rest()?;
    let unread = arguments.map.unread(image, device.size_bytes());
    let unread = unread.map_err(|failure| match arguments.map.path().is_some_and(may_be_page) {
        true => failure.with_remedy("--html FILE draws the image as a page"),
        false => failure,
    })?;
    Ok(if unread.is_empty() { device } else { Arc::new(UnreadDevice::new(device, unread)) })
}

/// Whether the file named as a map may be meant for a page: it is not there, or is one.
fn may_be_page(path: &Path) -> bool {
    let mut first = [0];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut first));
    read.is_err() || first == *b"<"
}

fn page_of(arguments: &Arguments, geometry: &Geometry) -> Result<Option<Page>, Failure> {
    let Some(file) = &arguments.html else { return Ok(None) };
    let image = &arguments.image.image;
    Page::new(file, (image, &arguments.map.inputs(image)), geometry).map(Some)
}

fn parse_memory(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    match bytes < Memory::LEAST_BYTES {
        true => Err("give 64M at least".to_owned()),
        false => Ok(bytes),
    }
}

fn scan_of(arguments: &Arguments) -> ScanOptions {
    match arguments.threads {
        Some(NonZeroUsize::MIN) => ScanOptions::in_order(),
        _ => ScanOptions { threads: arguments.memory().threads(), ..ScanOptions::default() },
    }
}

/// The failure of a check that this machine ends: nothing is known of the image then.
fn failure_of_host(finding: &Finding, image: &Path) -> Option<Failure> {
    match finding {
        Finding::Unreadable { error } if error.is_of_host() => {
            Some(Failure::caused_by(error).about_image(image))
        }
        _ => None,
    }
}

fn check_opened(mut opened: Opened, arguments: &Arguments, choice: &Choice, context: &Context) -> Outcome {
    let volume = &opened.volume;
    let device: Arc<dyn BlockDevice> = Arc::clone(volume.device());
    let paths = match arguments.no_paths || (arguments.summary && arguments.html.is_none()) {
        true => Paths::default(),
        false => Paths::new(device),
    };
    let geometry = volume.geometry();
    let page = page_of(arguments, geometry)?;
    let cells = page.as_ref().map(|_| Cells::new(geometry));
    let mut report = Report::new(context.json, arguments.amount(), paths, geometry.clone(), page);
    let superblock = volume.superblock();
    let inodes = superblock.inode_count.get().saturating_sub(superblock.free_inodes.get());
    report.expected_inodes = inodes;
    let mut failure: Option<Failure> = None;
    let mut take = |finding: Finding| {
        if let Some(of_host) = failure_of_host(&finding, &arguments.image.image) {
            failure = Some(of_host);
            return ControlFlow::Break(());
        }
        if !choice.takes(&finding) {
            report.leave_out();
            return ControlFlow::Continue(());
        }
        match report.add(&finding) {
            Ok(()) if report.is_decided() => ControlFlow::Break(()),
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
    let memory = arguments.memory();
    let scan = scan_of(arguments);
    let total = Some(inodes.saturating_mul(2));
    let progress = Progress::new("checking", Measure::Things("inodes", total), arguments.quiet.quiet);
    let show = |inodes| progress.add(inodes);
    let see = cells.as_ref().map(|cells| |group, start, blocks, kind| cells.add(group, start, blocks, kind));
    let watch = Watch { progress: &show, see: see.as_ref().map(|see| see as &SeeBlocks<'_>) };
    // The page shows all blocks.
    let last_pass = if cells.is_some() { Pass::default() } else { choice.last_pass() };
    let options = CheckOptions { scan, memory, last_pass, group: choice.group() };
    let summary = check_watched(&opened.volume, &options, &watch, &mut take);
    drop(progress);
    if let Some(failure) = failure {
        return Err(failure);
    }
    if report.is_decided() {
        return Ok(report.exit());
    }
    if report.is_empty() {
        choice.require_inode(&opened.volume).about_image(&arguments.image.image)?;
    }
    if let Some(file) = &arguments.html {
        match report.write_page(cells.as_ref(), &summary) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            written => written.about_host(file)?,
        }
    }
    let image = arguments.image.image_place().with_map(arguments.map.path());
    Ok(report.finish(&summary, opened.recovery.as_ref(), &image)?)
}
