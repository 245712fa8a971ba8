//! `uxfs bench`: workloads on any mounted directory, or in process on an image.

mod dirsync;
mod fsmark;
mod leaves;
mod target;
mod xattr;

use uxfs_bench::BenchError;

use crate::{
    commands::Context,
    failure::{Failure, Outcome},
};

/// Arguments of `uxfs bench`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  uxfs bench fsmark -d /mnt/a -d /mnt/b -t 2 -s 0 -S 0\n  uxfs bench fsmark --image disk.img --size 8G -d /a -d /b -t 2 -s 0 -S 0\n\
    uxfs bench WORKLOAD --help tells more."
)]
pub struct Arguments {
    #[command(subcommand)]
    workload: Workload,
}

/// Which workload.
#[derive(Debug, clap::Subcommand)]
enum Workload {
    /// Create many files with many threads, with fs_mark's options and columns, then delete them in parallel
    Fsmark(fsmark::Arguments),
    /// Create and rename files in one directory with frequent fsyncs
    Dirsync(dirsync::Arguments),
    /// Set very many attributes on one file
    Xattr(xattr::Arguments),
    /// Show how full the attribute leaves of a file in an image are
    Leaves(leaves::Arguments),
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    match &arguments.workload {
        Workload::Fsmark(arguments) => fsmark::run(arguments, context),
        Workload::Dirsync(arguments) => dirsync::run(arguments, context),
        Workload::Xattr(arguments) => xattr::run(arguments, context),
        Workload::Leaves(arguments) => leaves::run(arguments, context),
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::FileSystem(error) => error.into(),
            BenchError::Options(message) => Self::usage(message),
            error => Self::caused_by(&error),
        }
    }
}
