//! A bound for tests that mount through FUSE: a server that does not answer makes all that touch its mount wait for ever, in calls that no
//! signal ends.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process,
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread,
    time::Duration,
};

use rustix::mount::{UnmountFlags, unmount};

/// What one test may take.
const LIMIT: Duration = Duration::from_secs(120);
/// Time for a test to fail by itself after its mounts are gone: its calls fail then.
const GRACE: Duration = Duration::from_secs(30);

/// As long as this lives, the test is watched. When its time is over, its mounts are taken away, so that all that waits for them fails; if
/// the test goes on nevertheless, the test program is ended.
#[derive(Debug)]
pub struct Watchdog(Option<Sender<()>>);

impl Watchdog {
    /// Watches over a test that mounts on these directories.
    pub fn new(mount_points: &[&Path]) -> Self {
        Self::with_limit(mount_points, LIMIT)
    }

    fn with_limit(mount_points: &[&Path], limit: Duration) -> Self {
        let (sender, receiver) = channel();
        let mount_points: Vec<PathBuf> = mount_points.iter().map(|path| path.to_path_buf()).collect();
        let test = thread::current().name().unwrap_or("a test").to_owned();
        thread::spawn(move || {
            if receiver.recv_timeout(limit) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            say(&format!("{test} has taken {} seconds: its mounts are taken away", limit.as_secs()));
            mount_points.iter().for_each(|mount_point| abort(mount_point));
            if receiver.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
                say(&format!("{test} waits for something that does not come: the test program is ended"));
                process::abort();
            }
        });
        Self(Some(sender))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

/// Ends the connection to the server of a FUSE mount and takes the mount away: all that wait for it get an error.
pub fn abort(mount_point: &Path) {
    // There may be none.
    let _ = unmount(mount_point, UnmountFlags::FORCE | UnmountFlags::DETACH);
}

fn say(line: &str) {
    // The test's own output is kept until it ends.
    let _ = writeln!(std::io::stderr(), "watchdog: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_ends_in_time_is_left_alone() {
        let watchdog = Watchdog::with_limit(&[Path::new("/nowhere")], Duration::from_secs(20));
        drop(watchdog);
        // One that is late, and ends once its mounts are gone.
        let watchdog = Watchdog::with_limit(&[Path::new("/nowhere")], Duration::from_millis(1));
        thread::sleep(Duration::from_millis(50));
        drop(watchdog);
    }
}
