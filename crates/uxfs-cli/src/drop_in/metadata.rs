//! `xfs_metadump` and `xfs_mdrestore`: dumps of metadata.

use std::{ffi::OsString, path::PathBuf};

use clap::Parser;
use uxfs_metadump::dump::MOST_EXTENT_BLOCKS;

use crate::{
    commands::{Context, mdrestore, metadump},
    failure::{Failure, Outcome},
    image::ImageArguments,
    place::PlaceArguments,
    progress::QuietArgument,
};

/// All that goes wrong; of xfs_mdrestore also a wrong command line.
const FAILED: u8 = 1;
/// The command line of xfs_metadump was wrong.
const USAGE: u8 = 2;

/// Devices that both tools know, and uxfs does not.
#[derive(Debug, clap::Args)]
struct RefusedDevices {
    /// An external log: refused
    #[arg(short = 'l', value_name = "DEVICE")]
    log_device: Option<PathBuf>,
    /// A realtime section: refused
    #[arg(short = 'r', value_name = "DEVICE")]
    realtime_device: Option<PathBuf>,
}

impl RefusedDevices {
    fn refuse(&self) -> Result<(), Failure> {
        match (&self.log_device, &self.realtime_device) {
            (Some(_), _) => Err(Failure::unsupported("option -l: an external log is not supported")),
            (_, Some(_)) => Err(Failure::unsupported("option -r: a realtime section is not supported")),
            _ => Ok(()),
        }
    }
}

/// Write the metadata of an XFS file system to a file, as xfs_metadump does
#[derive(Debug, Parser)]
#[command(
    name = "xfs_metadump",
    disable_version_flag = true,
    args_override_self = true,
    max_term_width = 100,
    after_help = "This is uxfs, called as xfs_metadump: uxfs metadump --help tells what it does. Dumps are of version 2.\n\
    Refused: -e, -l, -r, -v 1.\nExit codes: 0 written, 1 not, 2 wrong command line.\nExample: xfs_metadump -g disk.img disk.metadump"
)]
pub struct Dumping {
    /// Image file or block device
    #[arg(value_name = "SOURCE", required_unless_present = "version")]
    source: Option<PathBuf>,
    /// The dump, or - for standard output
    #[arg(value_name = "TARGET", required_unless_present = "version")]
    target: Option<PathBuf>,
    /// Keep unused bytes of metadata
    #[arg(short = 'a')]
    all_bytes: bool,
    /// Stop at the first error: refused
    #[arg(short = 'e')]
    stops: bool,
    /// Dump though the superblock is damaged: this is done without the option
    #[arg(short = 'F')]
    is_forced: bool,
    /// SOURCE is a file: this is seen without the option
    #[arg(short = 'f')]
    is_file: bool,
    /// Show progress
    #[arg(short = 'g')]
    progress: bool,
    /// Leave out extents of metadata of more blocks
    #[arg(short = 'm', value_name = "BLOCKS", default_value_t = MOST_EXTENT_BLOCKS)]
    max_extent: u64,
    /// Keep names, targets of symbolic links and values of attributes
    #[arg(short = 'o')]
    no_obfuscation: bool,
    /// Name all damage that is met
    #[arg(short = 'w')]
    warnings: bool,
    /// The version of the dump: 2
    #[arg(short = 'v', value_name = "VERSION", default_value_t = 2)]
    dump_version: u8,
    #[command(flatten)]
    refused: RefusedDevices,
    /// Print the version and exit
    #[arg(short = 'V', id = "version")]
    version: bool,
}

/// Make an image of dumped metadata, as xfs_mdrestore does
#[derive(Debug, Parser)]
#[command(
    name = "xfs_mdrestore",
    disable_version_flag = true,
    args_override_self = true,
    max_term_width = 100,
    after_help = "This is uxfs, called as xfs_mdrestore: uxfs mdrestore --help tells what it does. TARGET is overwritten without a question.\n\
    Refused: -l, -r.\nExit codes: 0 restored, 1 not.\nExample: xfs_mdrestore disk.metadump disk.img"
)]
pub struct Restoring {
    /// The dump, or - for standard input
    #[arg(value_name = "SOURCE", required_unless_present = "version")]
    source: Option<PathBuf>,
    /// File or block device that becomes the file system
    #[arg(value_name = "TARGET", required_unless_present_any = ["version", "information"])]
    target: Option<PathBuf>,
    /// Show progress
    #[arg(short = 'g')]
    progress: bool,
    /// Show what the dump says of itself, and restore nothing
    #[arg(short = 'i', id = "information", conflicts_with = "target")]
    information: bool,
    #[command(flatten)]
    refused: RefusedDevices,
    /// Print the version and exit
    #[arg(short = 'V', id = "version")]
    version: bool,
}

/// Runs `xfs_metadump` and gives its exit code.
pub(crate) fn dump(arguments: &[OsString]) -> u8 {
    match super::parse::<Dumping>(arguments, USAGE) {
        Ok(arguments) if arguments.version => super::print_version(),
        Ok(arguments) => super::code_of(arguments.run(), USAGE, FAILED),
        Err(exit) => exit,
    }
}

/// Runs `xfs_mdrestore` and gives its exit code.
pub(crate) fn restore(arguments: &[OsString]) -> u8 {
    match super::parse::<Restoring>(arguments, FAILED) {
        Ok(arguments) if arguments.version => super::print_version(),
        Ok(arguments) => super::code_of(arguments.run(), FAILED, FAILED),
        Err(exit) => exit,
    }
}

impl Dumping {
    fn run(self) -> Outcome {
        self.refused.refuse()?;
        if self.stops {
            return Err(Failure::unsupported("option -e: damage is passed over; -w names it"));
        }
        if self.dump_version != 2 {
            return Err(Failure::unsupported(format!(
                "option -v {}: dumps are of version 2",
                self.dump_version
            )));
        }
        let image = ImageArguments { image: self.source.unwrap_or_default(), ..ImageArguments::default() };
        let arguments = metadump::Arguments {
            all_bytes: self.all_bytes,
            no_obfuscation: self.no_obfuscation,
            progress: self.progress,
            quiet: QuietArgument { quiet: !self.progress },
            warnings: self.warnings,
            max_extent: self.max_extent,
            image,
            target: self.target.unwrap_or_default(),
        };
        metadump::run(&arguments, &Context::default())
    }
}

impl Restoring {
    fn run(self) -> Outcome {
        self.refused.refuse()?;
        let arguments = mdrestore::Arguments {
            source: self.source.unwrap_or_default(),
            target: self.target,
            force: true,
            place: PlaceArguments::default(),
            progress: self.progress,
            quiet: QuietArgument { quiet: !self.progress },
            information: self.information,
        };
        mdrestore::run(&arguments, &Context::default())
    }
}
