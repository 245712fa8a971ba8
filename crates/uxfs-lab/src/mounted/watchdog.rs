//! A hang becomes a failure: after a while the connection of the mount is aborted, so that all calls return.
//!
//! A process that waits for a page to be written back cannot be killed; only the end of the connection wakes it.

use std::{
    fs,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Result, ensure};
use rustix::{
    mount::{MountFlags, UnmountFlags, mount, unmount},
    process::{Signal, pidfd_send_signal},
};

use super::mount::Mounted;

/// Nothing takes longer.
const LONGEST: Duration = Duration::from_secs(120);
/// All calls return within this time after the end of the connection.
const AFTERWARDS: Duration = Duration::from_secs(60);

/// Looks on until [`end`](Self::end).
#[derive(Debug)]
pub struct Watchdog {
    over: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    has_barked: Arc<AtomicBool>,
    what: String,
}

impl Watchdog {
    /// Begins to look on.
    ///
    /// # Errors
    /// No further descriptor.
    pub fn new(mounted: &Mounted, what: String) -> Result<Self> {
        let (over, waits) = mpsc::channel::<()>();
        let (connection, server) = mounted.lifeline()?;
        let has_barked = Arc::new(AtomicBool::new(false));
        let (told, words) = (Arc::clone(&has_barked), what.clone());
        let thread = thread::spawn(move || {
            if waits.recv_timeout(LONGEST) != Err(mpsc::RecvTimeoutError::Timeout) {
                return;
            }
            told.store(true, Ordering::SeqCst);
            eprintln!("{words}: hangs after {LONGEST:?}; the connection is aborted");
            abort(connection, &server);
            if waits.recv_timeout(AFTERWARDS) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("{words}: calls do not return from an aborted connection");
                std::process::abort();
            }
        });
        Ok(Self { over: Some(over), thread: Some(thread), has_barked, what })
    }

    /// All went on.
    ///
    /// # Errors
    /// It did not.
    pub fn end(mut self) -> Result<()> {
        self.stop();
        ensure!(!self.has_barked.load(Ordering::SeqCst), "{}: hung for {LONGEST:?}", self.what);
        Ok(())
    }

    fn stop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Ends a connection, by the kernel's directory of connections, and the process that serves it.
fn abort(connection: u32, server: &OwnedFd) {
    let aborted = tempfile::tempdir().map(|folder| {
        let place = folder.path();
        mount("fusectl", place, "fusectl", MountFlags::empty(), None)?;
        let written = fs::write(place.join(connection.to_string()).join("abort"), "1");
        unmount(place, UnmountFlags::DETACH)?;
        written
    });
    if !matches!(aborted, Ok(Ok(()))) {
        eprintln!("the connection {connection} cannot be aborted: {aborted:?}");
    }
    let _ = pidfd_send_signal(server, Signal::KILL);
}
