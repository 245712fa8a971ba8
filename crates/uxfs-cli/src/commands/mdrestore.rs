//! `uxfs mdrestore`: an image from a dump of metadata.

use std::{
    fs::File,
    io::{self, BufReader, Read, Write},
    path::{Path, PathBuf},
};

use serde_json::json;
use uxfs_image::form::Form;
use uxfs_metadump::{
    format::DumpFlags,
    restore::{DumpInformation, RestoreError, RestoreSummary, information, restore},
};

use crate::{
    commands::Context,
    failure::{About, Exit, Failure, Outcome},
    image_target::ImageTarget,
    output::Output,
    output::put_path,
    overwrite,
    place::PlaceArguments,
    progress::{Measure, Progress, QuietArgument, closing::Closing},
    remains::Remains,
    text::shell_path,
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
        let found = information(&mut source).map_err(|error| arguments.not_read(error))?;
        match context.json {
            true => output.json(&with_dump(information_document(&found), &arguments.source))?,
            false => writeln!(output, "{name}: {}", words(&found))?,
        }
        output.finish()?;
        return Ok(Exit::Success);
    };
    overwrite::refuse(path, &[overwrite::Input::new("dump", &arguments.source)])?;
    let part = arguments.place.find_to_make(path).about_image(path)?;
    let _remains = Remains::begin(format!("{}: what was restored so far is no file system", path.display()));
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
        error => arguments.not_read(error),
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

    /// Why the dump is not restored. A compressed one has to be unpacked before.
    fn not_read(&self, error: RestoreError) -> Failure {
        let found = match error {
            RestoreError::NotADump { found } => Form::of_beginning(&found.to_be_bytes()),
            _ => None,
        };
        let failure = match self.source == Path::new("-") {
            true => return failure(error).about("standard input"),
            false => failure(error).about_host(&self.source),
        };
        let unpacker = match found {
            Some(Form::Zstd) => "zstd",
            Some(Form::Gzip) => "gzip",
            Some(Form::Xz) => "xz",
            Some(Form::Bzip2) => "bzip2",
            Some(Form::Lz4) => "lz4",
            _ => return failure,
        };
        let target = self
            .target
            .as_deref()
            .map_or_else(|| "-i -".to_owned(), |path| format!("- {}", shell_path(path)));
        failure.with_remedy(&format!(
            "unpack it on the way: {unpacker} -dc {} | uxfs mdrestore {target}",
            shell_path(&self.source)
        ))
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
        error => Failure::caused_by(&error),
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
