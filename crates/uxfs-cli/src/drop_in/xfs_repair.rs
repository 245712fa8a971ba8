//! `xfs_repair`: its options and exit codes.

use std::{ffi::OsString, path::PathBuf};

use clap::{ArgAction, Parser};

use crate::{
    commands::{
        Context,
        repair::job::{Done, Ended, Job, UndoPlace},
    },
    counted_kinds::Amount,
    image::ImageArguments,
    output::say,
    remedy::{Purpose, set_purpose},
};

/// There was corruption (with -n), or the repair failed; also a wrong command line.
const FAILED: u8 = 1;
/// The log is needed, and cannot be used.
const LOG_NEEDED: u8 = 2;
/// With -e: something was repaired.
const REPAIRED: u8 = 4;

/// Repair an XFS file system, with the options and exit codes of xfs_repair
#[derive(Debug, Parser)]
#[command(
    name = "xfs_repair",
    disable_version_flag = true,
    args_override_self = true,
    max_term_width = 100,
    after_help = "This is uxfs, called as xfs_repair: uxfs repair --help tells what it does. A dirty log is replayed first, also with -L. Of an \
    image file, what is written over is kept in IMAGE.uxfs-undo, for uxfs undo; of a block device nothing is kept.\n\
    Exits with 0 where the file system is sound or was repaired; with 1 where it is not, or where -n found something, and after a wrong \
    command line; with 2 where the log cannot be used and -L was not given; with 4 where -e was given and something was repaired.\n\
    Refused: -l and -r (other devices), -c (changes of features), -d (mounted file systems).\n\
    Example: xfs_repair -n disk.img"
)]
pub struct Arguments {
    /// Image file or block device
    #[arg(value_name = "DEVICE", required_unless_present = "version")]
    device: Option<PathBuf>,
    /// DEVICE is a file: this is seen without the option
    #[arg(short = 'f')]
    is_file: bool,
    /// Write nothing: only say what would be done
    #[arg(short = 'n', conflicts_with = "tells")]
    is_dry_run: bool,
    /// Give the log up where it cannot be replayed: changes that only it has are lost
    #[arg(short = 'L')]
    gives_up_log: bool,
    /// Memory for cached metadata, in MiB
    #[arg(short = 'm', value_name = "MIB")]
    memory: Option<u64>,
    /// No prefetching: accepted, without effect
    #[arg(short = 'P')]
    no_prefetch: bool,
    /// No multithreading: accepted, without effect
    #[arg(short = 'M')]
    no_threads: bool,
    /// Show more: accepted, without effect, since all actions are always shown
    #[arg(short = 'v', action = ArgAction::Count)]
    verbose: u8,
    /// bhash=N, ihash=N, ag_stride=N, phase2_threads=N, assume_xfs, force_geometry: accepted, without effect
    #[arg(short = 'o', value_name = "SUBOPTIONS")]
    overrides: Vec<String>,
    /// Seconds between reports: accepted, without effect
    #[arg(short = 't', value_name = "SECONDS")]
    interval: Option<u64>,
    /// Exit with 4 where something was repaired
    #[arg(short = 'e', id = "tells")]
    tells: bool,
    /// Print the version and exit
    #[arg(short = 'V', id = "version")]
    version: bool,
    /// An external log: refused
    #[arg(short = 'l', value_name = "DEVICE")]
    log_device: Option<PathBuf>,
    /// A realtime section: refused
    #[arg(short = 'r', value_name = "DEVICE")]
    realtime_device: Option<PathBuf>,
    /// Change features: refused
    #[arg(short = 'c', value_name = "SUBOPTIONS")]
    changes: Vec<String>,
    /// Repair a mounted file system: refused
    #[arg(short = 'd')]
    is_dangerous: bool,
}

/// Overrides that change how xfs_repair works, and not what it does.
const WITHOUT_EFFECT: [&str; 6] =
    ["bhash", "ihash", "ag_stride", "phase2_threads", "assume_xfs", "force_geometry"];

impl Arguments {
    /// The first option that cannot be had, and why.
    fn refused(&self) -> Option<String> {
        if self.log_device.is_some() {
            return Some("option -l: an external log is not supported".to_owned());
        }
        if self.realtime_device.is_some() {
            return Some("option -r: a realtime section is not supported".to_owned());
        }
        if let Some(change) = self.changes.first() {
            return Some(format!("option -c {change}: features are not changed here"));
        }
        if self.is_dangerous {
            return Some("option -d: a mounted file system is not repaired".to_owned());
        }
        let overrides = self.overrides.iter().flat_map(|list| list.split(','));
        let unknown = overrides.map(|one| one.split('=').next().unwrap_or(one));
        let unknown = unknown.into_iter().find(|name| !WITHOUT_EFFECT.contains(name))?;
        Some(format!("option -o {unknown} is not supported"))
    }
}

/// Runs the tool and gives its exit code.
pub(crate) fn run(arguments: &[OsString]) -> u8 {
    set_purpose(Purpose::Mend);
    let arguments: Arguments = match super::parse(arguments, FAILED) {
        Ok(arguments) => arguments,
        Err(exit) => return exit,
    };
    if arguments.version {
        return super::print_version();
    }
    if let Some(refused) = arguments.refused() {
        say!("{refused}");
        return FAILED;
    }
    let cache_size = arguments.memory.map(|memory| memory.saturating_mul(1 << 20).min(256 << 20));
    let image = ImageArguments {
        image: arguments.device.unwrap_or_default(),
        cache_size,
        ..ImageArguments::default()
    };
    let job = Job {
        plan: None,
        map: None,
        image: &image,
        is_dry_run: arguments.is_dry_run,
        undo: UndoPlace::BesideImageFile,
        ignore_log_copies: false,
        keeps_unread_log: !arguments.gives_up_log,
        amount: Amount::All,
        is_quiet: false,
        is_command: false,
        has_paths: true,
    };
    match job.run(&Context::default()).map(Ended::tell) {
        Ok(Done::Clean) => 0,
        Ok(Done::Repaired { findings }) if arguments.tells && findings > 0 => REPAIRED,
        Ok(Done::Repaired { .. }) => 0,
        Ok(Done::LogNeeded) => {
            say!("{}: mounting the file system may replay the log; -L gives it up", image.image.display());
            LOG_NEEDED
        }
        Ok(Done::Planned | Done::Left) => FAILED,
        Err(failure) => {
            failure.tell(false);
            FAILED
        }
    }
}
