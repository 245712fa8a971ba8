//! The background thread works in short bursts.
//!
//! Where there are as many busy threads as processors, the background thread takes a processor from a thread that changes
//! the file system. The scheduler would let it work for several milliseconds, and an operation would take as long. So the
//! background thread rests after a fraction of a millisecond, as long as nobody waits for it and the checkpoint that is being
//! filled has room.

use std::{
    cell::Cell,
    sync::atomic::Ordering::Acquire,
    thread,
    time::{Duration, Instant},
};

use super::Journal;

/// The longest that it works without a rest. A write to the device that takes longer is not interrupted.
const BURST: Duration = Duration::from_micros(400);
/// The shortest rest: the system's timers add some tens of microseconds.
const REST: Duration = Duration::from_micros(20);

thread_local!(static BURST_BEGAN: Cell<Option<Instant>> = const { Cell::new(None) });

/// From now on the calling thread rests between bursts of work.
pub fn work_in_bursts() {
    BURST_BEGAN.set(Some(Instant::now()));
}

impl Journal {
    /// Rests if the calling thread works in bursts and has worked for long enough.
    #[inline]
    pub(super) fn rest_if_due(&self) {
        let Some(began) = BURST_BEGAN.get() else { return };
        if began.elapsed() < BURST {
            return;
        }
        if !self.is_waited_for() {
            thread::sleep(REST);
        }
        BURST_BEGAN.set(Some(Instant::now()));
    }

    /// Whether somebody waits for a checkpoint, or soon will.
    fn is_waited_for(&self) -> bool {
        self.writer_waiters.load(Acquire) > 0 || self.reservations.is_mostly_reserved()
    }
}
