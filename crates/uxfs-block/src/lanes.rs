//! Values of which each thread has one for itself, as far as there are enough.
//!
//! What every operation of every thread writes would travel from processor to processor if there were one of it. A thread
//! finds its own without a search, and who wants the whole goes through all.

use std::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread::available_parallelism,
};

use crate::own_line::OwnLine;

/// So few cost nothing, and threads in turn rarely meet.
const FEWEST: usize = 8;
/// Going through more than this costs more than threads that meet.
const MOST: usize = 64;

/// One value for each of as many threads as may run at once; further threads share.
#[derive(Debug)]
pub struct Lanes<T> {
    lanes: Box<[OwnLine<T>]>,
}

/// A number that threads get in the order in which they first ask.
#[inline]
pub(crate) fn turn_of_this_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static TURN: Cell<Option<usize>> = const { Cell::new(None) });
    TURN.with(|turn| {
        turn.get().unwrap_or_else(|| {
            let next = THREADS.fetch_add(1, Relaxed);
            turn.set(Some(next));
            next
        })
    })
}

impl<T: Default> Default for Lanes<T> {
    fn default() -> Self {
        let threads = 2 * available_parallelism().map_or(1, usize::from);
        let count = threads.next_power_of_two().clamp(FEWEST, MOST);
        Self { lanes: (0..count).map(|_| OwnLine::default()).collect() }
    }
}

impl<T> Lanes<T> {
    /// That of the thread that asks.
    #[inline]
    pub fn mine(&self) -> &T {
        // Their number is a power of two.
        &self.lanes[turn_of_this_thread() & (self.lanes.len() - 1)]
    }

    /// All of them, always in the same order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.lanes.iter().map(|lane| &lane.0)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicU64, thread};

    use super::*;

    #[test]
    fn what_threads_add_to_their_own_is_found_by_who_goes_through_all() {
        let lanes = Lanes::<AtomicU64>::default();
        thread::scope(|scope| {
            for _ in 0..3 * MOST {
                scope.spawn(|| {
                    let own = std::ptr::from_ref(lanes.mine());
                    lanes.mine().fetch_add(1, Relaxed);
                    assert_eq!(own, std::ptr::from_ref(lanes.mine()), "a thread stays in its lane");
                });
            }
        });
        assert_eq!(lanes.iter().map(|lane| lane.load(Relaxed)).sum::<u64>(), 3 * MOST as u64);
        assert!(lanes.iter().len().is_power_of_two());
        assert!(lanes.iter().all(|lane| lane.load(Relaxed) > 0), "threads in turn take all lanes");
    }
}
