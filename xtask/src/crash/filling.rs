//! `cargo xtask crash --full`: every kind of operation at every level of fullness.

use std::{
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use anyhow::{Result, bail};
use uxfs_lab::crash::{
    run::Setup,
    sweep::{Sweep, SweepTally},
};
use uxfs_testkit::verdict::repair_is_silent;

/// Tries every level from 0 to `levels` free blocks; `xfs_repair` looks at each.
pub fn every_level(setup: &Setup, levels: u64, jobs: usize) -> Result<SweepTally> {
    let started = Instant::now();
    let sweep = Sweep::new(setup)?;
    let (next, wrong) = (AtomicU64::new(0), AtomicU64::new(0));
    let total = Mutex::new(SweepTally::default());
    let folder = tempfile::Builder::new().prefix("uxfs-full-").tempdir_in(memory_folder())?;
    let try_level = |level: u64, tally: &mut SweepTally| -> Result<()> {
        let image = sweep.level(level, tally)?;
        let path = folder.path().join(format!("level-{level}"));
        image.save_written(&path)?;
        repair_is_silent(&path)?;
        Ok(std::fs::remove_file(&path)?)
    };
    let work = || {
        let mut tally = SweepTally::default();
        loop {
            let level = next.fetch_add(1, Relaxed);
            if level > levels {
                break;
            }
            if let Err(error) = try_level(level, &mut tally) {
                println!("WRONG: {setup}, level {level}: {error:#}");
                wrong.fetch_add(1, Relaxed);
            }
        }
        if let Ok(mut total) = total.lock() {
            add(&mut total, &tally);
        }
    };
    thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
    let Ok(total) = total.into_inner() else { bail!("a lock") };
    println!("{setup}: {total}; xfs_repair finds nothing ({:.0} s)", started.elapsed().as_secs_f64());
    match wrong.into_inner() {
        0 => Ok(total),
        wrong => bail!("{wrong} levels are wrong"),
    }
}

/// Adds the counts of further levels.
pub fn add(total: &mut SweepTally, tally: &SweepTally) {
    total.levels += tally.levels;
    total.done += tally.done;
    total.in_part += tally.in_part;
    total.refused += tally.refused;
    total.removed += tally.removed;
}

fn memory_folder() -> &'static Path {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared } else { Path::new("/tmp") }
}
