//! Other tools that the program stands in for, where it is called through a link of their name.
//!
//! | module | stands in for |
//! |---|---|
//! | [`xfs_repair`] | `xfs_repair`: its options and exit codes |
//! | [`fsck`] | `fsck.xfs`, also as `fsck.uxfs`: what `fsck` and a boot call |
//! | [`mount`] | `mount.uxfs` and `umount.uxfs`: what mount(8) and umount(8) call |
//!
//! `mkfs.xfs` is the command `uxfs mkfs`, which has its options.

pub mod fsck;
pub mod mount;
pub mod xfs_repair;

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write},
    process::ExitCode,
};

use clap::{CommandFactory, Parser};

use crate::output::set_program;

/// Runs the tool of this name with these arguments; `None` where there is no such tool.
pub(crate) fn run(name: &OsStr, arguments: &[OsString]) -> Option<ExitCode> {
    let (name, run): (&'static str, fn(&[OsString]) -> u8) = match name.to_str()? {
        "xfs_repair" => ("xfs_repair", xfs_repair::run),
        "fsck.uxfs" => ("fsck.uxfs", fsck::run),
        "fsck.xfs" => ("fsck.xfs", fsck::run),
        "mount.uxfs" => ("mount.uxfs", mount::run),
        "mount.fuse.uxfs" => ("mount.fuse.uxfs", mount::run),
        "umount.uxfs" => ("umount.uxfs", mount::unmount),
        "umount.fuse.uxfs" => ("umount.fuse.uxfs", mount::unmount),
        _ => return None,
    };
    set_program(name);
    Some(ExitCode::from(run(arguments)))
}

/// The tools, for man pages.
pub fn commands() -> Vec<clap::Command> {
    vec![
        xfs_repair::Arguments::command(),
        fsck::Arguments::command(),
        mount::Arguments::command(),
        mount::Unmounting::command(),
    ]
}

/// The arguments, or the exit code after a wrong command line or a call for help.
fn parse<A: Parser>(arguments: &[OsString], usage: u8) -> Result<A, u8> {
    A::try_parse_from(arguments).map_err(|error| {
        let printed = error.print().and_then(|()| io::stdout().flush());
        if error.use_stderr() || printed.is_err() { usage } else { 0 }
    })
}
