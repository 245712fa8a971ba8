//! The commit lock of the checkpoint that is being filled, and how much of the log is reserved for it.
//!
//! Every transaction takes the commit lock, and reserves its worst case of log space; at its end it gives the rest back. One
//! commit lock and one counter would travel between the processors each time. So each shard of threads has a commit lock, all
//! of which a checkpoint switch holds exclusively, and a [`CachedReservation`]: log space that transactions have given back and
//! that stays reserved for the next one, which then touches nothing shared.
//!
//! Invariants:
//! 1. **Reserved.** The shared counter is the sum of the committed bytes, the reservations of transactions under way, and all cached
//!    reservations. It is never less than the size of the checkpoint.
//! 2. **Cached reservations starve no transaction.** Before failing, a reservation reclaims all cached ones.
//! 3. **Cached reservations are small.** Each is at most an eighth of what may be reserved; in a log that is too small for that
//!    there are none. They do not count towards a checkpoint being due.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use uxfs_block::{
    lock_order::{HeldLock, LockKey, Ordered},
    own_line::OwnLine,
    thread_shards::{CachedReservation, ThreadShards, take_all},
};

/// A cached reservation is at most this part of the limit: what the largest usual operations reserve in a log of usual size.
const CACHED_RESERVATIONS_IN_LIMIT: u64 = 8;

#[derive(Debug, Default)]
pub(super) struct Reservations {
    shards: ThreadShards<Shard>,
    /// The log space that may be reserved.
    limit_bytes: AtomicU64,
    reserved_bytes: OwnLine<AtomicU64>,
}

/// The fields that transactions of a few threads write at their beginning and their end.
#[derive(Debug, Default)]
struct Shard {
    commit_lock: RwLock<()>,
    /// Reserved, and not in use by a transaction.
    cached_bytes: CachedReservation,
    /// Bytes committed to the checkpoint that is being filled.
    logged_bytes: AtomicU64,
    /// Transactions that committed, since the beginning.
    transactions: AtomicU64,
}

/// The commit lock, held shared: no checkpoint switch happens before it is dropped.
#[derive(Debug)]
pub(super) struct CommitGuard<'c> {
    reservations: &'c Reservations,
    shard: &'c Shard,
    _commit_lock: Ordered<RwLockReadGuard<'c, ()>>,
}

/// All commit locks are held exclusively: no transaction is under way.
pub(super) struct Closed<'c> {
    _commit_locks: Vec<RwLockWriteGuard<'c, ()>>,
    _held: HeldLock,
}

/// The reservation that a shard keeps after a transaction that reserved so much: enough for the next like it, with a quarter
/// to spare. None where that is too large a part of the limit.
#[inline]
fn max_cached_bytes(reservation_bytes: u64, limit_bytes: u64) -> u64 {
    let enough = reservation_bytes + reservation_bytes / 4;
    if enough > limit_bytes / CACHED_RESERVATIONS_IN_LIMIT { 0 } else { enough }
}

impl Reservations {
    /// Takes the commit lock, shared. A thread never takes it twice: a checkpoint switch may be waiting between the two.
    #[inline]
    pub fn enter(&self) -> CommitGuard<'_> {
        let shard = self.shards.mine();
        let commit_lock = Ordered::wait(LockKey::CommitLock, || shard.commit_lock.read());
        CommitGuard { reservations: self, shard, _commit_lock: commit_lock }
    }

    /// Waits until all have left, and keeps others out.
    pub fn close(&self) -> Closed<'_> {
        let held = LockKey::AllCommitLocks.wait();
        Closed {
            _commit_locks: self.shards.iter().map(|shard| shard.commit_lock.write()).collect(),
            _held: held,
        }
    }

    /// Says how much may be reserved.
    pub fn set_limit_bytes(&self, bytes: u64) {
        self.limit_bytes.store(bytes, Release);
    }

    /// The log space that may be reserved.
    #[inline]
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Acquire)
    }

    /// Whether the checkpoint that is being filled may take half of that, less the cached reservations.
    #[inline]
    pub fn is_half_reserved(&self) -> bool {
        let (reserved_bytes, half_bytes) = (self.reserved_bytes.load(Relaxed), self.limit_bytes() / 2);
        reserved_bytes > half_bytes && reserved_bytes.saturating_sub(self.cached_bytes()) > half_bytes
    }

    fn cached_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.cached_bytes.amount()).sum()
    }

    /// Bytes committed to the checkpoint that is being filled.
    pub fn logged_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.logged_bytes.load(Relaxed)).sum()
    }

    /// Transactions that committed, since the beginning.
    pub fn transactions(&self) -> u64 {
        self.shards.iter().map(|shard| shard.transactions.load(Relaxed)).sum()
    }

    /// A transaction ends that had reserved `reserved_bytes` and took `used_bytes`.
    #[inline]
    pub fn settle(&self, reserved_bytes: u64, used_bytes: u64, has_logged: bool) {
        let shard = self.shards.mine();
        if has_logged {
            shard.logged_bytes.fetch_add(used_bytes, Relaxed);
            shard.transactions.fetch_add(1, Relaxed);
        }
        let Some(unused) = reserved_bytes.checked_sub(used_bytes) else {
            self.reserved_bytes.fetch_add(used_bytes - reserved_bytes, AcqRel);
            return;
        };
        let most = max_cached_bytes(reserved_bytes, self.limit_bytes());
        let too_much = shard.cached_bytes.add_up_to(most, unused);
        if too_much > 0 {
            self.reserved_bytes.fetch_sub(too_much, AcqRel);
        }
    }

    /// Takes all cached reservations back. Gives whether there were any.
    #[cold]
    fn reclaim_cached(&self) -> bool {
        let cached_bytes = take_all(self.shards.iter().map(|shard| &shard.cached_bytes));
        self.reserved_bytes.fetch_sub(cached_bytes, AcqRel);
        cached_bytes > 0
    }

    /// The log space that the closed checkpoint has reserved; the next begins with none.
    pub fn take_all(&self, _closed: &Closed<'_>) -> u64 {
        self.reclaim_cached();
        self.shards.iter().for_each(|shard| shard.logged_bytes.store(0, Relaxed));
        self.reserved_bytes.swap(0, AcqRel)
    }
}

impl CommitGuard<'_> {
    /// Reserves `bytes` where all reservations leave `left_bytes` of what may be reserved then. Gives whether that is so.
    #[inline]
    pub fn reserve(&self, bytes: u64, left_bytes: u64) -> bool {
        let most_bytes = self.reservations.limit_bytes().saturating_sub(left_bytes);
        if self.shard.cached_bytes.take(bytes) {
            if self.reservations.reserved_bytes.load(Relaxed) <= most_bytes {
                return true;
            }
            self.reservations.reserved_bytes.fetch_sub(bytes, AcqRel);
        }
        self.reserve_shared(bytes, most_bytes)
            || (self.reservations.reclaim_cached() && self.reserve_shared(bytes, most_bytes))
    }

    /// Reservations `bytes`, whether there is room or not.
    pub fn reserve_unconditionally(&self, bytes: u64) {
        self.reservations.reserved_bytes.fetch_add(bytes, AcqRel);
    }

    /// Reservations something for the next transactions as well, where there is room for it.
    #[cold]
    fn reserve_shared(&self, bytes: u64, most_bytes: u64) -> bool {
        let reserved_bytes = &self.reservations.reserved_bytes;
        let with_cached = bytes.max(max_cached_bytes(bytes, most_bytes));
        let has_room = reserved_bytes.load(Relaxed) + with_cached <= most_bytes;
        let wanted = if has_room { with_cached } else { bytes };
        if reserved_bytes.fetch_add(wanted, AcqRel) + wanted > most_bytes {
            reserved_bytes.fetch_sub(wanted, AcqRel);
            return false;
        }
        self.shard.cached_bytes.add(wanted - bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    const LIMIT_BYTES: u64 = 1 << 20;

    fn reservations() -> Reservations {
        let reservations = Reservations::default();
        reservations.set_limit_bytes(LIMIT_BYTES);
        reservations
    }

    /// Invariant 2.
    #[test]
    fn who_finds_no_room_takes_the_credits_of_others() {
        let reservations = reservations();
        thread::scope(|scope| {
            scope.spawn(|| {
                let place = reservations.enter();
                assert!(place.reserve(LIMIT_BYTES / 16, 0));
                drop(place);
                reservations.settle(LIMIT_BYTES / 16, 100, true);
            });
        });
        assert!(reservations.reserved_bytes.load(Relaxed) > 100, "there is a cached reservation");
        reservations.set_limit_bytes(200);
        assert!(!reservations.is_half_reserved(), "no ticket needs it");
        reservations.set_limit_bytes(198);
        assert!(reservations.is_half_reserved(), "that is without it");
        reservations.set_limit_bytes(LIMIT_BYTES);
        let place = reservations.enter();
        assert!(!place.reserve(LIMIT_BYTES - 99, 0));
        assert!(place.reserve(LIMIT_BYTES - 100, 0));
        assert_eq!(reservations.reserved_bytes.load(Relaxed), LIMIT_BYTES);
    }

    /// Invariant 3.
    #[test]
    fn where_the_log_is_small_all_is_given_back() {
        let reservations = reservations();
        assert!(reservations.enter().reserve(LIMIT_BYTES / 4, 0));
        reservations.settle(LIMIT_BYTES / 4, 100, true);
        assert_eq!(reservations.reserved_bytes.load(Relaxed), 100);
    }

    proptest! {
        /// Invariant 1: for reservations, and what is taken of them, per thousand.
        #[test]
        fn claimed_is_what_was_taken_and_the_credits(
            claimed in prop::collection::vec((1..LIMIT_BYTES / 3, 0..1100_u64, any::<bool>()), 1..60),
        ) {
            let reservations = reservations();
            let (mut taken, mut transactions) = (0, 0);
            for (bytes, used, is_cut) in claimed {
                let used_bytes = bytes * used / 1000;
                if reservations.enter().reserve(bytes, 0) {
                    prop_assert!(reservations.reserved_bytes.load(Relaxed) <= LIMIT_BYTES);
                    reservations.settle(bytes, used_bytes, used_bytes > 0);
                    taken += used_bytes;
                    transactions += u64::from(used_bytes > 0);
                } else {
                    prop_assert!(taken + bytes > LIMIT_BYTES, "there was room");
                }
                prop_assert_eq!(reservations.reserved_bytes.load(Relaxed), taken + reservations.cached_bytes());
                prop_assert_eq!(reservations.logged_bytes(), taken);
                prop_assert!(reservations.cached_bytes() <= LIMIT_BYTES / CACHED_RESERVATIONS_IN_LIMIT);
                if is_cut {
                    prop_assert_eq!(reservations.take_all(&reservations.close()), taken);
                    prop_assert_eq!(reservations.reserved_bytes.load(Relaxed), 0);
                    taken = 0;
                }
            }
            prop_assert_eq!(reservations.transactions(), transactions);
        }
    }
}
