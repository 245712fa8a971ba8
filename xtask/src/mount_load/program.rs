//! Programs that loads start: each has a limit of time, and is ended with all its children.

use std::{
    io::{Read, Seek},
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

/// How often a program is asked whether it has ended.
const LOOK: Duration = Duration::from_millis(5);
/// A killed program that takes longer hangs in a system call.
const LONGEST_DEATH: Duration = Duration::from_secs(5);
/// What is shown of a program that fails.
const SHOWN_BYTES: usize = 4000;

/// What a program has printed, and how it ended.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output and standard error.
    pub words: String,
}

/// Runs a program, which must succeed within the limit; gives what it printed.
///
/// # Errors
/// It cannot be started, fails, or takes too long.
pub fn run(command: &mut Command, limit: Duration) -> Result<String> {
    let outcome = attempt(command, limit)?;
    if !outcome.status.success() {
        bail!("{}: {}\n{}", name(command), outcome.status, tail(&outcome.words));
    }
    Ok(outcome.words)
}

/// Runs a program, which must end within the limit.
///
/// # Errors
/// It cannot be started, or takes too long.
pub fn attempt(command: &mut Command, limit: Duration) -> Result<Outcome> {
    let mut printed = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stdout(printed.try_clone()?).stderr(printed.try_clone()?);
    let mut running = Running::start(command)?;
    let status = running.wait(limit)?;
    let mut words = Vec::new();
    printed.rewind()?;
    printed.read_to_end(&mut words)?;
    let words = String::from_utf8_lossy(&words).into_owned();
    match status {
        Some(status) => Ok(Outcome { status, words }),
        None => bail!("{}: ended after {} s\n{}", name(command), limit.as_secs(), tail(&words)),
    }
}

/// The last words of a long text.
pub fn tail(words: &str) -> String {
    let from = words.len().saturating_sub(SHOWN_BYTES);
    let from = (from..words.len()).find(|at| words.is_char_boundary(*at)).unwrap_or(words.len());
    words[from..].trim().to_owned()
}

fn name(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ").chars().take(300).collect()
}

/// A program that runs; its children are of its process group.
pub struct Running {
    child: Child,
    has_ended: bool,
}

impl Running {
    /// Starts it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command) -> Result<Self> {
        let child = command.process_group(0).spawn();
        let child = child.with_context(|| format!("cannot run {}", name(command)))?;
        Ok(Self { child, has_ended: false })
    }

    /// The process.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits for its end. `None`: it took too long, and is ended.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let status = self.ends_within(limit)?;
        if status.is_none() {
            self.end()?;
        }
        Ok(status)
    }

    fn ends_within(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.has_ended = true;
                return Ok(Some(status));
            }
            if begun.elapsed() > limit {
                return Ok(None);
            }
            thread::sleep(LOOK);
        }
    }

    /// Kills it with its children.
    ///
    /// # Errors
    /// It does not even end then: it hangs in a system call.
    pub fn end(&mut self) -> Result<()> {
        if self.has_ended {
            return Ok(());
        }
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        match self.ends_within(LONGEST_DEATH)? {
            Some(status) => {
                debug_assert!(status.code().is_some() || status.signal().is_some());
                Ok(())
            }
            None => bail!("a program hangs in the kernel, and cannot be killed"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
