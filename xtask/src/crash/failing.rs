//! `cargo xtask crash --failures`: the device fails at the n-th read, write and flush, for every n of a workload.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use anyhow::{Result, bail};
use uxfs_block::device::DeviceOperation;
use uxfs_lab::crash::{
    failures::{requests, try_failure},
    flaky::Failure,
    run::Setup,
};

/// Tries every failure of this workload, once and for good.
pub fn every_failure(setup: &Setup, jobs: usize) -> Result<u64> {
    let started = Instant::now();
    let counts = requests(setup)?;
    let kinds = [DeviceOperation::Read, DeviceOperation::Write, DeviceOperation::Flush];
    let all: Vec<Failure> = kinds
        .into_iter()
        .zip(counts)
        .flat_map(|(operation, count)| {
            (0..count)
                .flat_map(move |request| [false, true].map(|stays| Failure { operation, request, stays }))
        })
        .collect();
    let (next, wrong) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let fates = Mutex::new(BTreeMap::<String, u64>::new());
    let work = || {
        while let Some(failure) = all.get(next.fetch_add(1, Relaxed)) {
            match try_failure(setup, *failure) {
                Ok(fate) => {
                    if let Ok(mut fates) = fates.lock() {
                        *fates.entry(format!("{} {fate:?}", failure.operation)).or_default() += 1;
                    }
                }
                Err(error) => {
                    println!("WRONG: {error:#}");
                    wrong.fetch_add(1, Relaxed);
                }
            }
        }
    };
    thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
    let Ok(fates) = fates.into_inner() else { bail!("a lock") };
    println!(
        "{setup}: {} reads, {} writes, {} flushes; {} failures in {:.0} s: {fates:?}",
        counts[0],
        counts[1],
        counts[2],
        all.len(),
        started.elapsed().as_secs_f64()
    );
    match wrong.into_inner() {
        0 => Ok(all.len() as u64),
        wrong => bail!("{wrong} failures broke a promise"),
    }
}
