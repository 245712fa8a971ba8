//! The gate of the checkpoint that is being filled, and how much of the log is claimed for it.
//!
//! Every transaction goes through the gate, and claims the most that it may take; at its end it gives back what it has
//! not taken. One gate and one count would travel between the processors with each of that. So each lane of threads has a
//! gate, which a cut closes with all others, and a *credit*: what transactions have given back, still claimed, from which the
//! next takes without touching anything that is shared.
//!
//! Invariants:
//! 1. **Claimed.** The shared count is what has committed, what transactions under way have claimed, and all credits. It
//!    is never less than what the checkpoint may take.
//! 2. **Nobody starves for a credit.** Who finds no room takes all credits back before saying so.
//! 3. **Credits are small.** Each is at most an eighth of what may be claimed; in a log that is too small for that there are
//!    none. They count for nothing where it is asked whether a checkpoint is due.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use uxfs_block::{lanes::Lanes, own_line::OwnLine};

/// A credit is at most this part of what may be claimed: what the largest of usual operations claim, in a log of usual size.
const CREDITS_IN_LIMIT: u64 = 8;

#[derive(Debug, Default)]
pub(super) struct Claims {
    lanes: Lanes<Lane>,
    claimed_bytes: OwnLine<AtomicU64>,
}

/// What the transactions of a few threads write at their beginning and their end.
#[derive(Debug, Default)]
struct Lane {
    gate: RwLock<()>,
    /// Claimed, and not needed by anybody now.
    credit_bytes: AtomicU64,
    /// What has committed to the checkpoint that is being filled.
    logged_bytes: AtomicU64,
    /// Transactions that committed, since the beginning.
    transactions: AtomicU64,
}

/// A place behind the gate: there is no cut before it is dropped.
#[derive(Debug)]
pub(super) struct Place<'c> {
    claims: &'c Claims,
    lane: &'c Lane,
    _gate: RwLockReadGuard<'c, ()>,
}

/// All gates closed: nobody has a place.
pub(super) struct Closed<'c> {
    _gates: Vec<RwLockWriteGuard<'c, ()>>,
}

/// What a lane keeps after a transaction that claimed so much: enough for the next like it, and for what a hundred of them
/// take. Nothing where that were too large a part of what may be claimed.
#[inline]
fn most_credit_bytes(claim_bytes: u64, limit_bytes: u64) -> u64 {
    let enough = claim_bytes + claim_bytes / 4;
    if enough > limit_bytes / CREDITS_IN_LIMIT { 0 } else { enough }
}

impl Lane {
    /// Takes from the credit, if it is so much.
    #[inline]
    fn take(&self, bytes: u64) -> bool {
        self.credit_bytes.fetch_update(AcqRel, Acquire, |credit| credit.checked_sub(bytes)).is_ok()
    }
}

impl Claims {
    /// Goes through the gate. Whoever has a place asks for no other: a cut may be waiting between the two.
    #[inline]
    pub fn enter(&self) -> Place<'_> {
        let lane = self.lanes.mine();
        Place { claims: self, lane, _gate: lane.gate.read() }
    }

    /// Waits until all have left, and keeps others out.
    pub fn close(&self) -> Closed<'_> {
        Closed { _gates: self.lanes.iter().map(|lane| lane.gate.write()).collect() }
    }

    /// The most that the checkpoint that is being filled may take.
    #[inline]
    pub fn claimed_bytes(&self) -> u64 {
        self.claimed_bytes.load(Relaxed)
    }

    /// Whether that is more than `bytes` without what nobody needs now.
    #[inline]
    pub fn is_more_than(&self, bytes: u64) -> bool {
        let claimed_bytes = self.claimed_bytes();
        claimed_bytes > bytes && claimed_bytes.saturating_sub(self.credits_bytes()) > bytes
    }

    fn credits_bytes(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.credit_bytes.load(Relaxed)).sum()
    }

    /// What has committed to the checkpoint that is being filled.
    pub fn logged_bytes(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.logged_bytes.load(Relaxed)).sum()
    }

    /// Transactions that committed, since the beginning.
    pub fn transactions(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.transactions.load(Relaxed)).sum()
    }

    /// A transaction ends that had claimed `reserved_bytes` and took `used_bytes`.
    #[inline]
    pub fn settle(&self, reserved_bytes: u64, used_bytes: u64, has_logged: bool, limit_bytes: u64) {
        let lane = self.lanes.mine();
        if has_logged {
            lane.logged_bytes.fetch_add(used_bytes, Relaxed);
            lane.transactions.fetch_add(1, Relaxed);
        }
        let Some(unused) = reserved_bytes.checked_sub(used_bytes) else {
            self.claimed_bytes.fetch_add(used_bytes - reserved_bytes, AcqRel);
            return;
        };
        let most = most_credit_bytes(reserved_bytes, limit_bytes);
        let credit = lane.credit_bytes.fetch_add(unused, AcqRel) + unused;
        if credit > most {
            let cut =
                lane.credit_bytes.fetch_update(AcqRel, Acquire, |credit| (credit > most).then_some(most));
            self.claimed_bytes.fetch_sub(cut.map_or(0, |credit| credit - most), AcqRel);
        }
    }

    /// Takes all credits back. Gives whether there were any.
    #[cold]
    fn take_credits(&self) -> bool {
        let credits = self.lanes.iter().map(|lane| lane.credit_bytes.swap(0, AcqRel)).sum::<u64>();
        self.claimed_bytes.fetch_sub(credits, AcqRel);
        credits > 0
    }

    /// What the checkpoint that was filled has claimed; the next begins with nothing.
    pub fn take_all(&self, _closed: &Closed<'_>) -> u64 {
        self.take_credits();
        self.lanes.iter().for_each(|lane| lane.logged_bytes.store(0, Relaxed));
        self.claimed_bytes.swap(0, AcqRel)
    }
}

impl Place<'_> {
    /// Claims `bytes` where all claims are at most `most_bytes` then. Gives whether that is so.
    #[inline]
    pub fn claim(&self, bytes: u64, most_bytes: u64) -> bool {
        if self.lane.take(bytes) {
            if self.claims.claimed_bytes() <= most_bytes {
                return true;
            }
            self.lane.credit_bytes.fetch_add(bytes, AcqRel);
        }
        self.claim_shared(bytes, most_bytes)
            || (self.claims.take_credits() && self.claim_shared(bytes, most_bytes))
    }

    /// Claims `bytes`, whether there is room or not.
    pub fn claim_alone(&self, bytes: u64) {
        self.claims.claimed_bytes.fetch_add(bytes, AcqRel);
    }

    /// Claims something for the next transactions as well, where there is room for it.
    #[cold]
    fn claim_shared(&self, bytes: u64, most_bytes: u64) -> bool {
        let claims = self.claims;
        let more = most_credit_bytes(bytes, most_bytes).saturating_sub(bytes);
        let more = if claims.claimed_bytes() + bytes + more <= most_bytes { more } else { 0 };
        let claimed = claims.claimed_bytes.fetch_add(bytes + more, AcqRel) + bytes + more;
        if claimed > most_bytes {
            claims.claimed_bytes.fetch_sub(bytes + more, AcqRel);
            return false;
        }
        self.lane.credit_bytes.fetch_add(more, AcqRel);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    const LIMIT_BYTES: u64 = 1 << 20;

    /// Invariant 2.
    #[test]
    fn who_finds_no_room_takes_the_credits_of_others() {
        let claims = Claims::default();
        thread::scope(|scope| {
            scope.spawn(|| {
                let place = claims.enter();
                assert!(place.claim(LIMIT_BYTES / 16, LIMIT_BYTES));
                drop(place);
                claims.settle(LIMIT_BYTES / 16, 100, true, LIMIT_BYTES);
            });
        });
        assert!(claims.claimed_bytes() > 100, "there is a credit");
        assert!(!claims.is_more_than(100), "which nobody needs");
        let place = claims.enter();
        assert!(!place.claim(LIMIT_BYTES - 99, LIMIT_BYTES));
        assert!(place.claim(LIMIT_BYTES - 100, LIMIT_BYTES));
        assert_eq!(claims.claimed_bytes(), LIMIT_BYTES);
    }

    /// Invariant 3.
    #[test]
    fn where_the_log_is_small_all_is_given_back() {
        let claims = Claims::default();
        assert!(claims.enter().claim(LIMIT_BYTES / 4, LIMIT_BYTES));
        claims.settle(LIMIT_BYTES / 4, 100, true, LIMIT_BYTES);
        assert_eq!(claims.claimed_bytes(), 100);
    }

    proptest! {
        /// Invariant 1: for claims, and what is taken of them, per thousand.
        #[test]
        fn claimed_is_what_was_taken_and_the_credits(
            claimed in prop::collection::vec((1..LIMIT_BYTES / 3, 0..1100_u64, any::<bool>()), 1..60),
        ) {
            let claims = Claims::default();
            let (mut taken, mut transactions) = (0, 0);
            for (bytes, used, is_cut) in claimed {
                let used_bytes = bytes * used / 1000;
                if claims.enter().claim(bytes, LIMIT_BYTES) {
                    prop_assert!(claims.claimed_bytes() <= LIMIT_BYTES);
                    claims.settle(bytes, used_bytes, used_bytes > 0, LIMIT_BYTES);
                    taken += used_bytes;
                    transactions += u64::from(used_bytes > 0);
                } else {
                    prop_assert!(taken + bytes > LIMIT_BYTES, "there was room");
                }
                prop_assert_eq!(claims.claimed_bytes(), taken + claims.credits_bytes());
                prop_assert_eq!(claims.logged_bytes(), taken);
                prop_assert!(claims.credits_bytes() <= LIMIT_BYTES / CREDITS_IN_LIMIT);
                if is_cut {
                    prop_assert_eq!(claims.take_all(&claims.close()), taken);
                    prop_assert_eq!(claims.claimed_bytes(), 0);
                    taken = 0;
                }
            }
            prop_assert_eq!(claims.transactions(), transactions);
        }
    }
}
