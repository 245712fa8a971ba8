//! A child that goes on in the same program, without executing it again: a mount is there sooner.
//!
//! A process forks only while it has one thread. So no lock is held by a thread that the child lacks, and the child may do all that its
//! parent may.
#![allow(unsafe_code)]

use std::{
    ffi::CStr,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    process, thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};
use thiserror::Error;

/// The exit code of a child that panicked: that of Rust programs.
const PANICKED: i32 = 101;
/// That of the signal that ends every process, in a set of signals.
const KILL_BIT: u64 = 1 << 8;
/// How often the end of a child is looked for, where there is a limit.
const LOOK: Duration = Duration::from_millis(5);

/// Why there is no child.
#[derive(Debug, Error)]
pub enum ForkError {
    /// Other threads may hold locks that the child would wait for.
    #[error("the process has {0} threads; it must have one when it forks")]
    Threads(usize),
    /// The system.
    #[error("{}", uxfs_block::words::in_words(.0))]
    System(io::Error),
}

/// A child. Dropping this leaves it alone.
#[derive(Debug)]
pub struct Child {
    id: Pid,
    ended: Option<WaitStatus>,
}

/// Starts a child that does `work` and ends with the exit code that this gives. `name`: what `ps` shows of it, up to 15 bytes. `of_parent`
/// comes back here, and is dropped there.
///
/// The child never comes back from this function: what else its parent holds is open there too, and is closed by its end alone.
///
/// # Errors
/// The process has more than one thread; the system.
pub fn fork<P>(name: &CStr, of_parent: P, work: impl FnOnce() -> i32) -> Result<(Child, P), ForkError> {
    let threads = thread_count();
    if threads != 1 {
        return Err(ForkError::Threads(threads));
    }
    // SAFETY: there is one thread, so the child finds everything in memory as its parent left it.
    match unsafe { libc::fork() } {
        0 => {
            drop(of_parent);
            let _ = rustix::thread::set_name(name);
            // The frames of the parent must not be left by a panic.
            process::exit(catch_unwind(AssertUnwindSafe(work)).unwrap_or(PANICKED))
        }
        id => match Pid::from_raw(id) {
            Some(id) if id.as_raw_nonzero().get() > 0 => Ok((Child { id, ended: None }, of_parent)),
            _ => Err(ForkError::System(io::Error::last_os_error())),
        },
    }
}

/// How many threads this process has.
pub(crate) fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, |tasks| tasks.count().max(1))
}

impl Child {
    /// Its number.
    #[must_use]
    pub fn id(&self) -> Pid {
        self.id
    }

    /// Sends it a signal. One that has ended gets none.
    ///
    /// # Errors
    /// The system.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        match self.ended {
            Some(_) => Ok(()),
            None => Ok(kill_process(self.id, signal)?),
        }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It is waited for elsewhere.
    pub fn wait(&mut self) -> io::Result<WaitStatus> {
        self.look(WaitOptions::empty())?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Waits for its end, at most so long.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_at_most(&mut self, limit: Duration) -> io::Result<Option<WaitStatus>> {
        let begun = Instant::now();
        loop {
            match self.look(WaitOptions::NOHANG)? {
                None if begun.elapsed() < limit => thread::sleep(LOOK),
                ended => return Ok(ended),
            }
        }
    }

    /// Whether a signal ends it, or has ended its first thread, and it is still there: a thread does not leave the kernel.
    pub fn is_leaving(&mut self) -> bool {
        if !matches!(self.look(WaitOptions::NOHANG), Ok(None)) {
            return false;
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id.as_raw_nonzero()));
        let fields = status.iter().flat_map(|text| text.lines()).filter_map(|line| line.split_once(":\t"));
        fields.into_iter().any(|(name, value)| match name {
            "State" => value.starts_with(['Z', 'X']),
            "SigPnd" | "ShdPnd" => {
                u64::from_str_radix(value, 16).is_ok_and(|pending| pending & KILL_BIT != 0)
            }
            _ => false,
        })
    }

    fn look(&mut self, options: WaitOptions) -> io::Result<Option<WaitStatus>> {
        if self.ended.is_none() {
            let waited = rustix::io::retry_on_intr(|| waitpid(Some(self.id), options))?;
            self.ended = waited.map(|(_, status)| status);
        }
        Ok(self.ended)
    }
}
