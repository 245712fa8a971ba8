//! Time and chance, which changes take from outside the image; both replaceable so that images can be reproduced.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use rustix::time::{ClockId, clock_gettime};
use uxfs_format::inode::Timestamp;

use super::Engine;
use crate::options::{Clock, Generations};

/// The state of the source of random generations.
#[derive(Debug)]
pub(super) struct RandomNumbers {
    state: AtomicU64,
}

impl RandomNumbers {
    pub fn new() -> Self {
        Self { state: AtomicU64::new(RandomState::new().hash_one(0_u8)) }
    }

    /// The next number: a counter, mixed until no bit says anything about another (SplitMix64).
    fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut word = self.state.fetch_add(STEP, Relaxed).wrapping_add(STEP);
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

impl Engine {
    /// The clock for changes without a time of their own.
    pub fn now(&self) -> Timestamp {
        match self.options.clock {
            Clock::Fixed(time) => time,
            Clock::System => {
                // Read several times in each operation: the time of the last tick, as Linux stamps inodes, costs a tenth.
                let now = clock_gettime(ClockId::RealtimeCoarse);
                Timestamp { seconds: now.tv_sec, nanoseconds: u32::try_from(now.tv_nsec).unwrap_or(0) }
            }
        }
    }

    /// The generation of a new inode.
    pub fn new_generation(&self) -> u32 {
        match self.options.generations {
            Generations::Fixed(generation) => generation,
            Generations::Random => (self.random.next() >> 32) as u32,
        }
    }
}
