//! `fsck.uxfs` and `fsck.xfs`: what `fsck` and a boot call.
//!
//! With `-a` or `-p` alone it looks at the superblock and the log, as cheap as a mount: nothing else needs a repair before a mount, which
//! replays the log itself.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Parser;
use uxfs_block::{
    claim::Lock,
    device::BlockDevice,
    engine::{self, OpenOptions},
};
use uxfs_volume::volume::{Volume, VolumeOptions};

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

/// Errors were repaired.
const REPAIRED: u8 = 1;
/// Errors are left.
const LEFT: u8 = 4;
/// The operation failed.
const FAILED: u8 = 8;
/// The command line was wrong.
const USAGE: u8 = 16;

/// Check and repair an XFS file system, as fsck calls it
#[derive(Debug, Parser)]
#[command(
    name = "fsck.uxfs",
    version,
    args_override_self = true,
    max_term_width = 100,
    after_help = "This is uxfs, called as fsck.uxfs or fsck.xfs: uxfs repair --help tells what it does. It asks nothing. With -a or -p, and \
    without -f, only the superblock and the log are looked at, and a mounted file system is passed over: Linux replays the log when \
    it mounts. With -a or -p a log that cannot be replayed is kept, and nothing is written: that is no decision for a boot. Of an image file, what is written over is kept in IMAGE.uxfs-undo, for uxfs undo; of a block device nothing is kept.\n\
    Exit codes: 0 sound, 1 repaired, 4 errors are left, 8 the operation failed, 16 wrong command line.\n\
    Example: fsck.uxfs -n disk.img\n\
    With a link named fsck.xfs in PATH, fsck $PWD/disk.img does it too: the fsck of util-linux takes only what begins \
    with / for a device, and else checks all of /etc/fstab"
)]
pub struct Arguments {
    /// Image file or block device
    #[arg(value_name = "DEVICE")]
    device: PathBuf,
    /// Repair what needs it before a mount
    #[arg(short = 'a', conflicts_with = "dry_run")]
    automatic: bool,
    /// As -a
    #[arg(short = 'p', conflicts_with = "dry_run")]
    preen: bool,
    /// Repair: the default
    #[arg(short = 'y', conflicts_with = "dry_run")]
    yes: bool,
    /// Write nothing: exit with 4 where there is anything to repair
    #[arg(short = 'n', id = "dry_run")]
    is_dry_run: bool,
    /// Check everything, also with -a or -p
    #[arg(short = 'f')]
    full: bool,
    /// A descriptor for progress: accepted, without effect
    #[arg(short = 'C', value_name = "DESCRIPTOR")]
    progress: Option<String>,
    /// Accepted, without effect
    #[arg(short = 'v')]
    verbose: bool,
}

/// Runs the tool and gives its exit code.
pub(crate) fn run(arguments: &[OsString]) -> u8 {
    set_purpose(Purpose::Mend);
    let arguments: Arguments = match super::parse(arguments, USAGE) {
        Ok(arguments) => arguments,
        Err(exit) => return exit,
    };
    let is_automatic = arguments.automatic || arguments.preen;
    if is_automatic && !arguments.full && needs_nothing(&arguments.device) {
        return 0;
    }
    let image = ImageArguments { image: arguments.device, ..ImageArguments::default() };
    let job = Job {
        plan: None,
        map: None,
        image: &image,
        is_dry_run: arguments.is_dry_run,
        undo: UndoPlace::BesideImageFile,
        ignore_log_copies: false,
        keeps_unread_log: is_automatic,
        amount: Amount::All,
        is_quiet: false,
        is_command: false,
        has_paths: true,
    };
    match job.run(&Context::default()).map(Ended::tell) {
        Ok(Done::Clean) => 0,
        Ok(Done::Repaired { .. }) => REPAIRED,
        Ok(Done::LogNeeded) => {
            let image = image.image.display();
            say!(
                "{image}: the log is kept with -a and -p; uxfs repair {image}, or fsck.uxfs without -a, gives it up"
            );
            LEFT
        }
        Ok(Done::Planned | Done::Left) => LEFT,
        Err(failure) => {
            failure.tell(false);
            FAILED
        }
    }
}

/// Whether a mount can do all that is needed, or has been done. Says so.
fn needs_nothing(path: &Path) -> bool {
    let options = OpenOptions { lock: Lock::Unused, ..OpenOptions::default() };
    let device: Arc<dyn BlockDevice> = match engine::open(path, &options) {
        Ok(device) => device,
        Err(error) if error.source.kind() == io::ErrorKind::ResourceBusy => {
            say!("{}: {}; it is not checked", path.display(), error.source);
            return true;
        }
        Err(_) => return false,
    };
    let Ok(volume) = Volume::open(Arc::clone(&device), &VolumeOptions::default()) else { return false };
    let is_log_sound = uxfs_journal::examine(device.as_ref(), volume.geometry()).is_ok();
    if is_log_sound {
        say!("{}: superblock and log are sound; -f checks the rest", path.display());
    }
    is_log_sound
}
