//! The one door for developer commands: `cargo xtask --help`.

mod bench;
mod golden_images;
mod judges;
mod process;
mod test;
mod tidy;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::Parser;

/// Developer commands of uxfs.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
enum Arguments {
    /// Set up what the tests need and run them all
    Test(test::Arguments),
    /// Check the repository's policy: sizes, banned words, licences
    Tidy,
    /// Set up the outside judges: xfsprogs and what else the tests need
    Judges(judges::Arguments),
    /// List, make, check and unpack the golden images
    GoldenImages(golden_images::Arguments),
    /// Make the images that benchmarks read (needs root)
    BenchImages {
        /// Where they are kept
        #[arg(long, default_value = "/dev/shm/uxfs-bench")]
        directory: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    match arguments {
        Arguments::Test(arguments) => test::run(&arguments),
        Arguments::Tidy => tidy::run(),
        Arguments::Judges(arguments) => judges::run(&arguments),
        Arguments::GoldenImages(arguments) => golden_images::run(&arguments),
        Arguments::BenchImages { directory } => {
            println!("{}", bench::fixtures::inodes_image(&directory, 2_000_000)?.display());
            println!("{}", bench::fixtures::tree_image(&directory, 150_000, 5 << 30)?.display());
            Ok(())
        }
    }
}
