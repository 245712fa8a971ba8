//! Running a command with limits of time and memory, and measuring both: hostile input may cost only an error.

use std::{
    fs::{self, File},
    io::{Read, Seek},
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::OwnedFd,
    process::{Pid, PidfdFlags, Resource, Rlimit, Signal, pidfd_open, pidfd_send_signal, prlimit},
};
use wait4::Wait4;

use crate::image::memory_folder;

/// Limits of a command.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// It is killed after this.
    pub time: Duration,
    /// Address space, against taking the whole machine down; the judgement is by resident memory.
    pub address_space_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(10), address_space_bytes: 16 << 30 }
    }
}

/// Result of a command.
#[derive(Debug)]
pub struct Outcome {
    /// Exit status; `None` where a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// It ran past its time and was killed.
    pub timed_out: bool,
    /// Wall time.
    pub elapsed: Duration,
    /// Highest resident memory. Never below [`Outcome::starter_peak_bytes`], as the kernel counts.
    pub peak_memory_bytes: u64,
    /// Highest resident memory of the process that started the command: no less than this can be measured.
    pub starter_peak_bytes: u64,
    /// Standard output, the first 64 MiB.
    pub stdout: Vec<u8>,
    /// Standard error, the first 64 MiB.
    pub stderr: Vec<u8>,
}

impl Outcome {
    /// Why the outcome breaks the promise for hostile input, or `None` where it keeps it: no panic (exit 101 or a
    /// signal), no hang, no more than `memory_bytes`.
    pub fn escape(&self, memory_bytes: u64) -> Option<String> {
        let words = String::from_utf8_lossy(&self.stderr);
        if self.timed_out {
            Some(format!("hangs: killed after {:?}", self.elapsed))
        } else if let Some(signal) = self.signal {
            Some(format!("killed by signal {signal}: {}", words.trim()))
        } else if self.code == Some(101) || words.contains("panicked at") {
            Some(format!("panics: {}", words.trim()))
        } else if self.peak_memory_bytes > memory_bytes {
            let starter = self.starter_peak_bytes >> 20;
            Some(format!("takes {} MiB of memory (its starter {starter} MiB)", self.peak_memory_bytes >> 20))
        } else {
            None
        }
    }
}

/// Runs `command` to its end or its limit.
///
/// # Errors
/// It cannot be started or waited for.
pub fn run_limited(command: &mut Command, limits: &Limits) -> Result<Outcome> {
    let [mut stdout, mut stderr] =
        [tempfile::tempfile_in(memory_folder())?, tempfile::tempfile_in(memory_folder())?];
    command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    // The kernel counts the starter's peak as the child's. Where it cannot be reset the outcome names it.
    let _ = reset_peak();
    let started = Instant::now();
    let child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
    let pid = Pid::from_child(&child);
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let space =
        Rlimit { current: Some(limits.address_space_bytes), maximum: Some(limits.address_space_bytes) };
    // Fails only where the child has already ended.
    let _ = prlimit(Some(pid), Resource::As, space);
    let timed_out = !ended_within(&handle, limits.time)?;
    if timed_out {
        let _ = pidfd_send_signal(&handle, Signal::KILL);
    }
    let used = child.wait4()?;
    Ok(Outcome {
        code: used.status.code(),
        signal: used.status.signal(),
        timed_out,
        elapsed: started.elapsed(),
        peak_memory_bytes: used.rusage.maxrss,
        starter_peak_bytes: peak_bytes()?,
        stdout: read_back(&mut stdout)?,
        stderr: read_back(&mut stderr)?,
    })
}

fn ended_within(handle: &OwnedFd, time: Duration) -> Result<bool> {
    let timeout = Timespec { tv_sec: time.as_secs().try_into()?, tv_nsec: time.subsec_nanos().into() };
    loop {
        match poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sets the highest resident memory of this process to what is resident now.
///
/// # Errors
/// The kernel does not offer that.
pub fn reset_peak() -> Result<()> {
    fs::write("/proc/self/clear_refs", "5").context("cannot reset the highest resident memory")
}

/// The highest resident memory of this process.
///
/// # Errors
/// The kernel does not tell.
pub fn peak_bytes() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB")).context("no VmHWM")?;
    Ok(kibibytes.trim().parse::<u64>()? << 10)
}

/// Of each output.
const KEPT_BYTES: u64 = 64 << 20;

fn read_back(file: &mut File) -> Result<Vec<u8>> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(KEPT_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, time: Duration) -> Outcome {
        let limits = Limits { time, ..Limits::default() };
        run_limited(Command::new("sh").args(["-c", script]), &limits).unwrap()
    }

    #[test]
    fn measures_a_good_run() {
        let outcome = shell("echo out; echo err >&2; exit 3", Duration::from_secs(10));
        assert_eq!((outcome.code, outcome.stdout.as_slice()), (Some(3), b"out\n".as_slice()));
        assert!(outcome.peak_memory_bytes > 100 << 10);
        assert_eq!(outcome.escape(256 << 20), None);
        assert!(outcome.escape(0).unwrap().contains("memory"));
    }

    #[test]
    fn kills_what_hangs() {
        let outcome = shell("sleep 60", Duration::from_millis(100));
        assert!(outcome.timed_out && outcome.escape(256 << 20).unwrap().contains("hangs"));
    }

    #[test]
    fn tells_signals_and_panics() {
        let killed = shell("kill -SEGV $$", Duration::from_secs(10));
        assert!(killed.escape(256 << 20).unwrap().contains("signal 11"));
        let panicked = shell("echo thread main panicked at x >&2; exit 101", Duration::from_secs(10));
        assert!(panicked.escape(256 << 20).unwrap().contains("panics"));
    }
}
