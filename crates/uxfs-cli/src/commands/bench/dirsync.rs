//! `uxfs bench dirsync`: one directory that is often made durable.

use std::io::Write;

use uxfs_bench::{
    backend::Backend,
    dirsync::{self, Document, Options},
};

use super::target::{TargetArguments, Work};
use crate::{
    commands::Context,
    failure::{Failure, Outcome},
    output::Output,
};

/// Arguments of `uxfs bench dirsync`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uxfs bench dirsync -d /mnt\n\
    Creates files in one directory with an fsync of the directory at intervals, then renames them in the same way.")]
pub struct Arguments {
    #[command(flatten)]
    target: TargetArguments,
    /// Files to create and rename
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
    arguments.target.run(arguments, context)
}

impl Work for Arguments {
    fn on<B: Backend>(&self, backend: &B, context: &Context, output: &mut Output) -> Result<(), Failure> {
        let options = Options { files: self.files, every: self.every, keep: self.keep };
        let phases = dirsync::run(backend, &options)?;
        if context.json {
            phases.iter().try_for_each(|phase| output.json(&Document::new(phase)))?;
        } else {
            write!(output, "{}", dirsync::table(&phases))?;
        }
        Ok(())
    }
}
