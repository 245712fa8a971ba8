//! Values of which each thread has one of its own, as far as there are enough.
//!
//! A value that every operation writes would move from processor to processor if it existed once. A thread finds its own shard
//! without a search; a sum visits all shards.
//!
//! One counter tracks each limited resource (log space, free blocks). Operations reserve their worst case and mostly need
//! little: the rest stays reserved, as the [`CachedReservation`] of their shard, for the next operations.

use std::{
    cell::Cell,
    sync::atomic::{
        AtomicU64, AtomicUsize,
        Ordering::{AcqRel, Acquire, Relaxed},
    },
    thread::available_parallelism,
};

use crate::own_line::OwnLine;

/// So few cost nothing, and threads in turn rarely meet.
const FEWEST: usize = 8;
/// Going through more than this costs more than threads that meet.
const MOST: usize = 64;

/// One value for each of as many threads as may run at once; further threads share.
#[derive(Debug)]
pub struct ThreadShards<T> {
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

impl<T: Default> Default for ThreadShards<T> {
    fn default() -> Self {
        let threads = 2 * available_parallelism().map_or(1, usize::from);
        let count = threads.next_power_of_two().clamp(FEWEST, MOST);
        Self { lanes: (0..count).map(|_| OwnLine::default()).collect() }
    }
}

impl<T> ThreadShards<T> {
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

/// The part of reservations that operations did not need, kept for the next operations of the same shard.
#[derive(Debug, Default)]
pub struct CachedReservation(AtomicU64);

impl CachedReservation {
    /// How much there is.
    #[inline]
    pub fn amount(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Takes `amount`, if there is so much.
    #[inline]
    pub fn take(&self, amount: u64) -> bool {
        self.0.fetch_update(AcqRel, Acquire, |credit| credit.checked_sub(amount)).is_ok()
    }

    /// Adds `amount`. Gives how much there is now.
    #[inline]
    pub fn add(&self, amount: u64) -> u64 {
        self.0.fetch_add(amount, AcqRel) + amount
    }

    /// Adds `amount`, and takes back what is more than `most` then: the caller no longer counts that as taken.
    #[inline]
    #[must_use]
    pub fn add_up_to(&self, most: u64, amount: u64) -> u64 {
        if self.add(amount) <= most {
            return 0;
        }
        let cut = self.0.fetch_update(AcqRel, Acquire, |credit| (credit > most).then_some(most));
        cut.map_or(0, |credit| credit - most)
    }
}

/// Takes all credits back; the caller no longer counts them as taken.
#[must_use]
pub fn take_all<'c>(credits: impl Iterator<Item = &'c CachedReservation>) -> u64 {
    credits.map(|credit| credit.0.swap(0, AcqRel)).sum()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_credit_is_what_was_left() {
        let credit = CachedReservation::default();
        assert!(!credit.take(1), "nothing is left over yet");
        assert_eq!(credit.add_up_to(60, 50), 0);
        assert!(!credit.take(51));
        assert!(credit.take(30));
        assert_eq!(credit.add_up_to(60, 50), 10, "much is not kept");
        assert_eq!(credit.add_up_to(0, 5), 65);
        assert_eq!(credit.add(7), 7);
        assert_eq!((take_all([&credit, &CachedReservation::default()].into_iter()), credit.amount()), (7, 0));
    }

    #[test]
    fn what_threads_add_to_their_own_is_found_by_who_goes_through_all() {
        let lanes = ThreadShards::<AtomicU64>::default();
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
