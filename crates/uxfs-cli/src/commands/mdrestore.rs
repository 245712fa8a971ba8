//! `uxfs mdrestore`: an image from a dump of metadata.

use std::{
    fs::{self, File},
    io::{self, BufReader, Read, Write},
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::OFlags;
use serde_json::json;
use uxfs_block::{
    claim::{Claimed, Lock},
    device::BlockDevice,
    engine::{OpenOptions, open_claimed},
    window::Part,
};
use uxfs_metadump::{
    format::DumpFlags,
    restore::{DumpInformation, RestoreError, RestoreSummary, Target, information, restore},
};

use crate::{
    commands::Context,
    failure::{About, Exit, Failure, Outcome},
    output::Output,
    output::put_path,
    overwrite,
    place::PlaceArguments,
    progress::{Measure, Progress, QuietArgument, closing::Closing},
    remains::Remains,
};

/// Arguments of `uxfs mdrestore`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads a dump that uxfs metadump or xfs_metadump made, of version 1 or 2, and makes the file system that was dumped, \
    without the contents of files. TARGET is made if it is missing; it is sparse. Its superblock is written last.\n\
    Examples:\n  uxfs mdrestore disk.metadump disk.img\n  zstd -dc sda1.metadump.zst | uxfs mdrestore - sda1.img\n  \
    uxfs mdrestore -i disk.metadump\n  \
    uxfs mdrestore -f --partition 2 disk.metadump disk.img"
)]
pub struct Arguments {
    /// The dump, or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) source: PathBuf,
    /// File or block device that becomes the file system
    #[arg(value_name = "TARGET", required_unless_present = "information")]
    pub(crate) target: Option<PathBuf>,
    /// Overwrite a file that is not empty, or a block device
    #[arg(short = 'f', long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    #[command(flatten)]
    pub(crate) quiet: QuietArgument,
    /// Accepted: progress is shown on a terminal unless -q is given
    #[arg(short = 'g', long)]
    pub(crate) progress: bool,
    /// Show what the dump says of itself, and restore nothing
    #[arg(short = 'i', long = "info", conflicts_with_all = ["target", "force"])]
    pub(crate) information: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    let name = arguments.source.display();
    let mut source = arguments.open_source().about_host(&arguments.source)?;
    let mut output = Output::new();
    let Some(path) = arguments.target.as_ref().filter(|_| !arguments.information) else {
        let found = information(&mut source).map_err(failure).about_host(&arguments.source)?;
        match context.json {
            true => output.json(&with_dump(information_document(&found), &arguments.source))?,
            false => writeln!(output, "{name}: {}", words(&found))?,
        }
        output.finish()?;
        return Ok(Exit::Success);
    };
    overwrite::refuse(path, &[overwrite::Input::new("dump", &arguments.source)])?;
    let part = arguments.place.find_to_make(path).about_image(path)?;
    let mut target = ImageTarget::new(path, part, arguments.force);
    let mut closing = Closing::begin("restored");
    let progress = Progress::new("restoring", Measure::Bytes("", None), arguments.quiet.quiet);
    let mut show = |bytes: u64| progress.set(bytes);
    let restored = restore(&mut source, &mut target, &mut show);
    drop(progress);
    let summary = restored.map_err(|error| match error {
        RestoreError::Write(_) | RestoreError::Target(_) | RestoreError::TargetTooShort { .. } => {
            failure(error).about_image(path)
        }
        error => failure(error).about_host(&arguments.source),
    })?;
    target.keep();
    closing.bytes = summary.bytes;
    closing.things = (summary.extents, "extents");
    closing.tell(arguments.quiet.quiet);
    if context.json {
        let mut document = with_dump(document(&summary), &arguments.source);
        put_path(&mut document, "image", path);
        output.json(&document)?;
    }
    output.finish()?;
    Ok(Exit::Success)
}

impl Arguments {
    fn open_source(&self) -> Result<Box<dyn Read>, Failure> {
        if self.source == Path::new("-") {
            return Ok(Box::new(BufReader::with_capacity(1 << 20, io::stdin())));
        }
        let file =
            File::open(&self.source).map_err(|error| Failure::caused_by(&error).about("cannot read"))?;
        Ok(Box::new(BufReader::with_capacity(1 << 20, file)))
    }
}

/// The message of an error, and the exit code: a dump that is damaged is corruption.
fn failure(error: RestoreError) -> Failure {
    let message = error.to_string();
    match error {
        RestoreError::Unsupported(_) | RestoreError::Version { .. } => Failure::unsupported(message),
        RestoreError::Header(_)
        | RestoreError::CutOff(_)
        | RestoreError::NoSuperblock(_)
        | RestoreError::Outside { .. }
        | RestoreError::Extent { .. } => Failure::corruption(message),
        RestoreError::NotADump { .. } => Failure::failed(message).with_remedy(
            "a compressed dump has to be unpacked first: zstd -dc FILE | uxfs mdrestore - TARGET",
        ),
        _ => Failure::failed(message),
    }
}

fn words(found: &DumpInformation) -> String {
    let Some(flags) = found.flags else {
        return format!("version {}, which does not say how it was made", found.version);
    };
    let say = |flag, yes, no| if flags.contains(flag) { yes } else { no };
    format!(
        "version {}, {}, {}, {}",
        found.version,
        say(DumpFlags::OBFUSCATED, "obfuscated", "not obfuscated"),
        say(DumpFlags::DIRTY_LOG, "dirty log", "clean log"),
        say(DumpFlags::FULL_BLOCKS, "full metadata blocks", "unused bytes zeroed"),
    )
}

fn information_document(found: &DumpInformation) -> serde_json::Value {
    let has = |flag| found.flags.map(|flags| flags.contains(flag));
    json!({
        "schema_version": 1,
        "version": found.version,
        "obfuscated": has(DumpFlags::OBFUSCATED),
        "full_blocks": has(DumpFlags::FULL_BLOCKS),
        "dirty_log": has(DumpFlags::DIRTY_LOG),
    })
}

fn with_dump(mut document: serde_json::Value, source: &Path) -> serde_json::Value {
    put_path(&mut document, "dump", source);
    document
}

fn document(summary: &RestoreSummary) -> serde_json::Value {
    let mut document = information_document(&summary.information);
    if let Some(fields) = document.as_object_mut() {
        fields.insert("size_bytes".to_owned(), summary.size_bytes.into());
        fields.insert("extents".to_owned(), summary.extents.into());
        fields.insert("bytes".to_owned(), summary.bytes.into());
    }
    document
}

/// Zeros of this size stay holes.
const HOLE_BYTES: usize = 4 << 10;

/// A file or a block device. A file that was made here disappears again, unless it is [kept](Self::keep).
struct ImageTarget<'p> {
    path: &'p Path,
    /// The part of it that becomes the file system.
    part: Part,
    force: bool,
    device: Option<Arc<dyn BlockDevice>>,
    remains: Remains,
    was_made: bool,
    is_file: bool,
    /// A file whose bytes are zeros where none were written.
    is_sparse: bool,
    /// Behind this byte nothing was written.
    written_end: u64,
}

impl<'p> ImageTarget<'p> {
    fn new(path: &'p Path, part: Part, force: bool) -> Self {
        let (was_made, is_file, is_sparse) = (false, false, false);
        let sentence = format!("{}: what was restored so far is no file system", path.display());
        let remains = Remains::begin(sentence);
        Self { path, part, force, device: None, remains, was_made, is_file, is_sparse, written_end: 0 }
    }

    fn keep(mut self) {
        self.remains.kept();
        self.was_made = false;
    }

    /// Opens what is there, or makes a file, and locks it.
    fn claim(&mut self) -> io::Result<Claimed> {
        match fs::metadata(self.path) {
            Ok(found) if found.file_type().is_block_device() => {
                if !self.force {
                    return Err(occupied("a block device is overwritten with --force only"));
                }
                Ok(Claimed::open(self.path, OFlags::RDWR | OFlags::CLOEXEC, Lock::Exclusive)?)
            }
            Ok(found) if !found.is_file() => Err(io::Error::other("neither a file nor a block device")),
            Ok(found) => {
                self.is_file = true;
                if found.len() > 0 && !self.force {
                    return Err(occupied(match self.part.is_whole() {
                        true => "the file is not empty; --force overwrites it",
                        false => "the file is not empty; --force overwrites that part of it",
                    }));
                }
                Ok(Claimed::open(self.path, OFlags::RDWR | OFlags::CLOEXEC, Lock::Exclusive)?)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = fs::OpenOptions::new().read(true).write(true).create_new(true).open(self.path)?;
                (self.is_file, self.was_made) = (true, true);
                self.remains.made(self.path);
                Ok(Claimed::of(file, Lock::Exclusive)?)
            }
            Err(error) => Err(error),
        }
    }
}

impl ImageTarget<'_> {
    /// Makes a file as long as it must be. What lies around a part of it stays.
    fn set_length(&mut self, file: &File, size_bytes: u64) -> io::Result<()> {
        let needed_bytes = self.part.start_bytes.saturating_add(size_bytes);
        if self.part.is_whole() || self.was_made {
            self.is_sparse = true;
            return file.set_len(0).and_then(|()| file.set_len(needed_bytes));
        }
        let is_bounded = self.part.length_bytes.is_some();
        if is_bounded || file.metadata()?.len() >= needed_bytes { Ok(()) } else { file.set_len(needed_bytes) }
    }
}

fn occupied(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, message)
}

impl Drop for ImageTarget<'_> {
    fn drop(&mut self) {
        if self.was_made {
            let _ = fs::remove_file(self.path);
        }
    }
}

impl Target for ImageTarget<'_> {
    fn prepare(&mut self, size_bytes: u64) -> Result<(), RestoreError> {
        let claimed = self.claim().map_err(RestoreError::Target)?;
        if self.is_file {
            self.set_length(&claimed.file, size_bytes).map_err(RestoreError::Target)?;
        }
        let start_bytes = self.part.start_bytes;
        let options =
            OpenOptions { writable: true, lock: Lock::Exclusive, start_bytes, ..OpenOptions::default() };
        let device = self.part.bound(open_claimed(claimed, &options)?)?;
        if device.size_bytes() < size_bytes {
            let found = device.size_bytes();
            return Err(RestoreError::TargetTooShort { needed_bytes: size_bytes, size_bytes: found });
        }
        self.device = Some(device);
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), RestoreError> {
        let Some(device) = &self.device else { return Ok(()) };
        if !self.is_sparse {
            return Ok(device.write(offset_bytes, bytes)?);
        }
        let mut start = offset_bytes;
        for run in bytes.chunks(HOLE_BYTES) {
            // A new file has zeros where nothing was written; a dump may have a block twice.
            if start < self.written_end || run.iter().any(|byte| *byte != 0) {
                device.write(start, run)?;
            }
            start += run.len() as u64;
        }
        self.written_end = self.written_end.max(start);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), RestoreError> {
        Ok(self.device.iter().try_for_each(|device| device.flush())?)
    }
}
