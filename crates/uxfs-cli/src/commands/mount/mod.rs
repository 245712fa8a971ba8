//! `uxfs mount`: a file system that the kernel shows, through FUSE.
//!
//! | module | holds |
//! |---|---|
//! | here | arguments |
//! | `background` | the command returns, and its process stays |
//! | `supervisor` | the process that mounts and unmounts |
//! | `confined` | the process that serves |
//! | `log` | where messages go |

mod background;
mod confined;
mod log;
mod supervisor;

use std::path::PathBuf;

use uxfs_fuse::{
    mounting::{self, options::FuseMountOptions},
    transport::ring::availability,
};

use crate::{
    commands::Context,
    failure::{About, Exit, Failure, Outcome},
    image::EngineArgument,
};

/// What the command is started with again to serve.
const SERVES: &str = "--serves";

/// Arguments of `uxfs mount`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The image is mounted through FUSE: by root, or by a user through fusermount3 (package fuse3). The command returns once \
    the file system is there; a process stays, and ends when it is unmounted. An image whose log is dirty is recovered first.\n\
    Options for -o, as in /etc/fstab: ro, norecovery, allow_other, suid, dev, noexec, uid=, gid=, noatime, relatime, strictatime, \
    nodiratime, sync, dirsync, commit=SECONDS, cache=SIZE, offset=BYTES, threads=N, uring, nouring, no_writeback_cache, auto_unmount, fsname=, subtype=, \
    max_read=, remount.\n\
    Examples:\n  uxfs mount disk.img /mnt\n  uxfs mount -o ro,offset=1048576 disk.img ~/mnt\n  uxfs umount /mnt"
)]
pub struct Arguments {
    /// Image file or block device
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// Directory on which it is mounted
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
    /// Options, separated by commas
    #[arg(short, value_name = "OPTIONS")]
    options: Vec<String>,
    /// Stay in the foreground
    #[arg(short, long)]
    foreground: bool,
    /// I/O engine
    #[arg(long, value_enum, default_value_t, help_heading = "Input and output")]
    engine: EngineArgument,
    /// Tell the process that waits for it when the file system is there
    #[arg(long, hide = true)]
    is_awaited: bool,
    /// Be the process that serves
    #[arg(long, hide = true)]
    pub(crate) serves: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments, _: &Context) -> Outcome {
    let mut options = FuseMountOptions::default();
    for list in &arguments.options {
        options.apply(list).map_err(|error| Failure::usage(error.to_string()))?;
    }
    refuse_unknown(&options)?;
    if options.has_ring == Some(true) {
        availability::queues().map_err(|error| Failure::unsupported(error.to_string()))?;
    }
    if options.is_remount {
        let remounted = mounting::remount(&arguments.directory, &options);
        return remounted.map(|()| Exit::Success).map_err(|error| Failure::failed(error.to_string()));
    }
    if !arguments.foreground && !arguments.is_awaited && !arguments.serves {
        return background::run();
    }
    let about = arguments.image.display();
    if arguments.serves {
        return confined::serve(arguments, &options).about(about);
    }
    supervisor::run(arguments, &options).about(about)
}

/// Options that are understood and cannot be followed yet are not ignored.
fn refuse_unknown(options: &FuseMountOptions) -> Result<(), Failure> {
    let refused = [
        (options.partition.is_some(), "partition=", "give the place of the partition with offset="),
        (options.has_lazy_times, "lazytime", "times are written with the next checkpoint of the log"),
        (options.is_debug, "debug", "there is no log of requests"),
    ];
    match refused.iter().find(|(is_asked, ..)| *is_asked) {
        Some((_, word, remedy)) => {
            Err(Failure::usage(format!("the option {word} is not there yet")).with_remedy(remedy))
        }
        None => Ok(()),
    }
}
