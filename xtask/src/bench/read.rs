//! `cargo xtask bench read`: reading an image in place, beside mounting it.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::Result;
use uxfs_testkit::{
    judges::{self, Judge},
    mount::{Access, LoopMount},
};

use super::{
    fixtures,
    measure::{Pairs, Run, measure},
};
use crate::process;

/// Cache of the memory runs.
const CACHE_MEBIBYTES: u64 = 16;
/// Memory that a command may take beside its cache.
const ALLOWANCE_MEBIBYTES: u64 = 64;

/// Arguments of `cargo xtask bench read`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folder for the images, in memory so that the disk is not measured
    #[arg(long, default_value = "/dev/shm/uxfs-bench")]
    directory: PathBuf,
    /// Runs of each command
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Inodes of the first image
    #[arg(long, default_value_t = 2_000_000)]
    inodes: u32,
    /// Files of the second image
    #[arg(long, default_value_t = 150_000)]
    files: u32,
    /// MiB of contents of the second image
    #[arg(long, default_value_t = 5120)]
    mebibytes: u64,
}

/// Runs all three comparisons.
pub fn run(arguments: &Arguments) -> Result<()> {
    let uxfs = build()?;
    let inodes = fixtures::inodes_image(&arguments.directory, arguments.inodes)?;
    let tree = fixtures::tree_image(&arguments.directory, arguments.files, arguments.mebibytes << 20)?;
    scan(arguments, &uxfs, &inodes)?;
    let listing = Pairs::run(
        arguments.runs,
        || measure(Command::new(&uxfs).args(["ls", "-lR"]).arg(&tree)),
        || with_mount(&tree, |mount| measure(Command::new("ls").arg("-lR").arg(mount))),
    )?;
    listing.report("uxfs ls -lR", "mount + ls -lR", 2.0);
    let archive = Pairs::run(
        arguments.runs,
        || measure(Command::new(&uxfs).args(["extract", "--tar", "-"]).arg(&tree)),
        || {
            with_mount(&tree, |mount| {
                measure(Command::new("sh").args(["-c", "tar cf - -C \"$1\" . | cat", "sh"]).arg(mount))
            })
        },
    )?;
    archive.report("uxfs extract --tar -", "mount + tar cf - | cat", 1.5);
    memory(&uxfs, &inodes, &tree)
}

/// Resident memory with a small cache: the budget and 64 MiB at most, whatever the image's size.
fn memory(uxfs: &Path, inodes: &Path, tree: &Path) -> Result<()> {
    let cases: [(&str, &[&str], &Path); 4] = [
        ("inodes --count", &["inodes", "--count"], inodes),
        ("ls -lR, 2 M files", &["ls", "-lR"], inodes),
        ("ls -lR", &["ls", "-lR"], tree),
        ("extract --tar -", &["extract", "--tar", "-"], tree),
    ];
    for (name, arguments, image) in cases {
        let run = measure(Command::new(uxfs).args(arguments).args(["--cache-size", "16M"]).arg(image))?;
        let (peak, limit) = (run.peak_memory_bytes >> 20, CACHE_MEBIBYTES + ALLOWANCE_MEBIBYTES);
        let verdict = if peak <= limit { "reached" } else { "MISSED" };
        println!(
            "{name:<28} {peak:>5} MiB resident with a cache of {CACHE_MEBIBYTES} MiB, target {limit} {verdict}"
        );
    }
    Ok(())
}

/// The bulk inode scan. The mount is not counted against the kernel, only the scan with a cold inode cache.
fn scan(arguments: &Arguments, uxfs: &Path, image: &Path) -> Result<()> {
    let scan = Pairs::run(
        arguments.runs,
        || measure(Command::new(uxfs).args(["inodes", "--count"]).arg(image)),
        || {
            let mount = LoopMount::new(image, Access::ReadOnly)?;
            let run = measure(Judge::XfsIo.command().args(["-c", "bulkstat -q"]).arg(mount.path()))?;
            mount.unmount()?;
            Ok(run)
        },
    )?;
    scan.report("uxfs inodes --count", "xfs_io -c 'bulkstat -q'", 5.0);
    let (ours, theirs) = scan.medians();
    let rate = |seconds: f64| f64::from(arguments.inodes) / seconds / 1e6;
    println!("{:<28} {:>8.2} M inodes/s{:>47.2} M inodes/s", "", rate(ours), rate(theirs));
    Ok(())
}

/// Mounts, runs and unmounts, all of it counted: that is what a user without uxfs does.
fn with_mount(image: &Path, command: impl FnOnce(&Path) -> Result<Run>) -> Result<Run> {
    let started = Instant::now();
    let mount = LoopMount::new(image, Access::ReadOnly)?;
    let run = command(mount.path())?;
    mount.unmount()?;
    Ok(Run { elapsed: started.elapsed(), ..run })
}

/// Builds the product as users have it, and gives its path.
pub fn build() -> Result<PathBuf> {
    let workspace = judges::workspace_directory();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = ["build", "--profile", "dist", "-p", "uxfs"];
    process::run(Command::new(cargo).current_dir(&workspace).args(build))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    Ok(target.join("dist/uxfs"))
}
