//! `uxfs rescue`: what can be had of a damaged image or a failing device.
//!
//! | module | holds |
//! |---|---|
//! | [`manifest`] | what is told of each file |
//! | [`resume`] | what a rescue leaves for the one that goes on with it |
//! | [`wanted`] | whether each pattern of `--only` matched something |

mod manifest;
mod resume;
mod wanted;

use std::{
    ffi::OsString,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use uxfs_block::{device::BlockDevice, ranges::RangeSet};
use uxfs_extract::{
    directory::{DirectoryOptions, DirectorySink},
    tar::stream::TarSink,
};
use uxfs_rescue::{
    RescueDevice, RescueError, RescueOptions, Summary,
    choice::Choice,
    deliver::Limits,
    rescue,
    target::Target,
    view::{Origin, View, ViewOptions, device_for},
};

use self::{manifest::Manifest, resume::Note, wanted::Wanted};
use super::extract::{open_archive, tell_not_restored};
use crate::{
    commands::Context,
    ddrescue_map::MapArgument,
    destination,
    failure::{About, Exit, Failure, Outcome},
    image::{ImageArguments, no_file_system},
    interrupt::Interrupt,
    kind::Note as Told,
    output::{notice, set_image},
    overwrite::{self, Product},
    stand_in::Holes,
    text::{counted, parse_size},
};

/// Contents that are written at most, in sizes of the image, unless `--max-total` says otherwise: files of a hostile image may all have
/// the same blocks.
const MOST_IMAGES: u64 = 4;

/// Arguments of `uxfs rescue`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The image is shown as uxfs repair would leave it, in memory; where no repair is possible, it is read as far as \
    it can be, and searched for inodes that nothing leads to (lost+found). Nothing is written to it.\n\
    First come directories, then small whole files, large whole ones, files of which a part is missing, and files about which \
    something had to be guessed. A file has its name only when it is complete: until then, and for good where a part is missing, \
    it is called NAME.partial. Missing bytes read as zeros.\n\
    Sectors that cannot be read are tried once, alone, and noted. Copy a failing disk with GNU ddrescue first, and give its map file \
    with --map: what the copy lacks then counts as unreadable, and does not pass for zeros.\n\
    Where the log may have newer changes that cannot be read, files are called perhaps older instead of whole. Ctrl-C ends a rescue \
    in order; --resume goes on with it.\n\
    Exits with 0 where everything is whole, with 3 where something is perhaps older, inferred, partial or lost, with 1 where there is no \
    file system, DIR or FILE cannot be written to, nothing matches a PATTERN, or it was interrupted.\n\
    Examples:\n  uxfs rescue disk.img --to rescued --manifest rescued.jsonl\n  \
    ddrescue /dev/sdb copy.img copy.map &&\n    uxfs rescue copy.img --map copy.map --to rescued\n  \
    uxfs rescue disk.img --only /srv/mail --only '*.jpg' --tar - |\n    zstd > rescued.tar.zst",
    mut_arg("tolerant", |argument| argument.hide(true)),
    mut_arg("superblock", |argument| argument
        .help("Use the superblock of allocation group N, or of the first one with a sound superblock")),
    mut_arg("repaired", |argument| argument.hide(true)),
    mut_arg("ignore_log", |argument| argument.hide(true)),
    mut_arg("no_lock", |argument| argument
        .help("Read even while the image is mounted or another program changes it; no file is called whole then")),
)]
pub struct Arguments {
    #[command(flatten)]
    image: ImageArguments,
    #[command(flatten)]
    place: Destination,
    /// Only what matches PATTERN, and all below it: a path from /, or a name at any depth; with * ? [a-z] as in a shell
    #[arg(long, value_name = "PATTERN")]
    only: Vec<OsString>,
    #[command(flatten)]
    map: MapArgument,
    /// Write a line of JSON about each file to this file. An existing manifest is replaced, and no other file
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Put the SHA-256 of each file into the manifest
    #[arg(long)]
    digest: bool,
    /// Go on where an earlier run ended: keep complete files of the same size and time, and try the others again. A run that had
    /// --map needs it again
    #[arg(long, requires = "to")]
    resume: bool,
    /// Do not write files of which a part is missing; the manifest lists them
    #[arg(long)]
    skip_partial: bool,
    /// Do not write files larger than this
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    max_size: Option<u64>,
    /// Write no more than this in all [default: four times the size of the image]
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    max_total: Option<u64>,
    /// Use no older copies of metadata that the log holds
    #[arg(long)]
    no_log_copies: bool,
    /// Print whole files as well
    #[arg(short, long)]
    verbose: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

/// Where to.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Destination {
    /// Write files below this directory, which must be empty, or is made
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Write a pax archive to this file, or to standard output for -. An existing archive is replaced, and no
    /// other file
    #[arg(long, value_name = "FILE")]
    tar: Option<PathBuf>,
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    set_image(&arguments.image.image);
    let image = &arguments.image;
    arguments.check_outputs()?;
    arguments.check_directory()?;
    let user = image.user();
    let inner = image.device_to_rescue()?;
    let view_options = ViewOptions {
        cache_budget_bytes: image.cache_size,
        superblock: image.superblock_choice(),
        ignore_log_copies: arguments.no_log_copies,
        user,
        ..ViewOptions::default()
    };
    let device = arguments.device(inner, &view_options)?;
    let view = View::open(&device, &view_options).map_err(|error| image.not_opened(error))?;
    drop(view.drain());
    tell_missing_end(&device);
    tell_origin(&view);
    let note = arguments.note();
    if let Some(note) = note.as_ref().filter(|_| arguments.resume) {
        note.require_map(arguments.manifest.as_deref(), device.unreadable().total_bytes())?;
    }
    let mut manifest = arguments.open_manifest(context)?;
    // Before that nothing has been written: a signal may end the process at once.
    let interrupt = Interrupt::watch().map_err(|error| Failure::caused_by(&error).about("signals"))?;
    manifest.begin(&view, &device, view_options.user.as_deref(), (&image.image, arguments.map.path()));
    let summary = match (&arguments.place.to, &arguments.place.tar) {
        (Some(directory), _) => {
            let options = DirectoryOptions { overwrite: arguments.resume };
            let mut sink = DirectorySink::create(directory, options)
                .map_err(|error| Failure::from(error).at_host_tree(directory))?;
            note.iter().for_each(|note| note.put(0));
            arguments.carry_out(&device, &view, &mut sink, &mut manifest, &interrupt)
        }
        (None, file) => {
            let file = file.as_deref().unwrap_or(Path::new("-"));
            let mut sink = TarSink::new(open_archive(file, destination::create)?);
            arguments
                .carry_out(&device, &view, &mut sink, &mut manifest, &interrupt)
                .map_err(|failure| destination::named(failure, file))
        }
    };
    let summary = match summary {
        // The reader of the archive has what it wanted.
        Err(failure) if failure.is_quiet() && view.is_sound() => return Ok(Exit::Success),
        Err(failure) if failure.is_quiet() => return Ok(Exit::Corruption),
        summary => summary?,
    };
    if let Some(note) = &note {
        match summary.is_whole() && arguments.only.is_empty() {
            true => note.remove(),
            false => note.put(device.failed_bytes()),
        }
    }
    manifest.finish(&summary, &device)?;
    if !context.json {
        summary.not_restored.values().for_each(|(count, example)| tell_not_restored(*count, example));
    }
    if summary.is_interrupted {
        return Ok(Exit::Failed);
    }
    let unmatched = manifest.wanted.tell(context.json);
    Ok(match summary.is_whole() && view.is_sound() {
        true => unmatched,
        false => Exit::Corruption,
    })
}

impl Arguments {
    /// Refuses to write over what is read, and to write nowhere.
    fn check_outputs(&self) -> Result<(), Failure> {
        let inputs = self.map.inputs(&self.image.image);
        if let Some(output) = &self.place.tar {
            overwrite::refuse_or_other(output, &inputs, Product::Archive)?;
        }
        if let Some(output) = &self.manifest {
            overwrite::refuse_or_other(output, &inputs, Product::Manifest)?;
        }
        if let Some(archive) = &self.place.tar {
            destination::must_take(archive, "an archive")?;
        }
        // Nothing of the host is replaced before it is known that all of it can be written.
        for output in self.place.to.iter().chain(&self.place.tar).chain(&self.manifest) {
            destination::must_have_folder(output)?;
        }
        if let (Some(archive), Some(manifest)) = (&self.place.tar, &self.manifest) {
            overwrite::refuse_same_outputs(archive, manifest)?;
        }
        let Some(directory) = self.place.to.as_deref().filter(|_| self.resume) else { return Ok(()) };
        let paths = [Some(self.image.image.as_path()), self.map.path()];
        let within =
            paths.into_iter().flatten().find(|path| overwrite::path_within(directory, path).is_some());
        match within {
            Some(path) => {
                Err(Failure::usage("it lies in the directory that files are written to")).about_host(path)
            }
            None => Ok(()),
        }
    }

    /// Of a rescue into a directory.
    fn note(&self) -> Option<Note<'_>> {
        let directory = self.place.to.as_deref()?;
        Some(Note { directory, image: &self.image.image, map: self.map.path() })
    }

    /// Refuses a directory that holds something: files of two rescues would mix. To go on, it must tell upper from lower case: files of an
    /// earlier rescue are known by their names.
    fn check_directory(&self) -> Result<(), Failure> {
        if let Some(directory) = self.place.to.as_deref().filter(|_| self.resume)
            && folds_case(directory)
        {
            let failure = Failure::usage("--resume: the directory does not tell upper from lower case");
            return Err(failure.about_host(directory).with_remedy("use another directory, or --tar"));
        }
        let Some(directory) = self.place.to.as_deref().filter(|_| !self.resume) else { return Ok(()) };
        let is_empty = fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_none());
        if is_empty {
            return Ok(());
        }
        let failure = Failure::usage("the directory is not empty").about_host(directory);
        Err(failure.with_remedy("--resume goes on with an earlier rescue"))
    }

    /// The device with what the map says, as long as the file system.
    fn device(
        &self,
        inner: Arc<dyn BlockDevice>,
        options: &ViewOptions,
    ) -> Result<Arc<RescueDevice>, Failure> {
        let unread = self.map.unread(&self.image, inner.size_bytes())?;
        Ok(device_for(inner, unread, options))
    }

    fn open_manifest(&self, context: &Context) -> Result<Manifest, Failure> {
        let file = self
            .manifest
            .as_deref()
            .map(|path| fs::File::create(path).map_err(|error| Failure::caused_by(&error)).about_host(path));
        let mut manifest = Manifest::new(file.transpose()?, context.json, self.verbose, self.quiet);
        manifest.wanted = Wanted::new(&self.only);
        Ok(match self.place.tar.as_deref() {
            Some(archive) => manifest.of_archive(destination::is_standard_output(archive)),
            None => manifest,
        })
    }

    fn carry_out<T: Target>(
        &self,
        device: &Arc<RescueDevice>,
        view: &View,
        target: &mut T,
        manifest: &mut Manifest,
        interrupt: &Interrupt,
    ) -> Result<Summary, Failure> {
        let most_total_bytes = self.max_total.unwrap_or(device.size_bytes().saturating_mul(MOST_IMAGES));
        let limits = Limits {
            skips_partial: self.skip_partial,
            most_file_bytes: self.max_size,
            most_total_bytes: Some(most_total_bytes),
            resumes: self.resume,
            hashes: self.digest,
        };
        let choice = Choice::new(self.only.iter().map(|pattern| pattern.as_bytes()));
        let holes = holes_of(self, device.end())?;
        let options = RescueOptions { choice, limits, holes, interrupt: interrupt.flag() };
        match rescue(device, view, target, &options, manifest) {
            Ok(summary) => Ok(summary),
            Err(RescueError::Target(error)) => Err(error.into()),
            Err(RescueError::Volume(error)) => Err(no_file_system(error).about_image(&self.image.image)),
        }
    }
}

/// Holes of the image file. With a map they tell nothing.
fn holes_of(arguments: &Arguments, end: u64) -> Result<RangeSet, Failure> {
    let mut set = RangeSet::default();
    if arguments.map.path().is_none() {
        let image = &arguments.image.image;
        let start_bytes = arguments.image.place.find(image).about_image(image)?.start_bytes;
        let holes = Holes::of(image, start_bytes);
        holes.iter().flat_map(|holes| holes.until(end)).for_each(|hole| set.insert(hole));
    }
    Ok(set)
}

/// Whether a directory takes names for one that differ in case only.
fn folds_case(directory: &Path) -> bool {
    let Ok(probe) = tempfile::Builder::new().prefix(".uxfs-Case-").tempfile_in(directory) else {
        return false;
    };
    let name = probe.path().file_name().map(|name| name.to_ascii_lowercase());
    name.is_some_and(|name| fs::symlink_metadata(directory.join(name)).is_ok())
}

/// Says on standard error that the image has been truncated.
fn tell_missing_end(device: &RescueDevice) {
    let (found_bytes, needed_bytes) = (device.end(), device.size_bytes());
    if found_bytes < needed_bytes {
        notice!(
            Told::Incomplete,
            "the image has {found_bytes} bytes, and its file system takes {needed_bytes}: the rest counts as unreadable"
        );
    }
}

/// Says on standard error what the files are taken from.
fn tell_origin(view: &View) {
    match &view.origin {
        Origin::Sound => {}
        Origin::Repaired { changes } => {
            notice!(
                Told::AsRepaired,
                "files are taken from the image as a repair would leave it ({}); nothing is written to it",
                counted(*changes as u64, "change")
            );
        }
        Origin::RepairedInPart { changes, findings } => notice!(
            Told::AsRepaired,
            "files are taken from the image as a repair would leave it ({}), which does not mend all of it \
             ({} left); nothing is written to it",
            counted(*changes as u64, "change"),
            counted(*findings, "finding")
        ),
        Origin::Damaged { error } => {
            notice!(
                Told::Damaged,
                "no repair is possible ({error}): files are taken from the image as it is"
            );
        }
    }
    if let Some(doubt) = view.evidence.doubt_about_all() {
        notice!(Told::Incomplete, "{}", doubt.reasons.join("; "));
    }
}
