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

use std::{
    env, io,
    path::{Path, PathBuf},
    process,
};

use clap::ValueEnum;
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
    the file system is there; a process stays, and ends when it is unmounted. An image whose log is dirty is recovered first, \
    with ro in memory only; with norecovery,ro it is shown without its log.\n\
    Options for -o, as in /etc/fstab: ro, norecovery, allow_other, suid, dev, noexec, uid=, gid=, noatime, relatime, strictatime, \
    nodiratime, sync, dirsync, commit=SECONDS, cache=SIZE, offset=BYTES, threads=N, uring, nouring, no_writeback_cache, auto_unmount, fsname=, subtype=, \
    max_read=, remount.\n\
    Examples:\n  uxfs mount disk.img /mnt\n  uxfs mount -o ro,offset=1048576 disk.img ~/mnt\n  uxfs umount /mnt"
)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
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

/// Image, directory and options: those of the command and of the helper of mount(8).
#[derive(Debug, clap::Args)]
pub struct Target {
    /// Image file or block device
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// Directory on which it is mounted
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
    /// Options, separated by commas
    #[arg(short, value_name = "OPTIONS")]
    options: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: &Arguments, _: &Context) -> Outcome {
    let options = arguments.parse()?;
    if options.is_remount {
        let remounted = mounting::remount(&arguments.target.directory, &options);
        return remounted.map(|()| Exit::Success).map_err(|error| Failure::failed(error.to_string()));
    }
    if !arguments.foreground && !arguments.is_awaited && !arguments.serves {
        return background::run(arguments);
    }
    let about = arguments.target.image.display();
    if arguments.serves {
        return confined::serve(arguments, &options).about(about);
    }
    supervisor::run(arguments, &options).about(about)
}

impl Arguments {
    /// As mount(8) asks.
    pub(crate) fn of_helper(target: Target) -> Self {
        let engine = EngineArgument::default();
        Self { target, engine, foreground: false, is_awaited: false, serves: false }
    }

    /// Looks at the options, and mounts nothing.
    pub(crate) fn verify(&self) -> Outcome {
        self.parse().map(|_| Exit::Success)
    }

    fn parse(&self) -> Result<FuseMountOptions, Failure> {
        let mut options = FuseMountOptions::default();
        for list in &self.target.options {
            options.apply(list).map_err(|error| Failure::usage(error.to_string()))?;
        }
        refuse_unknown(&options)?;
        if options.ignores_log && !options.is_read_only {
            let failure = Failure::usage("without its log a file system is shown for reading only");
            return Err(failure.with_remedy("mount it with the options norecovery,ro"));
        }
        if options.has_ring == Some(true) {
            availability::queues().map_err(|error| Failure::unsupported(error.to_string()))?;
        }
        Ok(options)
    }

    /// This command again, in another process.
    fn again(&self, more: &[&str]) -> io::Result<process::Command> {
        let mut command = process::Command::new(env::current_exe()?);
        command.arg("mount").args(self.image_and_directory());
        for options in &self.target.options {
            command.arg("-o").arg(options);
        }
        let engine = self.engine.to_possible_value();
        command.arg("--engine").arg(engine.as_ref().map_or("auto", |engine| engine.get_name()));
        command.args(more);
        Ok(command)
    }

    /// A name that begins with a dash is no option.
    fn image_and_directory(&self) -> [PathBuf; 2] {
        [&self.target.image, &self.target.directory].map(|path| Path::new(".").join(path))
    }
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
