//! The gate of the checkpoint that is being filled, and how much of the log is claimed for it.
//!
//! Every transaction goes through the gate, and claims the most that it may take; at its end it gives back what it has
//! not taken. One gate and one count would travel between the processors with each of that. So each lane of threads has a
//! gate, which a cut closes with all others, and a [`Credit`]: what transactions have given back, still claimed, from which the
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
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use uxfs_block::{
    lanes::{Credit, Lanes, take_all},
    own_line::OwnLine,
};

/// A credit is at most this part of what may be claimed: what the largest of usual operations claim, in a log of usual size.
const CREDITS_IN_LIMIT: u64 = 8;

#[derive(Debug, Default)]
pub(super) struct Claims {
    lanes: Lanes<Lane>,
    /// What may be claimed.
    limit_bytes: AtomicU64,
    claimed_bytes: OwnLine<AtomicU64>,
}

/// What the transactions of a few threads write at their beginning and their end.
#[derive(Debug, Default)]
struct Lane {
    gate: RwLock<()>,
    /// Claimed, and not needed by anybody now.
    credit_bytes: Credit,
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

    /// Says how much may be claimed.
    pub fn set_limit_bytes(&self, bytes: u64) {
        self.limit_bytes.store(bytes, Release);
    }

    /// What may be claimed.
    #[inline]
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Acquire)
    }

    /// Whether the checkpoint that is being filled may take half of that, without what nobody needs now.
    #[inline]
    pub fn is_half_claimed(&self) -> bool {
        let (claimed_bytes, half_bytes) = (self.claimed_bytes.load(Relaxed), self.limit_bytes() / 2);
        claimed_bytes > half_bytes && claimed_bytes.saturating_sub(self.credits_bytes()) > half_bytes
    }

    fn credits_bytes(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.credit_bytes.amount()).sum()
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
    pub fn settle(&self, reserved_bytes: u64, used_bytes: u64, has_logged: bool) {
        let lane = self.lanes.mine();
        if has_logged {
            lane.logged_bytes.fetch_add(used_bytes, Relaxed);
            lane.transactions.fetch_add(1, Relaxed);
        }
        let Some(unused) = reserved_bytes.checked_sub(used_bytes) else {
            self.claimed_bytes.fetch_add(used_bytes - reserved_bytes, AcqRel);
            return;
        };
        let most = most_credit_bytes(reserved_bytes, self.limit_bytes());
        let too_much = lane.credit_bytes.add_up_to(most, unused);
        if too_much > 0 {
            self.claimed_bytes.fetch_sub(too_much, AcqRel);
        }
    }

    /// Takes all credits back. Gives whether there were any.
    #[cold]
    fn take_credits(&self) -> bool {
        let credits = take_all(self.lanes.iter().map(|lane| &lane.credit_bytes));
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
    /// Claims `bytes` where all claims leave `left_bytes` of what may be claimed then. Gives whether that is so.
    #[inline]
    pub fn claim(&self, bytes: u64, left_bytes: u64) -> bool {
        let most_bytes = self.claims.limit_bytes().saturating_sub(left_bytes);
        if self.lane.credit_bytes.take(bytes) {
            if self.claims.claimed_bytes.load(Relaxed) <= most_bytes {
                return true;
            }
            self.claims.claimed_bytes.fetch_sub(bytes, AcqRel);
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
        let claimed_bytes = &self.claims.claimed_bytes;
        let with_credit = bytes.max(most_credit_bytes(bytes, most_bytes));
        let has_room = claimed_bytes.load(Relaxed) + with_credit <= most_bytes;
        let wanted = if has_room { with_credit } else { bytes };
        if claimed_bytes.fetch_add(wanted, AcqRel) + wanted > most_bytes {
            claimed_bytes.fetch_sub(wanted, AcqRel);
            return false;
        }
        self.lane.credit_bytes.add(wanted - bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    const LIMIT_BYTES: u64 = 1 << 20;

    fn claims() -> Claims {
        let claims = Claims::default();
        claims.set_limit_bytes(LIMIT_BYTES);
        claims
    }

    /// Invariant 2.
    #[test]
    fn who_finds_no_room_takes_the_credits_of_others() {
        let claims = claims();
        thread::scope(|scope| {
            scope.spawn(|| {
                let place = claims.enter();
                assert!(place.claim(LIMIT_BYTES / 16, 0));
                drop(place);
                claims.settle(LIMIT_BYTES / 16, 100, true);
            });
        });
        assert!(claims.claimed_bytes.load(Relaxed) > 100, "there is a credit");
        claims.set_limit_bytes(200);
        assert!(!claims.is_half_claimed(), "nobody needs it");
        claims.set_limit_bytes(198);
        assert!(claims.is_half_claimed(), "that is without it");
        claims.set_limit_bytes(LIMIT_BYTES);
        let place = claims.enter();
        assert!(!place.claim(LIMIT_BYTES - 99, 0));
        assert!(place.claim(LIMIT_BYTES - 100, 0));
        assert_eq!(claims.claimed_bytes.load(Relaxed), LIMIT_BYTES);
    }

    /// Invariant 3.
    #[test]
    fn where_the_log_is_small_all_is_given_back() {
        let claims = claims();
        assert!(claims.enter().claim(LIMIT_BYTES / 4, 0));
        claims.settle(LIMIT_BYTES / 4, 100, true);
        assert_eq!(claims.claimed_bytes.load(Relaxed), 100);
    }

    proptest! {
        /// Invariant 1: for claims, and what is taken of them, per thousand.
        #[test]
        fn claimed_is_what_was_taken_and_the_credits(
            claimed in prop::collection::vec((1..LIMIT_BYTES / 3, 0..1100_u64, any::<bool>()), 1..60),
        ) {
            let claims = claims();
            let (mut taken, mut transactions) = (0, 0);
            for (bytes, used, is_cut) in claimed {
                let used_bytes = bytes * used / 1000;
                if claims.enter().claim(bytes, 0) {
                    prop_assert!(claims.claimed_bytes.load(Relaxed) <= LIMIT_BYTES);
                    claims.settle(bytes, used_bytes, used_bytes > 0);
                    taken += used_bytes;
                    transactions += u64::from(used_bytes > 0);
                } else {
                    prop_assert!(taken + bytes > LIMIT_BYTES, "there was room");
                }
                prop_assert_eq!(claims.claimed_bytes.load(Relaxed), taken + claims.credits_bytes());
                prop_assert_eq!(claims.logged_bytes(), taken);
                prop_assert!(claims.credits_bytes() <= LIMIT_BYTES / CREDITS_IN_LIMIT);
                if is_cut {
                    prop_assert_eq!(claims.take_all(&claims.close()), taken);
                    prop_assert_eq!(claims.claimed_bytes.load(Relaxed), 0);
                    taken = 0;
                }
            }
            prop_assert_eq!(claims.transactions(), transactions);
        }
    }
}
