//! `cargo xtask linux-logs`: shuts kernel mounts down under load and compares the kernel's recovery with that of uxfs.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use anyhow::{Result, anyhow, bail};
use uxfs_lab::linux_logs::{
    self, Tally, chain,
    crashes::{CrashTally, during_recovery},
    hostile::{HostileTally, damage},
};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Number of logs
    #[arg(long, default_value_t = 100)]
    count: u64,
    /// Seed of the first log
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Logs from each file system, one after the other
    #[arg(long, default_value_t = 4)]
    rounds: u32,
    /// Let uxfs and the kernel work in turn; each continues after the shutdown of the other
    #[arg(long)]
    chain: bool,
    /// File systems in parallel
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Instead: crash our own recovery in this many states of each log
    #[arg(long, value_name = "STATES")]
    crashes: Option<u64>,
    /// Instead: damage each log in this many ways, with valid checksums
    #[arg(long, value_name = "WAYS")]
    damage: Option<u64>,
    /// Use only these kept images
    #[arg(long, value_name = "PATH")]
    image: Vec<PathBuf>,
    /// Continue after a difference
    #[arg(long)]
    go_on: bool,
    /// Folder in which images with different recoveries are kept
    #[arg(long)]
    keep: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    if !arguments.image.is_empty() {
        let mut tally = Tally::default();
        for image in &arguments.image {
            println!("{}: {:?}", image.display(), linux_logs::again(image, &mut tally)?);
        }
        println!("{tally}");
        return Ok(());
    }
    if arguments.crashes.is_some() || arguments.damage.is_some() {
        return ill_treat(arguments);
    }
    let begin = Instant::now();
    let (next, failures, is_over) =
        (AtomicU64::new(arguments.seed), AtomicU64::new(0), AtomicBool::new(false));
    let total = Mutex::new(Tally::default());
    let work = || {
        while !is_over.load(Relaxed) {
            let seed = next.fetch_add(1, Relaxed);
            let mut tally = Tally::default();
            let result = one(arguments, seed, &mut tally);
            let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
            total.merge(&tally);
            println!("seed {seed}, {:.0} s: {total}", begin.elapsed().as_secs_f64());
            if let Err(error) = result {
                failures.fetch_add(1, Relaxed);
                eprintln!("{error:#}");
            }
            let has_failed = failures.load(Relaxed) > 0 && !arguments.go_on;
            if total.logs >= arguments.count || has_failed {
                is_over.store(true, Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..arguments.jobs.max(1) {
            scope.spawn(work);
        }
    });
    match failures.into_inner() {
        0 => {
            let Tally { logs, clean, records, transactions, paths, .. } =
                total.into_inner().unwrap_or_else(PoisonError::into_inner);
            println!(
                "{logs} dirty and {clean} clean logs, {records} records, {transactions} transactions, {paths} paths compared: \
                 recovered as by the kernel"
            );
            Ok(())
        }
        failures => bail!("{failures} file systems were recovered differently"),
    }
}

/// One file system; a panic is a failure like any other.
fn one(arguments: &Arguments, seed: u64, tally: &mut Tally) -> Result<()> {
    let keep = arguments.keep.as_deref();
    let run = if arguments.chain { chain::run } else { linux_logs::run };
    catch_unwind(AssertUnwindSafe(|| run(seed, arguments.rounds, keep, tally)))
        .unwrap_or_else(|panic| Err(anyhow!("seed {seed}: panic: {}", text_of(panic.as_ref()))))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Crashes of the recovery, and damaged logs.
fn ill_treat(arguments: &Arguments) -> Result<()> {
    let (begin, keep) = (Instant::now(), arguments.keep.as_deref());
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
    let CrashTally { states, written, judged, half_freed } = crashes;
    let HostileTally { cases, replayed, unreadable, refused, clean } = damages;
    print!("{} logs", arguments.count);
    if states > 0 {
        print!(
            ": {states} crashes of the recovery, {written} recovered again, {judged} of them judged by xfs_repair, {half_freed} with a half-freed inode"
        );
    }
    if cases > 0 {
        print!(
            ": {cases} damages, {replayed} replayed, {unreadable} replayed but unreadable, {refused} refused; {clean} clean logs"
        );
    }
    println!();
    Ok(())
}
