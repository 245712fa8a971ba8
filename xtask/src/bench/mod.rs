//! Benchmarks: commands that measure uxfs beside its rivals in the same run. Never assertions in tests.

mod build;
mod check;
mod creates;
mod fixtures;
mod journal;
mod measure;
mod mount;
mod read;

use anyhow::Result;

pub use read::build;

/// Which benchmark.
#[derive(Debug, clap::Subcommand)]
pub enum Bench {
    /// Bulk inode scan, extraction and recursive listing, beside the kernel's mount
    Read(read::Arguments),
    /// Making images: from a tree of files, from a million empty ones, and empty, beside mkfs.xfs and tar
    Build(build::Arguments),
    /// Operations through the journal: files, attributes, directories that are synced, beside the kernel's XFS
    Journal(journal::Arguments),
    /// The check of a whole image, beside xfs_repair -n
    Check(check::Arguments),
    /// A mount through FUSE, beside the kernel's XFS and fuse2fs
    Mount(mount::Arguments),
    /// Serves a file system that stores nothing: what `bench mount` compares transports by
    #[command(hide = true)]
    Null(mount::null::Arguments),
}

/// Runs it.
pub fn run(benchmark: &Bench) -> Result<()> {
    match benchmark {
        Bench::Read(arguments) => read::run(arguments),
        Bench::Build(arguments) => build::run(arguments),
        Bench::Journal(arguments) => journal::run(arguments),
        Bench::Check(arguments) => check::run(arguments),
        Bench::Mount(arguments) => mount::run(arguments),
        Bench::Null(arguments) => mount::null::run(arguments),
    }
}
