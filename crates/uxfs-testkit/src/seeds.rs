//! The seed of a randomised test: taken from `UXFS_SEED`, else fixed, and always printed with a failure.

use std::env;

/// A seed that prints itself when the test that holds it panics.
#[derive(Debug)]
pub struct Seed {
    value: u64,
    test: &'static str,
}

impl Seed {
    /// `UXFS_SEED`, else `default`: a run without the variable is always the same run.
    pub fn from_environment(test: &'static str, default: u64) -> Self {
        let given = env::var("UXFS_SEED").ok().and_then(|text| text.parse().ok());
        Self { value: given.unwrap_or(default), test }
    }

    /// A generator started from the seed.
    pub fn random(&self) -> Random {
        Random::new(self.value)
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: failed with UXFS_SEED={}", self.test, self.value);
        }
    }
}

/// A small, fast, reproducible generator (SplitMix64): for tests only. Neighbouring seeds give unrelated sequences, in every
/// bit.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Starts from any number.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Any number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 where `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next_u64().checked_rem(limit).unwrap_or(0)
    }

    /// An index below `count`; 0 where `count` is 0.
    pub fn index(&mut self, count: usize) -> usize {
        // A number below a `usize` fits one.
        self.below(count as u64) as usize
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}
