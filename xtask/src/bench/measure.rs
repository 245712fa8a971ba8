//! Whole commands, timed in pairs: ours and the rival's in turn, so that a machine that drifts does not decide.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use wait4::Wait4;

/// One run of one command.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Wall time.
    pub elapsed: Duration,
    /// Processor time, user and system.
    pub processor: Duration,
    /// Highest resident memory.
    pub peak_memory_bytes: u64,
}

/// Runs a command to its end and discards its output.
pub fn measure(command: &mut Command) -> Result<Run> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let started = Instant::now();
    let child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
    let used = child.wait4()?;
    let elapsed = started.elapsed();
    ensure!(used.status.success(), "{command:?}: {}", used.status);
    let processor = used.rusage.utime + used.rusage.stime;
    Ok(Run { elapsed, processor, peak_memory_bytes: used.rusage.maxrss })
}

/// Runs of two rivals in turn.
#[derive(Debug)]
pub struct Pairs {
    ours: Vec<Run>,
    theirs: Vec<Run>,
}

impl Pairs {
    /// Runs both in turn, `count` times.
    pub fn run(
        count: u32,
        mut ours: impl FnMut() -> Result<Run>,
        mut theirs: impl FnMut() -> Result<Run>,
    ) -> Result<Self> {
        let mut pairs = Self { ours: Vec::new(), theirs: Vec::new() };
        for _ in 0..count {
            pairs.theirs.push(theirs()?);
            pairs.ours.push(ours()?);
        }
        Ok(pairs)
    }

    /// Prints medians and the median of the ratios, pair by pair.
    pub fn report(&self, name: &str, rival: &str, target: f64) {
        let seconds = |runs: &[Run]| median(runs.iter().map(|run| run.elapsed.as_secs_f64()).collect());
        let ratio = median(
            self.ours
                .iter()
                .zip(&self.theirs)
                .map(|(ours, theirs)| theirs.elapsed.as_secs_f64() / ours.elapsed.as_secs_f64())
                .collect(),
        );
        let processor = median(self.ours.iter().map(|run| run.processor.as_secs_f64()).collect());
        let memory = self.ours.iter().map(|run| run.peak_memory_bytes).max().unwrap_or(0) >> 20;
        let verdict = if ratio >= target { "reached" } else { "MISSED" };
        println!(
            "{name:<28} {:>8.3} s (cpu {processor:.3} s, {memory} MiB)   {rival:<34} {:>8.3} s   {ratio:>6.2}x  \
             target {target}x {verdict}",
            seconds(&self.ours),
            seconds(&self.theirs),
        );
    }

    /// Highest resident memory of ours.
    pub fn peak_memory_bytes(&self) -> u64 {
        self.ours.iter().map(|run| run.peak_memory_bytes).max().unwrap_or(0)
    }

    /// Median wall time of ours and theirs, in seconds.
    pub fn medians(&self) -> (f64, f64) {
        let seconds = |runs: &[Run]| median(runs.iter().map(|run| run.elapsed.as_secs_f64()).collect());
        (seconds(&self.ours), seconds(&self.theirs))
    }
}

/// The middle one of several figures.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
