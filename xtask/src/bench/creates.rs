//! Creates as fs_mark measures them: the usual case against the rare ones, and what the machine itself allows.
//!
//! A thread that only reads the clock is interrupted as well: by other threads where there are more than processors, and in
//! a virtual machine by the host. No operation can be expected to pause for less time than such a thread.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::journal::{Bench, Figures, Run, median};

/// How long the clock is read.
const CLOCK_TIME: Duration = Duration::from_secs(2);
/// The third thread computes for so long, and then rests for three times as long.
const BUSY_TIME: Duration = Duration::from_millis(4);

/// Latencies of creates, in microseconds, of one run.
struct Latencies {
    mean: f64,
    median: f64,
    permille: f64,
    longest: f64,
}

impl Latencies {
    fn of(run: &Run, iterations: usize) -> Result<Self> {
        let of_all = |name: &str| {
            let path = |iteration| format!("iterations/{iteration}/latencies/create/{name}_nanoseconds");
            (0..iterations)
                .map(|iteration| Ok(run.number(0, &path(iteration))? / 1e3))
                .collect::<Result<Vec<_>>>()
        };
        let average = |numbers: Vec<f64>| numbers.iter().sum::<f64>() / numbers.len() as f64;
        Ok(Self {
            mean: average(of_all("average")?),
            median: average(of_all("p50")?),
            permille: average(of_all("p999")?),
            longest: of_all("most")?.into_iter().fold(0.0, f64::max),
        })
    }
}

impl Bench<'_> {
    /// 600,000 empty files over 2,000 directories, by two threads: the speed beside the kernel's, and pauses.
    pub fn creates(&self) -> Result<()> {
        self.creates_of(3, 1000, 12.0)
    }

    /// Two million empty files over 4,000 directories.
    pub fn many_creates(&self) -> Result<()> {
        self.creates_of(10, 2000, 10.0)
    }

    fn creates_of(&self, iterations: usize, subdirectories: u32, target: f64) -> Result<()> {
        let (times, subdirectories) = (iterations.to_string(), subdirectories.to_string());
        let workload =
            ["fsmark", "-k", "-D", &subdirectories, "-S", "0", "-n", "100000", "-s", "0", "-L", &times];
        let mut creates = Figures::default();
        let mut latencies = Vec::new();
        let mut log_bytes = Figures::default();
        for _ in 0..self.arguments.runs {
            let rate = |run: &Run| -> Result<f64> {
                let seconds = (0..iterations)
                    .map(|iteration| run.number(0, &format!("iterations/{iteration}/elapsed_seconds")))
                    .sum::<Result<f64>>()?;
                Ok(200.0 * iterations as f64 / seconds)
            };
            let theirs =
                self.theirs(16 << 30, |mount| rate(&self.theirs_on(mount, &workload, &["0", "1"])?))?;
            let run = self.ours(&workload, "16G", &["-d", "/0", "-d", "/1"])?;
            creates.add(rate(&run)?, theirs);
            latencies.push(Latencies::of(&run, iterations)?);
            let last = format!("iterations/{}/journal", iterations - 1);
            log_bytes.add(
                run.number(0, &format!("{last}/log_bytes"))? / 2e5,
                run.number(0, &format!("{last}/changed_bytes"))? / 2e5,
            );
        }
        creates.report("create, 2 threads", "kernel XFS", "k/s", false, target);
        log_bytes.tell("log bytes of a create", "changed, in runs of 128", "bytes");
        report_latencies(&latencies);
        report_clock("two threads that read the clock", false);
        report_clock("the same, beside a third thread", true);
        Ok(())
    }
}

fn report_latencies(latencies: &[Latencies]) {
    let of_all = |get: fn(&Latencies) -> f64| median(&latencies.iter().map(get).collect::<Vec<_>>());
    let share = of_all(|latencies| latencies.mean / latencies.median);
    println!(
        "{:<34} mean {:.2} us, median {:.2} us: {share:.2}x  target at most 1.3x {}",
        "latency of a create",
        of_all(|latencies| latencies.mean),
        of_all(|latencies| latencies.median),
        if share <= 1.3 { "reached" } else { "MISSED" }
    );
    let longest = of_all(|latencies| latencies.longest) / 1e3;
    println!(
        "{:<34} 99.9 % within {:.0} us, longest {longest:.2} ms  target at most 2 ms {}",
        "",
        of_all(|latencies| latencies.permille),
        if longest <= 2.0 { "reached" } else { "MISSED" }
    );
}

/// Prints the longest time between two looks at the clock of two threads that do nothing else, in several tries.
fn report_clock(name: &str, has_third: bool) {
    let longest: Vec<f64> = (0..3).map(|_| longest_pause(has_third).as_secs_f64() * 1e3).collect();
    println!("{name:<34} longest pause {:.2} ms (median of {} tries)", median(&longest), longest.len());
}

fn longest_pause(has_third: bool) -> Duration {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        if has_third {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    let begun = Instant::now();
                    while begun.elapsed() < BUSY_TIME {}
                    thread::sleep(3 * BUSY_TIME);
                }
            });
        }
        let readers = [scope.spawn(read_clock), scope.spawn(read_clock)];
        let longest = readers.into_iter().filter_map(|reader| reader.join().ok()).max();
        is_over.store(true, Relaxed);
        longest.unwrap_or_default()
    })
}

fn read_clock() -> Duration {
    let begun = Instant::now();
    let (mut last, mut longest) = (begun, Duration::ZERO);
    while last.duration_since(begun) < CLOCK_TIME {
        let now = Instant::now();
        longest = longest.max(now.duration_since(last));
        last = now;
    }
    longest
}
