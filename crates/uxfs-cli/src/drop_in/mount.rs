//! `mount.uxfs` and `mount.fuse.uxfs`, `umount.uxfs` and `umount.fuse.uxfs`: what mount(8), umount(8) and `/etc/fstab` call.

use std::{ffi::OsString, path::PathBuf};

use clap::Parser;

use super::code_of;
use crate::{
    commands::{Context, mount, umount},
    remedy::{Purpose, set_purpose},
};

/// The command line was wrong, as mount(8) has it.
const USAGE: u8 = 1;
/// The file system is not mounted, or still is.
const FAILED: u8 = 32;

/// Mount an XFS image through FUSE, as mount(8) calls it
#[derive(Debug, Parser)]
#[command(
    name = "mount.uxfs",
    version,
    args_override_self = true,
    max_term_width = 100,
    after_help = "This is uxfs, called as mount.uxfs or mount.fuse.uxfs: uxfs mount --help tells the options for -o.\n\
    Exit codes: 0 mounted, 1 wrong command line, 32 not mounted.\n\
    Example: mount -t fuse.uxfs disk.img /mnt\nA line of /etc/fstab: /srv/disk.img /mnt fuse.uxfs ro,noauto,user 0 0"
)]
pub struct Arguments {
    #[command(flatten)]
    target: mount::Target,
    /// The type that mount(8) was given: accepted, without effect
    #[arg(short = 't', value_name = "TYPE")]
    kind: Option<String>,
    /// Mount nothing, only look at the command line
    #[arg(short = 'f')]
    is_fake: bool,
    /// Accepted, without effect
    #[arg(short = 's')]
    is_sloppy: bool,
    /// Accepted, without effect: the kernel keeps the table of mounts
    #[arg(short = 'n')]
    leaves_table: bool,
    /// Accepted, without effect
    #[arg(short = 'v')]
    verbose: bool,
}

/// Unmount what uxfs mounted, as umount(8) calls it, and wait until the image is whole
#[derive(Debug, Parser)]
#[command(name = "umount.uxfs", version, args_override_self = true, max_term_width = 100)]
pub struct Unmounting {
    /// Directory on which the image is mounted
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
    /// Detach it now, and end it when nothing uses it any more
    #[arg(short = 'l')]
    lazy: bool,
    /// Take it away though its server does not answer
    #[arg(short = 'f')]
    force: bool,
    /// Accepted, without effect
    #[arg(short = 'n')]
    leaves_table: bool,
    /// Accepted, without effect
    #[arg(short = 'r')]
    remount: bool,
    /// Accepted, without effect
    #[arg(short = 'v')]
    verbose: bool,
    /// The type that umount(8) found: accepted, without effect
    #[arg(short = 't', value_name = "TYPE")]
    kind: Option<String>,
}

/// Runs `mount.uxfs` and gives its exit code.
pub(crate) fn run(arguments: &[OsString]) -> u8 {
    let Arguments { target, is_fake, .. } = match super::parse(arguments, USAGE) {
        Ok(arguments) => arguments,
        Err(exit) => return exit,
    };
    set_purpose(Purpose::Mount);
    let arguments = mount::Arguments::of_helper(target);
    let outcome = if is_fake { arguments.verify() } else { mount::run(&arguments, &Context::default()) };
    code_of(outcome, USAGE, FAILED)
}

/// Runs `umount.uxfs` and gives its exit code.
pub(crate) fn unmount(arguments: &[OsString]) -> u8 {
    match super::parse::<Unmounting>(arguments, USAGE) {
        Ok(Unmounting { directory, lazy, force, .. }) => code_of(
            umount::run(&umount::Arguments { directory, lazy, force }, &Context::default()),
            USAGE,
            FAILED,
        ),
        Err(exit) => exit,
    }
}
