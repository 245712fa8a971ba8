//! The command line of `uxfs mkfs`.

use std::{ffi::OsString, os::unix::ffi::OsStrExt, path::PathBuf};

use clap::ArgAction;
use uxfs_mkfs::options::{Options, grammar::Group};

use super::source::SourceArguments;
use crate::{
    failure::{About, Failure},
    place::PlaceArguments,
    text::parse_size,
};

const LONG_HELP: &str = "\
Options and results are those of mkfs.xfs 7.2. Sub-options are separated by commas; options may be repeated and may follow \
IMAGE. Called through a link named mkfs.xfs, uxfs behaves as `uxfs mkfs`.

Sizes are in bytes or have a unit: k, m, g, t, p, e. In sub-options there are also s (sectors) and b (blocks), and numbers \
may be hexadecimal (0x…) or octal (0…).

With SOURCE_DATE_EPOCH (seconds since 1970), DETERMINISTIC_SEED (any value) and -m uuid= set, two runs write the same \
bytes. SOURCE_DATE_EPOCH is the time of making, and of files of --from that are younger; --clamp-mtime and --all-time \
say otherwise for files.";

/// Arguments of `uxfs mkfs`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples: uxfs mkfs --size 1g -L data disk.img\n          uxfs mkfs --from directory disk.img\n          uxfs mkfs --from oci:layout:latest disk.img\n          tar c . | uxfs mkfs --from - disk.img\n          uxfs mkfs --partition 2 disk.img",
    long_about = "Make a file system",
    after_long_help = format!("{LONG_HELP}\n\nExamples: uxfs mkfs --size 1g -L data disk.img\n          uxfs mkfs --from directory disk.img\n          uxfs mkfs --from oci:layout:latest disk.img\n          tar c . | uxfs mkfs --from - disk.img\n          uxfs mkfs --partition 2 disk.img"),
    disable_version_flag = true
)]
pub struct Arguments {
    /// File or block device
    #[arg(value_name = "IMAGE")]
    pub image: Option<PathBuf>,
    /// Size of the file system; an image file is created or extended to it. `fit`: the smallest size that holds the contents
    #[arg(long, value_name = "SIZE|fit", value_parser = parse_wanted_size)]
    pub size: Option<WantedSize>,
    /// Size the allocation groups for the size to which the file system will be grown later
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub grow_to: Option<u64>,
    /// Blocks: size=
    #[arg(short = 'b', value_name = "SUBOPTIONS", allow_hyphen_values = true)]
    block: Vec<String>,
    /// Configuration files: options=, defaults=, makecfg=
    #[arg(short = 'c', value_name = "SUBOPTIONS", allow_hyphen_values = true)]
    config: Vec<String>,
    /// Data section: agcount=, agsize=, concurrency=, cowextsize=, daxinherit=, extszinherit=, file, name=, noalign,
    /// projinherit=, rtinherit=, sectsize=, size=, su=, sw=, sunit=, swidth=
    #[arg(short = 'd', value_name = "SUBOPTIONS", allow_hyphen_values = true)]
    data: Vec<String>,
    /// Inodes: size=, perblock=, maxpct=, sparse=, nrext64=, exchange=, max_atomic_write=, align=, attr=, projid32bit=
    #[arg(short = 'i', value_name = "SUBOPTIONS", allow_hyphen_values = true)]
    inode: Vec<String>,
    /// Log: agnum=, concurrency=, internal, lazy-count=, sectsize=, size=, su=, sunit=, version=
    #[arg(short = 'l', value_name = "SUBOPTIONS", allow_hyphen_values = true)]
    log: Vec<String>,
    /// Metadata: autofsck=, bigtime=, crc=, finobt=, inobtcount=, reflink=, rmapbt=, uuid=
    #[arg(short = 'm', value_name = "SUBOPTIONS", allow_hyphen_values = true)]
    metadata: Vec<String>,
    /// Names: size=, version=2|ci, ftype=, parent=
    #[arg(short = 'n', value_name = "SUBOPTIONS", allow_hyphen_values = true)]
    naming: Vec<String>,
    /// Prototype: file=, atime=, slashes_are_spaces=
    #[arg(short = 'p', value_name = "SUBOPTIONS", allow_hyphen_values = true)]
    proto: Vec<String>,
    /// Realtime section (not supported): extsize=, noalign
    #[arg(short = 'r', value_name = "SUBOPTIONS", allow_hyphen_values = true)]
    realtime: Vec<String>,
    /// Sectors: size=
    #[arg(short = 's', value_name = "SUBOPTIONS", allow_hyphen_values = true)]
    sector: Vec<String>,
    /// Label, at most 12 bytes
    #[arg(
        short = 'L',
        long = "label",
        value_name = "LABEL",
        allow_hyphen_values = true,
        overrides_with = "label"
    )]
    label: Option<OsString>,
    /// Overwrite an existing file system
    #[arg(short = 'f', long = "force", overrides_with = "force")]
    pub force: bool,
    /// Do not discard the device first
    #[arg(short = 'K', long = "keep", overrides_with = "keep")]
    pub keep: bool,
    /// Print the geometry without making the file system
    #[arg(short = 'N', long = "dry-run", overrides_with = "dry_run")]
    pub dry_run: bool,
    /// Print nothing
    #[arg(short = 'q', long = "quiet", overrides_with = "quiet")]
    pub quiet: bool,
    /// Print the version
    #[arg(short = 'V', action = ArgAction::SetTrue, overrides_with = "print_version")]
    pub print_version: bool,
    /// Where in IMAGE it is made.
    #[command(flatten)]
    pub place: PlaceArguments,
    /// The sources of its contents.
    #[command(flatten)]
    pub source: SourceArguments,
    /// Allow unsupported sizes: below 300 MiB, a single allocation group, a log below 64 MiB
    #[arg(long, overrides_with = "unsupported")]
    pub unsupported: bool,
}

/// The value of `--size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedSize {
    /// So many bytes.
    Bytes(u64),
    /// The size that the contents need.
    Fit,
}

fn parse_wanted_size(text: &str) -> Result<WantedSize, String> {
    match text {
        "fit" => Ok(WantedSize::Fit),
        // Offsets in files have 63 bits.
        _ => match parse_size(text)? {
            bytes if i64::try_from(bytes).is_ok() => Ok(WantedSize::Bytes(bytes)),
            _ => Err(format!("`{text}` is larger than a file can be")),
        },
    }
}

impl Arguments {
    /// The options, configuration files not yet read.
    pub fn options(&self) -> Result<Options, Failure> {
        let mut options = Options::default();
        options.allow_unsupported = self.unsupported || is_test_of_linux();
        options.grow_to_bytes = self.grow_to;
        options.size_bytes = match self.size {
            Some(WantedSize::Bytes(bytes)) => Some(bytes),
            Some(WantedSize::Fit) | None => None,
        };
        let groups = [
            (Group::Block, &self.block),
            (Group::Config, &self.config),
            (Group::Data, &self.data),
            (Group::Inode, &self.inode),
            (Group::Log, &self.log),
            (Group::Metadata, &self.metadata),
            (Group::Naming, &self.naming),
            (Group::Proto, &self.proto),
            (Group::Realtime, &self.realtime),
            (Group::Sector, &self.sector),
        ];
        for (group, arguments) in groups {
            arguments.iter().try_for_each(|argument| options.add(group, argument))?;
        }
        if let Some(label) = &self.label {
            options.set_label(label.as_bytes()).map_err(Failure::from).about("-L")?;
        }
        Ok(options)
    }
}

/// Whether fstests runs us: mkfs.xfs then makes file systems of any size.
fn is_test_of_linux() -> bool {
    ["TEST_DIR", "TEST_DEV", "QA_CHECK_FS"].iter().all(|name| std::env::var_os(name).is_some())
}
