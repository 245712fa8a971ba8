//! Benchmarks: commands that measure uxfs beside its rivals in the same run. Never assertions in tests.

mod fixtures;
mod measure;
mod read;

use anyhow::Result;

/// Which benchmark.
#[derive(Debug, clap::Subcommand)]
pub enum Bench {
    /// Bulk inode scan, extraction and recursive listing, beside the kernel's mount
    Read(read::Arguments),
}

/// Runs it.
pub fn run(benchmark: &Bench) -> Result<()> {
    match benchmark {
        Bench::Read(arguments) => read::run(arguments),
    }
}
