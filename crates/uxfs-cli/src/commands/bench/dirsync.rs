//! `uxfs bench dirsync`: one directory that is often made durable.

use std::{io::Write, path::PathBuf};

use uxfs_bench::dirsync::{self, Document, Options};

use super::mounted;
use crate::{
    commands::Context,
    failure::{Exit, Outcome},
    output::Output,
};

/// Arguments of `uxfs bench dirsync`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uxfs bench dirsync -d /mnt\n\
    Makes files in one directory, with an fsync of the directory every so often, then renames them likewise.")]
pub struct Arguments {
    /// Directory to work in, made if need be
    #[arg(short = 'd', value_name = "DIR")]
    directory: PathBuf,
    /// Files that are made and renamed
    #[arg(short = 'n', value_name = "COUNT", default_value_t = 10_000)]
    files: u64,
    /// Files between two fsyncs of the directory
    #[arg(short = 'e', long, value_name = "COUNT", default_value_t = 100)]
    every: u64,
    /// Keep the files
    #[arg(short = 'k')]
    keep: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    let backend = mounted(std::slice::from_ref(&arguments.directory))?;
    let options = Options { files: arguments.files, every: arguments.every, keep: arguments.keep };
    let phases = dirsync::run(&backend, &options)?;
    let mut output = Output::new();
    if context.json {
        phases.iter().try_for_each(|phase| output.json(&Document::new(phase)))?;
    } else {
        write!(output, "{}", dirsync::table(&phases))?;
    }
    output.finish()?;
    Ok(Exit::Success)
}
