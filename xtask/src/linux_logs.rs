//! `cargo xtask linux-logs`: kernel mounts are cut off under load, and both the kernel and uxfs recover what is left.

use std::{path::PathBuf, time::Instant};

use anyhow::{Result, bail};
use uxfs_testkit::linux_logs::{self, Tally};

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
    /// Go on after a difference
    #[arg(long)]
    go_on: bool,
    /// Keep images that are recovered differently in this folder
    #[arg(long)]
    keep: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let begin = Instant::now();
    let (mut tally, mut failures, mut seed) = (Tally::default(), 0, arguments.seed);
    while tally.logs < arguments.count {
        if let Err(error) = linux_logs::run(seed, arguments.rounds, arguments.keep.as_deref(), &mut tally) {
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
