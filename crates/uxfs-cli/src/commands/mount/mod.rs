//! `uxfs mount`: a file system that the kernel shows, through FUSE.
//!
//! | module | holds |
//! |---|---|
//! | here | arguments |
//! | `background` | the command returns, and its process stays |
//! | `supervisor` | the process that mounts and unmounts |
//! | `confined` | the process that serves |
//! | `for_reading` | a mount for reading: recovery into the image, and taking changes later |
//! | `image_file` | what became of the image file meanwhile |
//! | `refusal` | why an image is not mounted |
//! | `remount` | changing whether a mount takes changes |
//! | `log` | where messages go |
//! | `help` | what `--help` says of the options |

mod background;
mod confined;
mod for_reading;
mod help;
mod image_file;
mod log;
mod refusal;
mod remount;
mod supervisor;

use std::path::PathBuf;

use rustix::process::WaitStatus;
use uxfs_fuse::{
    mounting::{
        mount_table::MountTable,
        options::{FuseMountOptions, OptionError},
    },
    transport::ring::availability,
};

use crate::{
    commands::Context,
    failure::{About, Exit, Failure, Outcome},
    image::EngineArgument,
    kind::Kind,
};

/// Arguments of `uxfs mount`.
#[derive(Debug, clap::Args)]
#[command(after_help = help::AFTER)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Without changes: the same as -o ro
    #[arg(short, long)]
    read_only: bool,
    /// The same as -o offset=
    #[arg(long, value_name = "BYTES", conflicts_with = "partition")]
    offset: Option<String>,
    /// The same as -o partition=
    #[arg(long, value_name = "N|LABEL|UUID")]
    partition: Option<String>,
    /// Stay in the foreground; the mount ends with this command, however it ends
    #[arg(short, long)]
    foreground: bool,
    /// I/O engine
    #[arg(long, value_enum, default_value_t, help_heading = "Input and output")]
    engine: EngineArgument,
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
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    let options = arguments.parse()?;
    if options.is_remount {
        arguments.require_remountable(&options)?;
        return remount::run(&arguments.target, &options).about_image(&arguments.target.image);
    }
    match arguments.foreground {
        true => supervisor::run(arguments, &options, None, context.json).about_image(&arguments.target.image),
        false => background::run(arguments, &options, context.json),
    }
}

/// Tells what went wrong in a child, which has no caller, and gives its exit code.
fn tell_of_child(outcome: Outcome, arguments: &Arguments, json: bool) -> i32 {
    let exit = match outcome.about_image(&arguments.target.image) {
        Ok(exit) => exit,
        Err(failure) if log::is_system() => log::failure(&failure),
        Err(failure) => failure.tell(json),
    };
    exit as i32
}

/// What the end of a child means. What went wrong it has said itself, unless a signal ended it.
fn outcome_of(status: WaitStatus, name: &str) -> Outcome {
    match status.exit_status() {
        Some(0) => Ok(Exit::Success),
        Some(code) => {
            let codes = [Exit::Usage, Exit::Corruption, Exit::Unsupported];
            Ok(codes.into_iter().find(|exit| *exit as i32 == code).unwrap_or(Exit::Failed))
        }
        None => {
            let signal = status.terminating_signal().unwrap_or(0);
            Err(Failure::refused(Kind::Interrupted, format!("{name} was ended by signal {signal}")))
        }
    }
}

impl Arguments {
    /// As mount(8) asks.
    pub(crate) fn of_helper(target: Target) -> Self {
        let engine = EngineArgument::default();
        Self { target, engine, read_only: false, offset: None, partition: None, foreground: false }
    }

    /// What messages are about.
    fn about(&self) -> std::path::Display<'_> {
        self.target.image.display()
    }

    /// Only whether a mount takes changes can be changed, and only of the mount that is meant.
    fn require_remountable(&self, options: &FuseMountOptions) -> Result<(), Failure> {
        if !options.says_access {
            return Err(Failure::usage("remount changes nothing but ro and rw: give one of them"));
        }
        let Ok(table) = MountTable::read() else { return Ok(()) };
        let directory = std::fs::canonicalize(&self.target.directory).unwrap_or_default();
        let Some(entry) = table.at(&directory).filter(|entry| entry.is_fuse()) else { return Ok(()) };
        let is_meant = entry.source == self.target.image
            || std::fs::canonicalize(&self.target.image).is_ok_and(|image| entry.source == image);
        match is_meant {
            true => Ok(()),
            false => Err(Failure::usage(format!(
                "{} is mounted on {}, and not {}",
                entry.source.display(),
                directory.display(),
                self.about()
            ))),
        }
    }

    /// Looks at the options, and mounts nothing.
    pub(crate) fn verify(&self) -> Outcome {
        self.parse().map(|_| Exit::Success)
    }

    fn parse(&self) -> Result<FuseMountOptions, Failure> {
        let mut options = FuseMountOptions::default();
        let wrong = |error: OptionError| Failure::usage(error.to_string());
        for list in &self.target.options {
            options.apply(list).map_err(wrong)?;
        }
        if self.read_only {
            options.apply("ro").map_err(wrong)?;
        }
        if let Some(offset) = &self.offset {
            options.apply(&format!("offset={offset}")).map_err(wrong)?;
        }
        if self.partition.is_some() {
            options.partition.clone_from(&self.partition);
        }
        if options.partition.is_some() && options.offset_bytes.is_some() {
            return Err(Failure::usage("a partition says where it begins: give partition= or offset="));
        }
        if options.ignores_log && !options.is_read_only {
            let failure = Failure::usage("without its log a file system is shown for reading only");
            return Err(failure.with_remedy("mount it with the options norecovery,ro"));
        }
        if options.has_ring == Some(true) {
            availability::queues().map_err(|error| Failure::unsupported(error.to_string()))?;
        }
        Ok(options)
    }
}
