//! Which thread of `/dev/fuse` looks for the next request.
//!
//! To wake a sleeping thread takes longer than to answer most requests, in a virtual machine much longer. So one thread looks without
//! sleeping for a while after each request, and answers short requests itself; the others sleep until they are needed:
//!
//! ```text
//! looks ─▶ short request: answers, looks again
//!       ─▶ request that may wait, or long data while a further request is pending: passes the turn, answers, waits for a turn
//! guard: a sleeping thread that looks each millisecond while requests come, and takes the turn of one that answers for longer than that
//! ```
//!
//! Invariants:
//! 1. At any time one thread has the turn, or is about to take it: a request that the kernel has queued is read.
//! 2. A thread whose turn was taken reads nothing before it has a turn again.
//! 3. While no request comes, all threads sleep without a limit of time.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

/// How often the guard looks, and how long a request may take before another thread takes the turn.
const GUARD: Duration = Duration::from_millis(1);

/// How long answering a request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Some microseconds.
    Short,
    /// Much data is copied.
    Long,
    /// It waits for the device, for other requests or for a caller.
    Waits,
}

/// The turn that the threads of one mount share.
#[derive(Debug, Default)]
pub struct Turns {
    shared: Mutex<Shared>,
    waiting: Condvar,
    guarding: Condvar,
    /// The turn that is given: a thread that holds another number has lost it.
    turn: AtomicU64,
    /// Counts requests that begin, while one is answered under the turn; else 0.
    answering: AtomicU64,
    is_guarded: AtomicBool,
}

#[derive(Debug, Default)]
struct Shared {
    is_taken: bool,
    has_guard: bool,
    has_ended: bool,
    waiting: usize,
}

/// A thread's right to look for requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn(u64);

impl Turns {
    /// Waits until no other thread has the turn, and takes it. `None` where the mount has ended.
    pub fn take(&self) -> Option<Turn> {
        let mut shared = self.shared.lock();
        loop {
            if shared.has_ended {
                return None;
            }
            if !shared.is_taken {
                shared.is_taken = true;
                return Some(self.next_turn());
            }
            if shared.has_guard {
                shared.waiting += 1;
                self.waiting.wait(&mut shared);
                shared.waiting -= 1;
            } else {
                shared.has_guard = true;
                let taken = self.guard(&mut shared);
                shared.has_guard = false;
                // Another thread becomes the guard.
                self.waiting.notify_one();
                if taken.is_some() {
                    return taken;
                }
            }
        }
    }

    /// Waits as the guard until the turn is free or its holder answers for too long. `None`: look again.
    fn guard(&self, shared: &mut parking_lot::MutexGuard<'_, Shared>) -> Option<Turn> {
        let mut seen = 0;
        loop {
            if shared.has_ended || !shared.is_taken {
                return None;
            }
            let answering = self.answering.load(Ordering::Acquire);
            if answering != 0 && answering == seen {
                return Some(self.next_turn());
            }
            seen = answering;
            if self.is_guarded.load(Ordering::Acquire) {
                self.guarding.wait_for(shared, GUARD);
            } else {
                self.guarding.wait(shared);
            }
        }
    }

    fn next_turn(&self) -> Turn {
        Turn(self.turn.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Gives the turn back, so that another thread looks meanwhile.
    pub fn pass(&self, turn: Turn) {
        let mut shared = self.shared.lock();
        if self.is_held(turn) && shared.is_taken {
            shared.is_taken = false;
            // The number is spent: the thread has nothing to pass any more.
            self.turn.fetch_add(1, Ordering::AcqRel);
            if shared.waiting > 0 {
                self.waiting.notify_one();
            } else {
                self.guarding.notify_one();
            }
        }
    }

    /// Whether this turn has not been taken away.
    #[must_use]
    pub fn is_held(&self, turn: Turn) -> bool {
        self.turn.load(Ordering::Acquire) == turn.0
    }

    /// A request is answered under a turn from now on. `number` is another one for each request, and not 0.
    pub fn begin(&self, number: u64) {
        self.answering.store(number, Ordering::Release);
    }

    /// It has been answered.
    pub fn end(&self) {
        self.answering.store(0, Ordering::Release);
    }

    /// Requests come: the guard looks at intervals.
    pub fn wake_guard(&self) {
        if !self.is_guarded.swap(true, Ordering::AcqRel) {
            let _shared = self.shared.lock();
            self.guarding.notify_one();
        }
    }

    /// No request comes: the guard sleeps.
    pub fn rest(&self) {
        self.is_guarded.store(false, Ordering::Release);
    }

    /// The mount has ended: all threads stop.
    pub fn finish(&self) {
        self.shared.lock().has_ended = true;
        self.waiting.notify_all();
        self.guarding.notify_all();
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
