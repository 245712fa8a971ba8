//! `cargo xtask bench mount`: a mount through FUSE beside the kernel's XFS and fuse2fs, doing the same work in the same run.
//!
//! | module | holds |
//! |---|---|
//! | here | arguments, the table |
//! | `contenders` | making, mounting and unmounting each file system |
//! | [`null`] | a file system that stores nothing: the ceiling of the transport |
//! | `work` | what is done and measured |

mod contenders;
pub mod null;
mod work;

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};

use self::{
    contenders::{Contender, Mount},
    work::{Work, source_archive},
};
use super::measure::median;

/// Arguments of `cargo xtask bench mount`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folder for the images, in memory so that the disk is not measured
    #[arg(long, default_value = "/dev/shm/uxfs-bench-mount")]
    directory: PathBuf,
    /// Runs of each work on each file system
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Files that are made, listed and removed
    #[arg(long, default_value_t = 200_000)]
    files: u32,
    /// MiB that are written and read
    #[arg(long, default_value_t = 1024)]
    mebibytes: u64,
    /// Only work whose name contains this word
    #[arg(long)]
    only: Option<String>,
    /// Only file systems with this name, as the table has it (repeatable); the kernel's XFS is always there
    #[arg(long)]
    contender: Vec<String>,
}

/// The figures of one work on one file system.
struct Figures {
    name: &'static str,
    runs: Vec<f64>,
}

/// Runs all in turn, and prints for each work the medians and their ratio to the kernel's.
pub fn run(arguments: &Arguments) -> Result<()> {
    let uxfs = super::read::build()?;
    fs::create_dir_all(&arguments.directory)?;
    let archive = source_archive(&arguments.directory)?;
    let contenders: Vec<Contender> = Contender::all(&uxfs)?
        .into_iter()
        .filter(|one| {
            let is_named = arguments.contender.iter().any(|name| name == one.name());
            one.is_rival() || arguments.contender.is_empty() || is_named
        })
        .collect();
    println!(
        "{} processors; images in {}",
        std::thread::available_parallelism()?,
        arguments.directory.display()
    );
    for work in Work::all(arguments.files, arguments.mebibytes, &archive) {
        if arguments.only.as_ref().is_some_and(|word| !work.name().contains(word.as_str())) {
            continue;
        }
        let mut all: Vec<Figures> =
            contenders.iter().map(|one| Figures { name: one.name(), runs: Vec::new() }).collect();
        for _ in 0..arguments.runs {
            for (contender, figures) in contenders.iter().zip(&mut all) {
                let figure = on(contender, &work, arguments)
                    .with_context(|| format!("{} on {}", work.name(), contender.name()))?;
                figures.runs.push(figure);
            }
        }
        report(&work, &all);
    }
    fs::remove_dir_all(&arguments.directory)?;
    Ok(())
}

/// One run on a new file system.
fn on(contender: &Contender, work: &Work, arguments: &Arguments) -> Result<f64> {
    let mut mount = Mount::new(contender, &arguments.directory)?;
    work.prepare(mount.path())?;
    if work.wants_cold_caches() {
        mount = mount.again()?;
        drop_caches()?;
    }
    let figure = work.run(&mut mount);
    mount.end()?;
    figure
}

/// The kernel forgets clean pages, names and inodes.
fn drop_caches() -> Result<()> {
    fs::write("/proc/sys/vm/drop_caches", "3").context("dropping caches")
}

fn report(work: &Work, all: &[Figures]) {
    let rival = all.first().map_or(0.0, |figures| median(figures.runs.clone()));
    for figures in all {
        let middle = median(figures.runs.clone());
        // A rate is better when it is higher, a time when it is lower.
        let share = if work.is_rate() { middle / rival } else { rival / middle };
        let runs: Vec<String> = figures.runs.iter().map(|run| format!("{run:.1}")).collect();
        println!(
            "{:<34} {:<12} {middle:>10.1} {:<8} {:>6.1} % of the kernel's  ({})",
            work.name(),
            figures.name,
            work.unit(),
            share * 100.0,
            runs.join(" ")
        );
    }
}
