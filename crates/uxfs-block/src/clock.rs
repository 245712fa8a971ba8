//! Time, which tests and simulations replace.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::{Duration, Instant},
};

/// A clock that can be waited on.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Time since the clock began.
    fn now(&self) -> Duration;

    /// Returns when it is `time` or later.
    fn wait_until(&self, time: Duration);
}

/// The system's monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    begin: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { begin: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    fn wait_until(&self, time: Duration) {
        if let Some(rest) = time.checked_sub(self.now()) {
            std::thread::sleep(rest);
        }
    }
}

/// A clock that moves only when someone waits on it.
#[derive(Debug, Default)]
pub struct VirtualClock {
    nanoseconds: AtomicU64,
}

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(SeqCst))
    }

    fn wait_until(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_max(nanoseconds, SeqCst);
    }
}
