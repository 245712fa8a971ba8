//! `uxfs mkfs`: makes a file system, with the options of mkfs.xfs.
//!
//! | module | holds |
//! |---|---|
//! | [`arguments`] | the command line |
//! | [`config`] | configuration files, read and written |
//! | [`source`] | what it is filled with |
//! | [`times`] | other times than the source's |
//! | [`filled`] | making and filling in one go |

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::json;
use uxfs_block::device::BlockDevice;
use uxfs_format::superblock::Superblock;
use uxfs_mkfs::{
    empty::{self, Written},
    identity::{BadTime, Identity, TIME_VARIABLE},
    layout::{Layout, LayoutError, Warning},
    options::{OptionError, Options, grammar::Setting, number::Units},
    summary::Summary,
    target::{FileSize, Reserved, Target, TargetError},
};

use uxfs_populate::{adjust::Adjustments, contents::Contents, fit::Fit, make::Making, report::Report};
use uxfs_source::{entry::Timestamp, open::Source};

use self::{
    arguments::WantedSize,
    source::{Proto, Survey},
};
use crate::{
    commands::{Context, info::layout_document},
    drop_in,
    failure::{About, Exit, Failure, Outcome},
    kind::{Kind, Note},
    output::put_path,
    output::{Output, notice, program},
    overwrite::Input,
    partitions::Disk,
    progress::{self, closing::Closing},
    remains::{self, Remains},
};

mod arguments;
mod config;
mod filled;
mod source;
mod times;

pub use arguments::Arguments;

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    if arguments.print_version {
        let mut output = Output::new();
        match program() {
            "uxfs" => writeln!(output, "uxfs {}, compatible with mkfs.xfs 7.2", env!("CARGO_PKG_VERSION"))?,
            _ => writeln!(output, "{}", drop_in::version())?,
        }
        output.finish()?;
        return Ok(Exit::Success);
    }
    let mut options = arguments.options()?;
    config::read_files(&mut options)?;
    let path = device(arguments, &options)?;
    let companions = arguments.source.companions();
    let companions = companions.iter().map(|path| Input::new("file of labels", path));
    let inputs: Vec<_> =
        config::inputs(&options).chain(arguments.source.inputs()).chain(companions).collect();
    config::refuse_overwriting(&options, path, &inputs)?;
    make(arguments, &options, path, context).about_image(path)
}

fn make(arguments: &Arguments, options: &Options, path: &Path, context: &Context) -> Outcome {
    let is_dry_run = arguments.dry_run || options.has(Setting::ConfigMake);
    let mut options = options.clone();
    let (identity, problem) = identity(arguments, &options)?;
    let epoch =
        std::env::var_os(TIME_VARIABLE).filter(|_| problem.is_none()).map(|_| timestamp(identity.now));
    if let Some(problem) = problem {
        notice!(Note::Option, "warning: {problem}");
    }
    let remains = Remains::begin(format!("{}: nothing has been written", path.display()));
    let is_filled = arguments.source.is_given() || options.text(Setting::ProtoFile).is_some();
    let mut reserved = if is_filled && !is_dry_run { Some(Reserved::make(path)?) } else { None };
    reserved.as_ref().and_then(Reserved::file).into_iter().for_each(|file| remains::reserved(path, file));
    let part = arguments.place.find_to_make(path)?;
    let mut filling = Filling::open(arguments, &options, path, &identity, epoch)?;
    let size = match &mut filling {
        Some(filling) if is_fitted(arguments, &options, path) => {
            options.size_bytes = Some(filling.fit(arguments, &options, &identity, path)?);
            FileSize::Exactly(options.size_bytes.unwrap_or_default())
        }
        None if arguments.size == Some(WantedSize::Fit) => {
            return Err(Failure::usage("--size fit needs --from"));
        }
        _ => file_size(arguments, &options, filling.is_some() && is_new(path))?,
    };
    let mut target = Target::open_part(path, part, size, is_dry_run)?;
    target.made_file().into_iter().for_each(|file| remains::made(path, file));
    let (layout, warnings) = Layout::resolve(&options, target.facts())?;
    tell(&warnings, arguments);
    if !arguments.force {
        // A file that is emptied anyway needs no second word, unless it is for its contents' sake.
        let is_emptied = matches!(size, FileSize::Exactly(_)) && filling.is_none();
        refuse_what_is_there(arguments, &target, is_emptied, &layout.superblock(identity.uuid))?;
    }
    empty::check(&layout, &identity)?;
    if let Some(filling) = &mut filling {
        let checked = filling.check(arguments);
        checked.map_err(|failure| failure.at_host_tree(&filling.name))?;
    }
    if let Some(path) = options.text(Setting::ConfigMake) {
        return config::write_file(&layout, path);
    }
    let superblock = layout.superblock(identity.uuid);
    // The file system is made whether or not its summary can be printed.
    let mut printed = if context.json { Ok(()) } else { print(&superblock, path, arguments.quiet) };
    let mut made = Made::default();
    if !arguments.dry_run {
        remains.say(format!("{}: {LOST}", path.display()));
        remains::begun(path);
        reserved.iter_mut().for_each(Reserved::begun);
        let device = target.prepare(&layout, !arguments.keep)?;
        made = match &mut filling {
            None => Made { written: empty::format(&*device, &layout, &identity)?, ..Made::default() },
            Some(filling) => filling.fill(arguments, &options, &device, &layout, &identity)?,
        };
        remains.kept();
        target.keep();
        if let Some(reserved) = reserved {
            reserved.keep();
        }
    }
    if context.json {
        printed = print_json(&superblock, path, &made, arguments.dry_run);
    } else if !arguments.quiet {
        printed = printed.and_then(|()| print_closing(&made));
    }
    printed?;
    Ok(filled::exit(made.report.as_ref()))
}

fn refuse_what_is_there(
    arguments: &Arguments,
    target: &Target,
    is_emptied: bool,
    superblock: &Superblock,
) -> Result<(), Failure> {
    let path = target.path();
    if arguments.place.is_given() || !is_emptied {
        target.refuse_occupied().map_err(|error| occupied(error, arguments, path))?;
    }
    if target.made_file().is_some() {
        return Ok(());
    }
    let block_bytes = u64::from(superblock.block_size_bytes.get());
    arguments.place.refuse_over_partitions(path, superblock.data_blocks.get().saturating_mul(block_bytes))
}

/// What has been made.
#[derive(Default)]
struct Made {
    written: Written,
    /// Of what it was filled with.
    report: Option<Report>,
    closing: Option<Closing>,
}

/// The state of an image after a failure in the middle of making it.
const LOST: &str = "it holds no complete file system, and what was there is lost";

/// An image is made to fit where that is asked for, or where it is to be filled and no size is known.
fn is_fitted(arguments: &Arguments, options: &Options, path: &Path) -> bool {
    match arguments.size {
        Some(WantedSize::Fit) => true,
        Some(WantedSize::Bytes(_)) => false,
        None if arguments.place.is_in_partition() || options.has(Setting::DataSize) => false,
        None => is_new(path),
    }
}

/// Whether there is no file yet, or an empty one.
fn is_new(path: &Path) -> bool {
    !path.exists() || path.metadata().is_ok_and(|found| found.is_file() && found.len() == 0)
}

/// A disk with partitions: those are told.
fn occupied(error: TargetError, arguments: &Arguments, path: &Path) -> Failure {
    let partitions = arguments.place.is_whole_image().then(|| Disk::open(path).ok()?.partitions()).flatten();
    let failure = Failure::from(error);
    match partitions {
        Some(partitions) => {
            failure.with_remedy(&format!("--partition N makes it in a partition: {partitions}"))
        }
        None => failure,
    }
}

/// Uuid, time and random numbers: fixed ones for reproducible images.
fn identity(arguments: &Arguments, options: &Options) -> Result<(Identity, Option<BadTime>), Failure> {
    let (mut identity, problem) = Identity::from_environment(options.uuid()?, |name| std::env::var_os(name));
    if arguments.source.reproducible {
        identity.make_reproducible(options.uuid()?.is_some(), std::env::var_os(TIME_VARIABLE).is_some());
    }
    Ok((identity, problem))
}

/// Says how many files were left out; each has been named.
fn tell_unreadable(report: &Report) {
    if report.unreadable_count > 0 {
        notice!(
            Note::Source,
            "{} of the source could not be read and are not in the image, or not whole",
            report.unreadable_count
        );
    }
}

/// A time as sources have it.
fn timestamp(time: uxfs_volume::inode::Timestamp) -> Timestamp {
    Timestamp { seconds: time.seconds, nanoseconds: time.nanoseconds }
}

/// The opened sources of a file system.
struct Filling {
    name: PathBuf,
    image: PathBuf,
    contents: Contents,
    adjustments: Adjustments,
    options: uxfs_populate::Options,
    /// The image is there, and may hold something.
    replaces: bool,
}

impl Filling {
    fn open(
        arguments: &Arguments,
        options: &Options,
        path: &Path,
        identity: &Identity,
        epoch: Option<Timestamp>,
    ) -> Result<Option<Self>, Failure> {
        let now = timestamp(identity.now);
        let proto = options.text(Setting::ProtoFile).map(|proto| Proto {
            path: Path::new(proto),
            keeps_access_times: options.switch(Setting::ProtoAccessTime, false),
            slashes_are_spaces: options.switch(Setting::ProtoSlashesAreSpaces, false),
            now,
        });
        if proto.is_none() && !arguments.source.is_given() {
            return Ok(None);
        }
        let name = proto.map(|proto| proto.path.to_path_buf());
        let name = name.or_else(|| arguments.source.from.first().cloned()).unwrap_or_default();
        let opened = arguments.source.open(proto.as_ref(), path, is_fitted(arguments, options, path));
        let contents = opened.map_err(|failure| failure.at_host_tree(&name))?;
        let adjustments = arguments.source.adjustments(epoch, now)?;
        let options = arguments.source.options(proto.as_ref());
        let replaces = path.metadata().is_ok_and(|found| !found.is_file() || found.len() > 0);
        Ok(Some(Self { name, image: path.to_path_buf(), contents, adjustments, options, replaces }))
    }

    /// Looks for what is wrong with the source before the first byte is written. All files of a directory are opened once where the image
    /// would be lost.
    fn check(&mut self, arguments: &Arguments) -> Result<(), Failure> {
        let is_at_stake = self.replaces && arguments.force && !arguments.dry_run;
        match &mut self.contents {
            Contents::One(Source::Stream(source)) => source.check()?,
            contents if is_at_stake && !arguments.source.skip_unreadable => contents.check()?,
            _ => {}
        }
        Ok(())
    }

    fn fit(
        &mut self,
        arguments: &Arguments,
        options: &Options,
        identity: &Identity,
        path: &Path,
    ) -> Result<u64, Failure> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        self.fitting(arguments, options, identity, directory, arguments.source.free)
    }

    fn fitting(
        &mut self,
        arguments: &Arguments,
        options: &Options,
        identity: &Identity,
        directory: &Path,
        free_percent: u64,
    ) -> Result<u64, Failure> {
        let (counts, _progress) = filled::measuring(arguments.quiet);
        let mut fit = Fit {
            mkfs: options,
            identity,
            directory,
            options: self.options,
            adjustments: &mut self.adjustments,
            cache_bytes: arguments.source.cache_size,
            free_percent,
            progress: &counts,
        };
        fit.size_bytes(&mut self.contents).map_err(|error| Failure::from(error).at_host_tree(&self.name))
    }

    /// Fills it, and tells what could not be done as it was meant.
    fn fill(
        &mut self,
        arguments: &Arguments,
        options: &Options,
        device: &Arc<dyn BlockDevice>,
        layout: &Layout,
        identity: &Identity,
    ) -> Result<Made, Failure> {
        let closing = Closing::begin("filled with");
        let made = self.make(arguments, options, device, layout, identity);
        let (written, report) =
            made.map_err(|failure| if self.replaces { failure.with_remains(LOST) } else { failure })?;
        filled::tell_problems(&report, &self.name);
        tell_unreadable(&report);
        arguments.source.tell_unmatched(&mut self.adjustments);
        arguments.source.tell_unlabelled(&self.adjustments);
        let closing = filled::close(closing, &report, device);
        Ok(Made { written, report: Some(report), closing: Some(closing) })
    }

    fn make(
        &mut self,
        arguments: &Arguments,
        options: &Options,
        device: &Arc<dyn BlockDevice>,
        layout: &Layout,
        identity: &Identity,
    ) -> Result<(Written, Report), Failure> {
        let survey =
            progress::is_shown().then(|| Survey::of(&self.contents, &self.name, &self.image)).flatten();
        let making = Making {
            layout,
            identity,
            adjustments: &mut self.adjustments,
            options: self.options,
            cache_bytes: arguments.source.cache_size,
        };
        match filled::make(device, &mut self.contents, making, survey, arguments.quiet) {
            Ok(made) => Ok(made),
            Err(error) if error.is_full() => {
                let mut larger = options.clone();
                larger.size_bytes = None;
                larger.unset(Setting::DataSize);
                let needed = self.fitting(arguments, &larger, identity, &std::env::temp_dir(), 0);
                let needed = needed.map_or_else(
                    |_| "more space than there is".to_owned(),
                    |bytes| format!("an image of at least {} MiB", bytes.div_ceil(1 << 20)),
                );
                let words = format!("{error}; the contents need {needed} (or --size fit)");
                Err(Failure::refused(Kind::NoSpace, words))
            }
            Err(error) => Err(Failure::from(error).at_host_tree(&self.name)),
        }
    }
}

/// The device is the last argument, or named in the options; not both.
fn device<'a>(arguments: &'a Arguments, options: &'a Options) -> Result<&'a Path, Failure> {
    let named = options.text(Setting::DataName).map(Path::new);
    match (&arguments.image, named) {
        (Some(_), Some(_)) => Err(Failure::usage("the image is given twice: as IMAGE and with -d name=")),
        (Some(image), None) => Ok(image),
        (None, Some(name)) => Ok(name),
        (None, None) => Err(Failure::usage("IMAGE is missing")),
    }
}

/// The size of the image file, if it is a file. `is_made`: a new file that is to be filled is made without a further word.
fn file_size(arguments: &Arguments, options: &Options, is_made: bool) -> Result<FileSize, Failure> {
    if let Some(WantedSize::Bytes(bytes)) = arguments.size {
        return Ok(FileSize::AtLeast(bytes));
    }
    if !options.switch(Setting::DataFile, false) && !is_made {
        return Ok(FileSize::Present);
    }
    // Units of blocks and sectors are those of the options; the layout refuses invalid ones.
    let or = |setting, default| match options.size(setting, NO_UNITS) {
        Ok(Some(bytes)) => Some(bytes),
        _ => Some(default),
    };
    let units =
        Units { block_bytes: or(Setting::BlockSize, 4096), sector_bytes: or(Setting::SectorSize, 512) };
    match options.size(Setting::DataSize, units)? {
        Some(bytes) => Ok(FileSize::Exactly(bytes)),
        None if is_made => Ok(FileSize::Present),
        None => Err(Failure::usage("-d file needs -d size=")),
    }
}

const NO_UNITS: Units = Units { block_bytes: None, sector_bytes: None };

fn tell(warnings: &[Warning], arguments: &Arguments) {
    // fstests makes thousands of small file systems, and compares the output.
    let is_told = |warning: &&Warning| **warning != Warning::Unsupported || arguments.unsupported;
    for warning in warnings.iter().filter(is_told) {
        notice!(Note::Option, "warning: {warning}");
    }
}

fn print(superblock: &Superblock, path: &Path, quiet: bool) -> Result<(), Failure> {
    let mut output = Output::new();
    if !quiet {
        write!(output, "{}", Summary { superblock, name: &path.display().to_string() })?;
    }
    Ok(output.finish()?)
}

/// Prints the closing sentence; mkfs.xfs has none.
fn print_closing(made: &Made) -> Result<(), Failure> {
    let mut output = Output::new();
    if let Some(closing) = made.closing.filter(|_| program() == "uxfs") {
        writeln!(output, "{closing}")?;
    }
    Ok(output.finish()?)
}

fn print_json(superblock: &Superblock, image: &Path, made: &Made, dry_run: bool) -> Result<(), Failure> {
    let mut document = layout_document(superblock);
    put_path(&mut document, "image", image);
    document["written_bytes"] = json!(made.written.bytes);
    document["dry_run"] = json!(dry_run);
    if let Some(report) = &made.report {
        document["contents"] = filled::document(report);
    }
    let mut output = Output::new();
    output.json(&document)?;
    Ok(output.finish()?)
}

impl From<OptionError> for Failure {
    fn from(error: OptionError) -> Self {
        let message = error.to_string();
        if error.is_unsupported() { Self::unsupported(message) } else { Self::usage(message) }
    }
}

impl From<LayoutError> for Failure {
    fn from(error: LayoutError) -> Self {
        let message = error.to_string();
        if error.is_unsupported() { Self::unsupported(message) } else { Self::usage(message) }
    }
}

impl From<TargetError> for Failure {
    fn from(error: TargetError) -> Self {
        Self::caused_by(&error)
    }
}

impl From<empty::FormatError> for Failure {
    fn from(error: empty::FormatError) -> Self {
        Self::caused_by(&error)
    }
}
