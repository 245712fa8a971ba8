//! `uxfs metadump`: the metadata of an image, to be sent to someone.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use serde_json::json;
use uxfs_metadump::{
    dump::{DumpError, DumpOptions, DumpSummary, Event, MOST_EXTENT_BLOCKS, dump},
    format::DumpFlags,
};

use crate::{
    commands::Context,
    destination,
    failure::{Exit, Failure, Outcome},
    image::ImageArguments,
    kind::Note,
    output::{Output, message, notice, put_path, set_image},
    overwrite,
    progress::{Measure, Progress, QuietArgument, closing::Closing},
    remains::Remains,
};

/// Arguments of `uxfs metadump`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Writes all metadata and no contents of files, in version 2 of the format of xfs_metadump: uxfs mdrestore and \
    xfs_mdrestore make an image of it that shows the same damage. Names of files and of attributes and targets of symbolic links \
    are replaced by others with the same length and hash, values of attributes by zeros; names of less than five bytes and the label \
    stay, and a guessed name can be compared by its hash. A log that has changes to be replayed is dumped as it is, with names.\n\
    A damaged image is dumped as far as it can be read. Exits with 0 where the dump was written.\n\
    Examples:\n  uxfs metadump disk.img disk.metadump\n  uxfs metadump -o -a /dev/sda1 - | zstd > sda1.metadump.zst",
    mut_arg("tolerant", |argument| argument.hide(true)),
    mut_arg("superblock", |argument| argument
        .help("Use the superblock of allocation group N, or of the first one with a sound superblock")),
    mut_arg("repaired", |argument| argument.hide(true)),
    mut_arg("ignore_log", |argument| argument.hide(true)),
    mut_arg("no_lock", |argument| argument
        .help("Dump even while the image is mounted or another program changes it; the dump may be inconsistent")),
)]
pub struct Arguments {
    #[command(flatten)]
    pub(crate) image: ImageArguments,
    /// Write the dump to this file, or to standard output for -. An existing dump is replaced, and no other file
    #[arg(value_name = "FILE")]
    pub(crate) target: PathBuf,
    /// Keep unused bytes of metadata, with what was in them before; they are not obfuscated
    #[arg(short = 'a', long)]
    pub(crate) all_bytes: bool,
    /// Keep names, targets of symbolic links and values of attributes
    #[arg(short = 'o', long)]
    pub(crate) no_obfuscation: bool,
    #[command(flatten)]
    pub(crate) quiet: QuietArgument,
    /// Accepted: progress is shown on a terminal unless -q is given
    #[arg(short = 'g', long)]
    pub(crate) progress: bool,
    /// Name all damage that is met
    #[arg(short = 'w', long)]
    pub(crate) warnings: bool,
    /// Leave out extents of metadata of more blocks: they are likely to be damage
    #[arg(short = 'm', long, value_name = "BLOCKS", default_value_t = MOST_EXTENT_BLOCKS)]
    pub(crate) max_extent: u64,
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    set_image(&arguments.image.image);
    let image = &arguments.image;
    let device = image.device_at_rest()?;
    let options = DumpOptions {
        obfuscate: !arguments.no_obfuscation,
        zero_unused: !arguments.all_bytes,
        most_extent_blocks: arguments.max_extent,
        superblock: image.superblock_choice(),
        cache_budget_bytes: image.cache_size,
    };
    arguments.check_target()?;
    let mut output = BufWriter::with_capacity(1 << 20, DumpFile::new(&arguments.target));
    let mut closing = Closing::begin("dumped");
    let progress = Progress::new("looking", Measure::Things("blocks", None), arguments.quiet.quiet);
    let mut tell = |event: Event| match event {
        Event::Found { blocks } => progress.begin("dumping", Measure::Things("blocks", Some(blocks))),
        Event::Done { blocks } => progress.add(blocks),
        Event::Warning(warning) if arguments.warnings => {
            notice!(Note::Damaged, "warning: {}: {warning}", image.image.display());
        }
        Event::Warning(_) => {}
        Event::LogNotObfuscated => notice!(
            Note::Dump,
            "warning: {}: the log has changes to be replayed, or it is damaged: it is dumped with the names that it has",
            image.image.display()
        ),
        Event::ExternalLog => {
            notice!(
                Note::Dump,
                "warning: {}: the log lies on another device and is not dumped",
                image.image.display()
            );
        }
    };
    let summary = dump(&device, &options, &mut output, &mut tell)
        .and_then(|summary| output.flush().map(|()| summary).map_err(DumpError::Write));
    drop(progress);
    let summary = match summary {
        Ok(summary) => summary,
        Err(DumpError::Open(error)) => return Err(image.not_opened(error)),
        Err(DumpError::Write(error)) if arguments.is_to_standard_output() => return Err(error.into()),
        Err(DumpError::Write(error)) => {
            return Err(Failure::caused_by(&error).about("cannot write it").about_host(&arguments.target));
        }
    };
    output.get_ref().remains.kept();
    arguments.tell(&summary, context)?;
    closing.things = (summary.extents, "extents");
    closing.bytes = summary.bytes;
    closing.tell(arguments.quiet.quiet);
    Ok(Exit::Success)
}

impl Arguments {
    fn is_to_standard_output(&self) -> bool {
        destination::is_standard_output(&self.target)
    }

    /// Refuses targets that cannot be meant.
    fn check_target(&self) -> Result<(), Failure> {
        overwrite::refuse(&self.target, &[overwrite::Input::image(&self.image.image)])?;
        destination::must_take(&self.target, "a dump")?;
        if self.is_to_standard_output() {
            return Ok(());
        }
        let Ok(existing) = self.target.metadata() else { return Ok(()) };
        if existing.file_type().is_block_device() {
            let failure = Failure::usage("a dump is written to a file, not to a device");
            return Err(failure.about_host(&self.target));
        }
        overwrite::refuse_or_other(&self.target, &[], overwrite::Product::Dump)
    }

    fn tell(&self, summary: &DumpSummary, context: &Context) -> Result<(), Failure> {
        if context.json {
            let mut document = document(summary);
            put_path(&mut document, "image", &self.image.image);
            put_path(&mut document, "dump", &self.target);
            if self.is_to_standard_output() {
                message!("{document}");
                return Ok(());
            }
            let mut output = Output::new();
            output.json(&document)?;
            return Ok(output.finish()?);
        }
        let DumpSummary { damages, unreadable_blocks, .. } = *summary;
        if damages > 0 {
            let plural = if damages == 1 { "place is" } else { "places are" };
            notice!(
                Note::Damaged,
                "{}: {damages} {plural} damaged, and dumped as far as found",
                self.image.image.display()
            );
        }
        if unreadable_blocks > 0 {
            let plural = if unreadable_blocks == 1 { "" } else { "s" };
            notice!(
                Note::Incomplete,
                "{}: {unreadable_blocks} block{plural} cannot be read, and left out",
                self.image.image.display()
            );
        }
        Ok(())
    }
}

/// The file of the dump, or standard output for `-`. It is made when the first bytes come, so that a file that is there stays where the
/// image turns out to be none.
struct DumpFile<'p> {
    path: &'p Path,
    file: Option<File>,
    remains: Remains,
}

impl<'p> DumpFile<'p> {
    fn new(path: &'p Path) -> Self {
        Self {
            path,
            file: None,
            remains: Remains::begin(format!("{}: the dump is not complete", path.display())),
        }
    }
}

impl Write for DumpFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.file.is_none() {
            self.file = Some(self.remains.making(self.path, destination::create)?);
        }
        self.file.as_mut().map_or(Ok(bytes.len()), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn document(summary: &DumpSummary) -> serde_json::Value {
    json!({
        "schema_version": 1,
        "obfuscated": summary.flags.contains(DumpFlags::OBFUSCATED),
        "full_blocks": summary.flags.contains(DumpFlags::FULL_BLOCKS),
        "dirty_log": summary.flags.contains(DumpFlags::DIRTY_LOG),
        "blocks": summary.blocks,
        "extents": summary.extents,
        "bytes": summary.bytes,
        "damages": summary.damages,
        "unreadable_blocks": summary.unreadable_blocks,
    })
}
