//! Other tools that the program stands in for, where it is called through a link of their name.
//!
//! | module | stands in for |
//! |---|---|
//! | [`xfs_repair`] | `xfs_repair`: its options and exit codes |
//! | [`fsck`] | `fsck.xfs`, also as `fsck.uxfs`: what `fsck` and a boot call |
//! | [`xfs_info`] | `xfs_info`: the geometry of an image, or of what is mounted on a directory |
//! | [`xfs_admin`] | `xfs_admin`: label and uuid |
//! | [`metadata`] | `xfs_metadump` and `xfs_mdrestore` |
//! | [`xfs_copy`] | `xfs_copy`: a copy of a whole file system |
//! | [`mount`] | `mount.uxfs` and `umount.uxfs`: what mount(8) and umount(8) call |
//!
//! `mkfs.xfs` is the command `uxfs mkfs`, which has its options.

pub mod fsck;
pub mod metadata;
pub mod mount;
pub mod xfs_admin;
pub mod xfs_copy;
pub mod xfs_info;
pub mod xfs_repair;

use std::{
    ffi::{OsStr, OsString},
    io::Write,
    process::ExitCode,
};

use clap::{CommandFactory, Parser};

use crate::{
    failure::{Exit, Outcome},
    output::{Output, program, set_program},
    print_clap,
};

/// Runs the tool of this name with these arguments; `None` where there is no such tool.
pub(crate) fn run(name: &OsStr, arguments: &[OsString]) -> Option<ExitCode> {
    let (name, run): (&'static str, fn(&[OsString]) -> u8) = match name.to_str()? {
        "xfs_repair" => ("xfs_repair", xfs_repair::run),
        "xfs_info" => ("xfs_info", xfs_info::run),
        "xfs_admin" => ("xfs_admin", xfs_admin::run),
        "xfs_metadump" => ("xfs_metadump", metadata::dump),
        "xfs_mdrestore" => ("xfs_mdrestore", metadata::restore),
        "xfs_copy" => ("xfs_copy", xfs_copy::run),
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
        xfs_info::Arguments::command(),
        xfs_admin::Arguments::command(),
        metadata::Dumping::command(),
        metadata::Restoring::command(),
        xfs_copy::Arguments::command(),
        fsck::Arguments::command(),
        mount::Arguments::command(),
        mount::Unmounting::command(),
    ]
}

/// The version of xfsprogs whose options the tools have.
const VERSION_OF_XFSPROGS: &str = "7.2.0";

/// What `-V` prints: it begins as that of the tool, which scripts look at.
pub(crate) fn version() -> String {
    format!("{} version {VERSION_OF_XFSPROGS} (uxfs {})", program(), env!("CARGO_PKG_VERSION"))
}

fn print_version() -> u8 {
    let mut output = Output::new();
    u8::from(writeln!(output, "{}", version()).and_then(|()| output.finish()).is_err())
}

/// The exit code where the tool has one for failures, and another for a wrong command line.
fn code_of(outcome: Outcome, usage: u8, failed: u8) -> u8 {
    match outcome.unwrap_or_else(|failure| failure.tell(false)) {
        Exit::Success => 0,
        Exit::Usage => usage,
        _ => failed,
    }
}

/// The arguments, or the exit code after a wrong command line or a call for help.
fn parse<A: Parser>(arguments: &[OsString], usage: u8) -> Result<A, u8> {
    A::try_parse_from(arguments).map_err(|error| {
        let printed = print_clap(&error);
        if error.use_stderr() || printed.is_err() { usage } else { 0 }
    })
}
