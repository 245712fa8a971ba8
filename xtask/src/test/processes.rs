//! Runs units of tests, several processes at a time.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Read,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tempfile::NamedTempFile;
use wait4::{ResUse, Wait4};

use super::{
    events::{Ended, Events},
    schedule::Unit,
    times::{Time, Times},
};

/// Concurrent processes that compute. More than processors, because they sometimes wait for other programs.
const COMPUTING: usize = 3;
/// Concurrent processes that mostly wait.
const WAITING: usize = 3;
/// A test that runs longer hangs: the longest takes a tenth of this.
const LONGEST: Duration = Duration::from_secs(10 * 60);
/// How often a running process is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Result of one process.
#[derive(Debug)]
pub struct Outcome {
    pub binary: String,
    pub ended: Vec<Ended>,
    /// Processor time of the process and of those that it waited for.
    pub processor: Duration,
}

impl Outcome {
    /// Records the time of each test. Tests that share a process share its processor time in proportion to their elapsed time.
    pub fn record(&self, times: &mut Times) {
        let sum: f64 = self.ended.iter().map(|ended| ended.seconds).sum();
        let part = self.processor.as_secs_f64() / sum.max(0.001);
        for ended in &self.ended {
            let time = Time { seconds: ended.seconds, processor_seconds: ended.seconds * part };
            times.record(&self.binary, &ended.test, time);
        }
    }
}

/// Runs all units. Gives the outcome of each.
///
/// # Errors
/// A process cannot be started.
pub fn run(units: &[Unit], cargo: &OsStr, set_up: impl Fn(&mut Command) + Sync) -> Result<Vec<Outcome>> {
    let (waiting, computing): (Vec<&Unit>, Vec<&Unit>) = units.iter().partition(|unit| unit.is_waiting());
    let queues = [computing, waiting].map(|units| Mutex::new(units.into_iter()));
    let outcomes = Mutex::new(Vec::new());
    let started = Instant::now();
    let worker = |queue: &Mutex<std::vec::IntoIter<&Unit>>| -> Result<()> {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(unit) = next else { return Ok(()) };
            let outcome = unit.run(cargo, &set_up)?;
            say(&outcome, started.elapsed());
            outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
        }
    };
    thread::scope(|scope| -> Result<()> {
        let [computing, waiting] = &queues;
        // Once the first queue is empty, its workers take from the second.
        let compute = || worker(computing).and_then(|()| worker(waiting));
        let mut workers: Vec<_> = (0..COMPUTING).map(|_| scope.spawn(compute)).collect();
        workers.extend((0..WAITING).map(|_| scope.spawn(|| worker(waiting))));
        workers.into_iter().try_for_each(|worker| worker.join().expect("it does not panic"))
    })?;
    Ok(outcomes.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// A line for each process that has ended.
fn say(outcome: &Outcome, elapsed: Duration) {
    let ended = &outcome.ended;
    let failed: Vec<&str> = ended.iter().filter(|end| !end.passed).map(|end| &*end.test).collect();
    let seconds: f64 = ended.iter().map(|end| end.seconds).sum();
    let what = match &ended[..] {
        [one] => one.test.clone(),
        several => format!("{} tests", several.len()),
    };
    let words = if failed.is_empty() { String::new() } else { format!(": FAILED {}", failed.join(", ")) };
    let (elapsed, processor) = (elapsed.as_secs(), outcome.processor.as_secs_f64());
    println!("{elapsed:5} s  {} {what} ({seconds:.1} s, processor {processor:.1} s){words}", outcome.binary);
}

impl Unit<'_> {
    /// Runs the tests, and those that a crashed one kept from running in another process.
    fn run(&self, cargo: &OsStr, set_up: &impl Fn(&mut Command)) -> Result<Outcome> {
        let mut outcome =
            Outcome { binary: self.binary.name.clone(), ended: Vec::new(), processor: Duration::ZERO };
        let Some(tests) = &self.tests else {
            self.run_own(&mut outcome, cargo, set_up)?;
            return Ok(outcome);
        };
        let mut waiting = tests.clone();
        while !waiting.is_empty() {
            self.run_once(&waiting, &mut outcome, cargo, set_up)?;
            waiting.retain(|test| outcome.ended.iter().all(|end| end.test != *test));
        }
        Ok(outcome)
    }

    fn command(&self, cargo: &OsStr, set_up: &impl Fn(&mut Command)) -> Command {
        let mut command = Command::new(&self.binary.program);
        // Folder and variables are as `cargo test` has them.
        command.current_dir(&self.binary.package_folder).process_group(0).stdin(Stdio::null());
        command.env("CARGO", cargo).env("CARGO_MANIFEST_DIR", &self.binary.package_folder);
        set_up(&mut command);
        command
    }

    /// One process. At least one test of `tests` has ended afterwards.
    fn run_once(
        &self,
        tests: &[String],
        outcome: &mut Outcome,
        cargo: &OsStr,
        set_up: &impl Fn(&mut Command),
    ) -> Result<()> {
        let mut command = self.command(cargo, set_up);
        command.args(["--exact", "--test-threads=1", "-Zunstable-options", "--format=json", "--report-time"]);
        // Of a stable toolchain, libtest takes these options only so.
        command.args(tests).env("RUSTC_BOOTSTRAP", "1");
        let mut events = Events::default();
        let process = Process::start(command)?;
        let (end, errors) = process.finish(|bytes| events.take(bytes))?;
        let mut ended = std::mem::take(&mut events.ended);
        let unfinished = events.running().map(str::to_owned);
        let unfinished = unfinished.or_else(|| ended.is_empty().then(|| tests.first().cloned()).flatten());
        let others = events.others.join("\n");
        if let Some(test) = unfinished {
            let printed = format!("{}\n{others}\n{errors}", end.words());
            ended.push(Ended { test, passed: false, seconds: end.elapsed.as_secs_f64(), printed });
        } else if ended.iter().any(|end| !end.passed) {
            let told = format!("\nstandard error of the process:\n{errors}");
            ended.iter_mut().filter(|end| !end.passed).for_each(|end| end.printed.push_str(&told));
        }
        outcome.ended.append(&mut ended);
        outcome.processor += end.processor();
        Ok(())
    }

    /// A binary with a main function of its own.
    fn run_own(&self, outcome: &mut Outcome, cargo: &OsStr, set_up: &impl Fn(&mut Command)) -> Result<()> {
        let mut printed = Vec::new();
        let process = Process::start(self.command(cargo, set_up))?;
        let (end, errors) = process.finish(|bytes| printed.extend_from_slice(bytes))?;
        let passed = end.used.as_ref().is_some_and(|used| used.status.success());
        let printed = format!("{}\n{}\n{errors}", end.words(), String::from_utf8_lossy(&printed));
        let seconds = end.elapsed.as_secs_f64();
        outcome.ended.push(Ended { test: self.binary.name.clone(), passed, seconds, printed });
        outcome.processor += end.processor();
        Ok(())
    }
}

/// How a process ended.
#[derive(Debug)]
struct End {
    /// `None` where it was killed because it hung.
    used: Option<ResUse>,
    elapsed: Duration,
}

impl End {
    fn processor(&self) -> Duration {
        self.used.as_ref().map_or(Duration::ZERO, |used| used.rusage.utime + used.rusage.stime)
    }

    fn words(&self) -> String {
        match &self.used {
            Some(used) => format!("the test program ended with {}", used.status),
            None => format!("the test program was killed: nothing happened for {} s", LONGEST.as_secs()),
        }
    }
}

/// A process that writes to files, not to pipes: one that hangs in the kernel keeps what it has open.
struct Process {
    child: Child,
    output: NamedTempFile,
    errors: NamedTempFile,
    started: Instant,
}

impl Process {
    fn start(mut command: Command) -> Result<Self> {
        let (output, errors) = (NamedTempFile::new()?, NamedTempFile::new()?);
        command.stdout(output.as_file().try_clone()?).stderr(errors.as_file().try_clone()?);
        let child = command.spawn().with_context(|| format!("cannot run {:?}", command.get_program()))?;
        Ok(Self { child, output, errors, started: Instant::now() })
    }

    /// Waits for its end, and gives `take` what it prints. A process that prints nothing for too long is killed.
    fn finish(mut self, mut take: impl FnMut(&[u8])) -> Result<(End, String)> {
        let mut output = File::open(self.output.path())?;
        let used = wait(&mut self.child, LONGEST, || {
            let mut bytes = Vec::new();
            output.read_to_end(&mut bytes)?;
            take(&bytes);
            Ok(!bytes.is_empty())
        })?;
        let errors = String::from_utf8_lossy(&fs::read(self.errors.path())?).into_owned();
        Ok((End { used, elapsed: self.started.elapsed() }, errors))
    }
}

/// Waits for a child. One about which `look` has nothing new for so long is killed with its process group; it may stay if the kernel does
/// not let it go, so its end is not waited for.
fn wait(
    child: &mut Child,
    longest: Duration,
    mut look: impl FnMut() -> Result<bool>,
) -> Result<Option<ResUse>> {
    let mut heard = Instant::now();
    while heard.elapsed() < longest {
        let used = child.try_wait4()?;
        if look()? {
            heard = Instant::now();
        }
        if used.is_some() {
            return Ok(used);
        }
        thread::sleep(LOOK);
    }
    let group = rustix::process::Pid::from_child(child);
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_hangs_is_killed() {
        let start = |seconds: &str| Command::new("sleep").arg(seconds).process_group(0).spawn().unwrap();
        let nothing = || Ok(false);
        assert!(wait(&mut start("0"), LONGEST, nothing).unwrap().unwrap().status.success());
        let mut hanging = start("1000");
        assert!(wait(&mut hanging, Duration::from_millis(50), nothing).unwrap().is_none());
        assert!(!hanging.wait().unwrap().success());
    }
}
