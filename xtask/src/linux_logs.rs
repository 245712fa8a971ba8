//! `cargo xtask linux-logs`: kernel mounts are cut off under load, and both the kernel and uxfs recover what is left.

use std::{path::PathBuf, time::Instant};

use anyhow::{Result, bail};
use uxfs_testkit::linux_logs::{
    self, Tally,
    crashes::{CrashTally, during_recovery},
    hostile::{HostileTally, damage},
};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// How many logs
    #[arg(long, default_value_t = 100)]
    count: u64,
    /// Where to begin
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Logs that are left behind of each file system, one after the other
    #[arg(long, default_value_t = 4)]
    rounds: u32,
    /// Crash our own recovery instead: so many states of each log
    #[arg(long, value_name = "STATES")]
    crashes: Option<u64>,
    /// Damage each log in so many ways instead, with checksums that are right
    #[arg(long, value_name = "WAYS")]
    damage: Option<u64>,
    /// Go on after a difference
    #[arg(long)]
    go_on: bool,
    /// Keep images that are recovered differently in this folder
    #[arg(long)]
    keep: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let begin = Instant::now();
    let keep = arguments.keep.as_deref();
    if arguments.crashes.is_some() || arguments.damage.is_some() {
        let (mut crashes, mut damages) = (CrashTally::default(), HostileTally::default());
        for seed in arguments.seed..arguments.seed + arguments.count {
            linux_logs::with_dirty_image(seed, keep, |image| {
                let states = arguments.crashes.unwrap_or(0);
                if states > 0 {
                    during_recovery(image, states, seed, &mut crashes)?;
                }
                damage(image, arguments.damage.unwrap_or(0), seed, &mut damages)
            })?;
            println!("seed {seed}, {:.0} s: {crashes:?} {damages:?}", begin.elapsed().as_secs_f64());
        }
        return Ok(());
    }
    let (mut tally, mut failures, mut seed) = (Tally::default(), 0, arguments.seed);
    while tally.logs < arguments.count {
        if let Err(error) = linux_logs::run(seed, arguments.rounds, keep, &mut tally) {
            failures += 1;
            eprintln!("{error:#}");
            if !arguments.go_on {
                break;
            }
        }
        seed += 1;
        println!("{} logs, {:.0} s: {tally:?}", tally.logs, begin.elapsed().as_secs_f64());
    }
    if failures > 0 {
        bail!("{failures} file systems were recovered differently");
    }
    Ok(())
}
