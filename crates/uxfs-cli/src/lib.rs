//! **Internal: it changes without notice. Programs use the crate `uxfs`.**
//!
//! The `uxfs` command: arguments, output, progress. The crates below know XFS.
//!
//! | module | holds |
//! |---|---|
//! | [`attribute_text`] | extended attributes as getfattr prints them |
//! | `calendar` | times by the letters of strftime and find |
//! | `cause` | of which kind an error is, by its type |
//! | [`commands`] | one file per command: its arguments and what it prints |
//! | [`complaints`] | problems with single objects, the first of many in detail |
//! | `counted_kinds` | ten lines of each kind, and a count of the rest |
//! | `ddrescue_map` | the option that says what of a copy was read |
//! | `destination` | where the result of a command goes: a file, or standard output |
//! | [`document`] | JSON documents that several commands share |
//! | [`drop_in`] | other tools that the program stands in for, called through a link |
//! | [`edit`] | changing files in an image: what the commands for it share |
//! | `forms` | images that are compressed, or disks of virtual machines |
//! | [`glob`] | patterns in paths |
//! | [`image`] | the arguments that say which image and how to open it |
//! | `image_target` | a file or a block device that becomes a file system as a whole |
//! | `block_owner` | the owner of a block of the file system |
//! | `in_use` | images that are mounted, or changed by another program |
//! | `interrupt` | Ctrl-C and SIGTERM |
//! | [`kind`] | stable words for programs: why something failed, what is told |
//! | `mount_users` | programs that keep a mount busy |
//! | [`listing`] | the entries of a directory as commands list them |
//! | [`output`] | standard output: buffered, quiet when the pipe closes, safe names on terminals; messages |
//! | `overwrite` | keeps commands from writing over what they read |
//! | [`failure`] | from an error to a message and an exit code |
//! | [`partitions`] | the partitions of a disk: finding one, telling which there are |
//! | [`place`] | where on a disk the file system lies: at a byte, or in a partition |
//! | `paths` | the paths of the inodes that findings and actions are about |
//! | [`progress`] | a line on a terminal about long work, nothing elsewhere; the sentence at its end |
//! | `remedy` | advice for images that cannot be opened |
//! | `remains` | the remains of a command that a signal ends |
//! | `repaired` | the image as a repair would leave it, staged in memory |
//! | [`schema`] | the JSON Schema of what `--json` prints |
//! | [`search`] | trees seen as a whole: the expressions of find, the sums of du and df |
//! | `stand_in` | a copy of the superblock in the place of a first one that is damaged |
//! | [`target`] | a path or an inode number on the command line |
//! | [`text`] | modes, times, sizes and names as people read them |
#![forbid(unsafe_code)]
// They panic where the output is closed or full: see `output`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod attribute_text;
mod block_owner;
mod calendar;
mod cause;
pub mod commands;
pub mod complaints;
mod counted_kinds;
mod ddrescue_map;
mod destination;
pub mod document;
pub mod drop_in;
pub mod edit;
pub mod failure;
mod forms;
pub mod glob;
pub mod image;
mod image_target;
mod in_use;
mod interrupt;
pub mod kind;
pub mod listing;
mod mount_users;
pub mod output;
mod overwrite;
pub mod partitions;
mod paths;
pub mod place;
pub mod progress;
mod remains;
mod remedy;
mod repaired;
pub mod schema;
pub mod search;
mod stand_in;
pub mod target;
pub mod text;

use std::{
    ffi::OsString,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use clap::{CommandFactory, Parser, error::ErrorKind};
use uxfs_block::cache::pressure;

use crate::{
    commands::{Command, Context},
    failure::{Complaints, Exit, Failure},
    output::{program, say, set_json, set_program},
};

/// XFS without the kernel: make, fill, read, change and recover XFS V5 images from user space, without root.
#[derive(Debug, Parser)]
#[command(
    name = "uxfs",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    after_help = "uxfs help shows the commands in groups, and topics.\nExit codes: 0 done, 1 the operation failed, 2 wrong usage, 3 corruption found, \
                  4 unsupported feature.\nThrough a link named mkfs.xfs, xfs_repair, xfs_info, xfs_admin, xfs_metadump, xfs_mdrestore, xfs_copy, fsck.xfs, fsck.uxfs, mount.uxfs, mount.fuse.uxfs, \
                  umount.uxfs or umount.fuse.uxfs it is a drop-in for that tool.\nOf problems with single files or allocation groups the first 100 are \
                  printed; the others are counted by kind.\nExample: uxfs ls -l disk.img /etc"
)]
pub struct Arguments {
    /// Print JSON instead of text: one document, or one per line for lists
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    command: Command,
}

/// The whole command line, for man pages and completions.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Through a link of this name the command is a drop-in for that tool.
const MKFS_LINK: &str = "mkfs.xfs";

/// Puts the command in its place where the program was called by the name of the tool that it stands in for.
fn by_name_of_link(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let name = arguments.first().and_then(|first| Path::new(first).file_name());
    if name == Some(MKFS_LINK.as_ref()) {
        set_program(MKFS_LINK);
        arguments.insert(1, "mkfs".into());
    }
    arguments
}

/// Prints what clap has to say: of a wrong command line, or the help or version that it asks for.
pub(crate) fn print_usage(error: &clap::Error, json: bool) -> Exit {
    if json && error.use_stderr() {
        return Failure::usage(words_of(error)).tell(true);
    }
    let printed = print_clap(error);
    if error.use_stderr() {
        return Exit::Usage;
    }
    Complaints::default().exit_after(printed, json)
}

/// Prints what clap has to say. As a drop-in, an error begins with the name of the tool.
pub(crate) fn print_clap(error: &clap::Error) -> io::Result<()> {
    // As a drop-in the command has no name beside that of the tool.
    let words = error.to_string().replace("mkfs.xfs mkfs", MKFS_LINK);
    match words.strip_prefix("error: ").filter(|_| program() != "uxfs") {
        Some(words) => {
            say!("{}", words.trim_end());
            Ok(())
        }
        None if program() == MKFS_LINK && !error.use_stderr() => {
            let mut stdout = io::stdout();
            stdout.write_all(words.as_bytes()).and_then(|()| stdout.flush())
        }
        None => error.print().and_then(|()| io::stdout().flush()),
    }
}

/// What is wrong with a command line, in one line: what clap says in front of the usage and its tips.
fn words_of(error: &clap::Error) -> String {
    let words = error.to_string();
    let words = words.strip_prefix("error: ").unwrap_or(&words);
    let what = words.split("\n\n").next().unwrap_or(words);
    what.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The exit code. mkfs.xfs has one for all that goes wrong.
fn code_of(exit: Exit) -> ExitCode {
    match exit {
        Exit::Usage if program() == MKFS_LINK => ExitCode::FAILURE,
        exit => ExitCode::from(exit as u8),
    }
}

/// Parses the command line, runs it and gives the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    interrupt::survive_size_limits();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let name = arguments.first().and_then(|first| Path::new(first).file_name());
    if let Some(exit) = name.and_then(|name| drop_in::run(name, &arguments)) {
        return exit;
    }
    let first = arguments.get(1).cloned().unwrap_or_default();
    let wants_json = arguments.iter().any(|argument| argument == "--json");
    let arguments = match Arguments::try_parse_from(by_name_of_link(arguments)) {
        Ok(arguments) => arguments,
        Err(error) => {
            // As the program mount.fuse calls servers, with options of its own.
            if error.kind() == ErrorKind::InvalidSubcommand && Path::new(&first).is_file() {
                let failure = Failure::usage("it is a file, and no command");
                let remedy = "uxfs mount IMAGE DIRECTORY mounts an image; for mount(8) and fstab link /sbin/mount.fuse.uxfs to this program";
                return failure.about_host(Path::new(&first)).with_remedy(remedy).report(wants_json);
            }
            return code_of(print_usage(&error, wants_json));
        }
    };
    if arguments.json {
        set_json();
    }
    let context = Context { json: arguments.json, ..Context::default() };
    // Whatever file systems the command opens: without the watch their caches merely keep to their budgets. A command that forks
    // has no thread before; its child starts the watch itself.
    if !arguments.command.forks() {
        let _ = pressure::watch_all_caches();
    }
    match arguments.command.run(&context) {
        Ok(exit) => code_of(exit),
        Err(failure) => code_of(failure.tell(arguments.json)),
    }
}
