//! `cargo xtask bench check`: the check of a whole image, beside `xfs_repair -n`, and the repair where there is nothing to do.

use std::{path::PathBuf, process::Command};

use anyhow::Result;
use uxfs_testkit::judges::Judge;

use super::{
    fixtures,
    measure::{Run, measure},
};

/// Arguments of `cargo xtask bench check`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folder for the image, in memory so that the disk is not measured
    #[arg(long, default_value = "/dev/shm/uxfs-bench")]
    directory: PathBuf,
    /// Runs of each command
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Files of the image
    #[arg(long, default_value_t = 500_000)]
    files: u32,
    /// MiB of contents; with 0, files are empty
    #[arg(long, default_value_t = 2048)]
    mebibytes: u64,
}

/// Runs both in turn, and prints the figures of each run.
pub fn run(arguments: &Arguments) -> Result<()> {
    let uxfs = super::read::build()?;
    let image = match arguments.mebibytes {
        0 => fixtures::inodes_image(&arguments.directory, arguments.files)?,
        mebibytes => fixtures::tree_image(&arguments.directory, arguments.files, mebibytes << 20)?,
    };
    for _ in 0..arguments.runs {
        report("xfs_repair -n", measure(Judge::XfsRepair.command().arg("-n").arg(&image))?);
        report("uxfs check", measure(Command::new(&uxfs).arg("check").arg(&image))?);
        report("uxfs repair", measure(Command::new(&uxfs).args(["repair", "--no-undo"]).arg(&image))?);
    }
    Ok(())
}

fn report(name: &str, run: Run) {
    let (seconds, processor) = (run.elapsed.as_secs_f64(), run.processor.as_secs_f64());
    println!("{name:<20} {seconds:>8.2} s (cpu {processor:.2} s) {:>6} MiB", run.peak_memory_bytes >> 20);
}
