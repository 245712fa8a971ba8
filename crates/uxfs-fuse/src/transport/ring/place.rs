//! Where a thread of a queue runs.
//!
//! The kernel puts a request into the queue of the processor on which its caller runs. To wake a thread there is a switch, to wake one on
//! another processor an interrupt, which is dear in a virtual machine. But much data that is copied there keeps the caller waiting: while it
//! reads the data that have come, other threads bring the next.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::transport::turns::Effort;

/// After so many short requests in a row a thread goes back.
const SHORT_BEFORE_RETURN: u32 = 64;

/// The place of one thread.
#[derive(Debug)]
pub struct Place {
    queue: u16,
    /// The processors that the thread may use. Unknown: it runs anywhere, for good.
    all: Option<CpuSet>,
    is_away: bool,
    short: u32,
}

impl Place {
    /// Of a thread that has not begun.
    #[must_use]
    pub fn new(queue: u16) -> Self {
        Self { queue, all: None, is_away: false, short: 0 }
    }

    /// The calling thread is the one.
    pub fn begin(&mut self) {
        self.all = sched_getaffinity(None).ok();
        self.stay();
    }

    /// Whether it may be away from its callers.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.is_away
    }

    /// A request of this effort is about to be answered.
    pub fn note(&mut self, effort: Effort) {
        if effort == Effort::Long {
            self.short = 0;
            if !self.is_away
                && let Some(all) = &self.all
            {
                self.is_away = sched_setaffinity(None, all).is_ok();
            }
        } else if self.is_away {
            self.short += 1;
            if self.short == SHORT_BEFORE_RETURN {
                self.is_away = false;
                self.stay();
            }
        }
    }

    fn stay(&self) {
        let mut processors = CpuSet::new();
        let processor = usize::from(self.queue);
        if self.all.is_some() && processor < CpuSet::MAX_CPU {
            processors.set(processor);
            // A processor may be missing or forbidden: then the thread runs anywhere.
            let _ = sched_setaffinity(None, &processors);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rustix::thread::sched_getaffinity;

    use super::{Effort, Place, SHORT_BEFORE_RETURN};

    #[test]
    fn a_thread_leaves_for_long_requests_and_comes_back() {
        let count = || sched_getaffinity(None).unwrap().count();
        let all = count();
        let mut place = Place::new(0);
        place.begin();
        assert_eq!(count(), 1);
        place.note(Effort::Short);
        assert!(!place.is_away());
        place.note(Effort::Long);
        assert_eq!((place.is_away(), count()), (true, all));
        for _ in 1..SHORT_BEFORE_RETURN {
            place.note(Effort::Short);
            assert!(place.is_away());
        }
        place.note(Effort::Waits);
        assert_eq!((place.is_away(), count()), (false, 1));
    }
}
