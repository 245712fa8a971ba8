//! `cargo xtask bench check`: the check of a whole image, beside `xfs_repair -n`, and the repair where there is nothing to do.
//! With `--damaged`, the repair of directories of growing size.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use uxfs_testkit::judges::Judge;

use super::{
    fixtures,
    measure::{Run, measure, median},
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
    /// Have uxfs mkfs make the image, of empty files: for images that take the kernel too long
    #[arg(long)]
    bulk: bool,
    /// Memory for uxfs check
    #[arg(long, default_value = "256M")]
    memory: String,
    /// Instead, zero a block of directories of 10,000, 100,000 and 1,000,000 names, and repair them, beside xfs_repair
    #[arg(long)]
    damaged: bool,
    /// Leave out xfs_repair, for images for which this machine has too little memory
    #[arg(long)]
    alone: bool,
}

/// Runs all in turn, prints the figures of each run, and how they compare.
pub fn run(arguments: &Arguments) -> Result<()> {
    let uxfs = super::read::build()?;
    if arguments.damaged {
        return repair_directories(&uxfs, arguments);
    }
    let image = match (arguments.bulk, arguments.mebibytes) {
        (true, _) => fixtures::bulk_image(&uxfs, &arguments.directory, arguments.files, 1000)?,
        (false, 0) => fixtures::inodes_image(&arguments.directory, arguments.files)?,
        (false, mebibytes) => fixtures::tree_image(&arguments.directory, arguments.files, mebibytes << 20)?,
    };
    let (mut judged, mut checked, mut repaired) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..arguments.runs {
        if !arguments.alone {
            let mut command = Judge::XfsRepair.command();
            judged.push(report("xfs_repair -n", measure(command.arg("-n").arg(&image))?));
        }
        let mut command = Command::new(&uxfs);
        checked.push(report(
            "uxfs check",
            measure(command.args(["check", "--memory", &arguments.memory]).arg(&image))?,
        ));
        let mut command = Command::new(&uxfs);
        repaired.push(report("uxfs repair", measure(command.args(["repair", "--no-undo"]).arg(&image))?));
    }
    compare("uxfs check by xfs_repair -n", &checked, &judged);
    compare("uxfs repair by uxfs check", &repaired, &checked);
    Ok(())
}

/// Repairs directories of growing size of which one block is zeroed: the time must grow with the names.
fn repair_directories(uxfs: &Path, arguments: &Arguments) -> Result<()> {
    for names in [10_000, 100_000, 1_000_000] {
        let image = fixtures::bulk_image(uxfs, &arguments.directory, names, names)?;
        let (mut judged, mut repaired) = (Vec::new(), Vec::new());
        println!("{names} names");
        for _ in 0..arguments.runs {
            if !arguments.alone {
                let damaged = fixtures::without_directory_block(&image)?;
                let mut command = Judge::XfsRepair.command();
                judged.push(report("xfs_repair", measure(command.arg(&damaged))?));
            }
            let damaged = fixtures::without_directory_block(&image)?;
            let mut command = Command::new(uxfs);
            repaired
                .push(report("uxfs repair", measure(command.args(["repair", "--no-undo"]).arg(&damaged))?));
            let mut command = Judge::XfsRepair.command();
            crate::process::run(command.arg("-n").arg(&damaged))?;
            fs::remove_file(&damaged)?;
        }
        compare("uxfs repair by xfs_repair", &repaired, &judged);
    }
    Ok(())
}

fn report(name: &str, run: Run) -> Run {
    let (seconds, processor) = (run.elapsed.as_secs_f64(), run.processor.as_secs_f64());
    println!("{name:<20} {seconds:>8.2} s (cpu {processor:.2} s) {:>6} MiB", run.peak_memory_bytes >> 20);
    run
}

/// Prints ratios of medians.
fn compare(name: &str, ours: &[Run], theirs: &[Run]) {
    if theirs.is_empty() {
        return;
    }
    let ratio = |value: fn(&Run) -> f64| {
        median(ours.iter().map(value).collect()) / median(theirs.iter().map(value).collect())
    };
    println!(
        "{name:<28} time {:.3}, processor time {:.3}, memory {:.3}",
        ratio(|run| run.elapsed.as_secs_f64()),
        ratio(|run| run.processor.as_secs_f64()),
        ratio(|run| run.peak_memory_bytes as f64),
    );
}
