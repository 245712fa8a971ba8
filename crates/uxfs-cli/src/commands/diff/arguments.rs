//! The options of `uxfs diff`.

use std::{ffi::OsString, num::NonZeroUsize, os::unix::ffi::OsStrExt, path::PathBuf};

use uxfs_partition::selection::Selector;

use super::{
    choice::Choice,
    field::{Field, Fields},
    printer::Form,
    tree::Trees,
    unified::Unified,
};
use crate::{
    glob::pattern::Pattern,
    image::ImageArguments,
    place::PlaceArguments,
    text::{parse_size, parse_threads},
};

/// Equal lines around those that differ.
const CONTEXT_LINES: usize = 3;

/// Arguments of `uxfs diff`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A line for each name that differs: D only in IMAGE, A only in OTHER, T of another type, C other contents (bytes, target of a \
    link, device number), M other metadata only; then the path, and how it differs. First comes what one directory holds, then what \
    lies in its subdirectories. Contents are compared byte by byte, and holes are zeros. A directory that only one side has is \
    one line, unless --all is given.\n\
    With --unified the lines of text that differ follow, with headers as git writes them: patch -p1 and git apply take the output, and pass over \
    the rest. Files with zero bytes, and those of more than 16 MiB or 2 million lines, are named only.\n\
    With a directory of the host, flags, project and creation time are not compared; nor are trusted attributes, unless root asks.\n\
    Lengths of directories and the layout of files on disk are never compared. The options for the image are those of both images, \
    but --offset and --partition are those of IMAGE.\n\
    Exit codes, unlike those of other commands: 0 nothing differs, 1 something does, 2 an error, 3 damage was met (the rest is \
    compared), 4 unsupported feature.\n\
    Examples: uxfs diff before.img after.img\n          \
    uxfs diff --only contents,mode disk.img /srv/tree\n          \
    uxfs diff --no-times --exclude '*.pyc' before.img after.img /usr/lib\n          \
    uxfs diff -uN before.img after.img /etc > etc.patch\n          \
    uxfs diff disk.img --partition 1 disk.img --other-partition 2",
    mut_arg("image", |argument| argument.index(1).help("Image file (also compressed with zstd), block device, or directory of the host")),
)]
pub struct Arguments {
    /// IMAGE.
    #[command(flatten)]
    pub(super) image: ImageArguments,
    /// What it is compared with: image file, block device, or directory of the host
    #[arg(value_name = "OTHER", index = 2)]
    pub(super) other: PathBuf,
    /// What is compared, in each operand that is an image: a path, or an inode number
    #[arg(value_name = "PATH", index = 3, default_value = "/")]
    pub(super) path: OsString,
    /// What is compared with PATH in OTHER, where that is an image
    #[arg(long, value_name = "PATH")]
    pub(super) other_path: Option<OsString>,
    #[command(flatten)]
    pub(super) other_place: OtherPlace,
    /// Compare nothing else in files of one type
    #[arg(long, value_name = "FIELD", value_enum, value_delimiter = ',')]
    only: Vec<Field>,
    /// Do not compare this
    #[arg(long, value_name = "FIELD", value_enum, value_delimiter = ',')]
    ignore: Vec<Field>,
    /// Compare this, too
    #[arg(long, value_name = "FIELD", value_enum, value_delimiter = ',', conflicts_with = "only")]
    also: Vec<Field>,
    /// Do not compare times: as --ignore mtime,atime,ctime,btime
    #[arg(long)]
    no_times: bool,
    /// Pass over files of this name, with all that they hold: a pattern (*, ?, [a-z]); with a slash in it, one for the whole path
    #[arg(long, value_name = "PATTERN", action = clap::ArgAction::Append)]
    exclude: Vec<OsString>,
    /// Name every file in directories that only one side has
    #[arg(short, long)]
    all: bool,
    /// Print the lines that differ, of regular files and of targets of symbolic links, as diff -u does
    #[arg(short, long, group = "text", conflicts_with_all = ["brief", "null", "silent"])]
    unified: bool,
    /// As --unified, with this many equal lines around those that differ [default: 3]
    #[arg(short = 'U', long, value_name = "LINES", group = "text", conflicts_with_all = ["brief", "null", "silent"])]
    context: Option<usize>,
    /// With --unified: print all lines of files that only one side has, and name all that is in its directories
    #[arg(short = 'N', long, requires = "text")]
    new_file: bool,
    /// Print letters and paths only
    #[arg(short = 'q', long)]
    brief: bool,
    /// As --brief, with a zero byte behind each path
    #[arg(short = '0', long)]
    null: bool,
    /// Print nothing, and end at the first difference
    #[arg(short, long)]
    silent: bool,
    /// Threads that compare [default: two for each processor, up to 16]
    #[arg(long, value_name = "COUNT", value_parser = parse_threads)]
    threads: Option<NonZeroUsize>,
}

/// Where the file system lies in OTHER.
#[derive(Debug, clap::Args)]
pub(super) struct OtherPlace {
    /// As --offset, for OTHER
    #[arg(long, value_name = "BYTES", value_parser = parse_size, conflicts_with = "other_partition", help_heading = "Input and output")]
    other_offset: Option<u64>,
    /// As --partition, for OTHER
    #[arg(long, value_name = "N|LABEL|UUID", help_heading = "Input and output")]
    other_partition: Option<Selector>,
}

impl OtherPlace {
    /// As an argument of its own.
    pub fn place(&self) -> PlaceArguments {
        PlaceArguments::of(self.other_offset, self.other_partition.clone())
    }
}

impl Arguments {
    /// What is compared.
    pub(super) fn choice(&self) -> Choice {
        let mut fields = match self.only.is_empty() {
            true => Fields::usual().with(self.also.iter().copied().collect()),
            false => self.only.iter().copied().collect(),
        };
        fields = fields.without(self.ignore.iter().copied().collect());
        if self.no_times {
            let times = [Field::Mtime, Field::Atime, Field::Ctime, Field::Btime];
            fields = fields.without(times.into_iter().collect());
        }
        let (paths, names): (Vec<_>, Vec<_>) =
            self.exclude.iter().map(|text| text.as_bytes()).partition(|text| text.contains(&b'/'));
        let patterns = |texts: Vec<&[u8]>| texts.into_iter().map(Pattern::parse).collect();
        // Paths are told without a slash in front.
        let paths = paths.into_iter().map(|path| path.strip_prefix(b"/").unwrap_or(path)).collect();
        Choice {
            fields,
            goes_into_single: self.all || self.new_file,
            names: patterns(names),
            paths: patterns(paths),
        }
    }

    /// The text that is told, where any is.
    pub(super) fn unified<'t>(&self, trees: Trees<'t>, wanted: Fields) -> Option<Unified<'t>> {
        let context_lines = self.context.or(self.unified.then_some(CONTEXT_LINES))?;
        Some(Unified { trees, context_lines, wanted, tells_single: self.new_file })
    }

    /// How differences are printed.
    pub(super) fn form(&self, json: bool) -> Form {
        match () {
            () if self.silent => Form::Silent,
            () if json => Form::Json,
            () if self.null => Form::Null,
            () if self.brief => Form::Brief,
            () => Form::Full,
        }
    }

    pub(super) fn threads(&self) -> usize {
        // They wait for the device most of the time.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or(processors.saturating_mul(2).min(16), usize::from)
    }
}
