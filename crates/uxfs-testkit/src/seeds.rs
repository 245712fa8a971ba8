//! The seed of a randomised test, always printed with a failure.
//!
//! `cargo xtask test` gives each commit a seed of its own (`UXFS_RUN_SEED`), so that runs differ and a commit can be tried again. `UXFS_SEED`
//! repeats what a failed test did. Without both, a test does the same each time.
//!
//! Of a long list of fixed cases a run of all tests tries a part ([`Part`]), another for each commit; a test that is run alone tries all.

use std::env;

/// The seed of a run of all tests.
pub const RUN_VARIABLE: &str = "UXFS_RUN_SEED";
/// Runs of all tests try all cases of all lists where it is set.
const EVERY_CASE_VARIABLE: &str = "UXFS_EVERY_CASE";

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// A seed that prints itself when the test that holds it panics.
#[derive(Debug)]
pub struct Seed {
    value: u64,
    test: &'static str,
}

impl Seed {
    /// `UXFS_SEED`, else `default` mixed with the seed of the run, else `default`.
    pub fn from_environment(test: &'static str, default: u64) -> Self {
        // Short enough to be typed.
        let of_run = |run: u64| Random::new(run ^ default.rotate_left(32)).next_u64() >> 32;
        let value = number("UXFS_SEED").or_else(|| number(RUN_VARIABLE).map(of_run)).unwrap_or(default);
        Self { value, test }
    }

    /// The name of the test.
    pub fn test(&self) -> &'static str {
        self.test
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

/// The cases of a list that a run tries: one in so many, each in turn as seeds go by.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    one_in: usize,
    offset: usize,
}

impl Part {
    /// One case in `one_in`, drawn by the seed of the run. All of them outside a run of all tests, and with `UXFS_EVERY_CASE`.
    pub fn of_run(one_in: usize) -> Self {
        match number(RUN_VARIABLE) {
            Some(run) if env::var_os(EVERY_CASE_VARIABLE).is_none() => Self::drawn(one_in, run),
            _ => Self { one_in: 1, offset: 0 },
        }
    }

    fn drawn(one_in: usize, run: u64) -> Self {
        Self { one_in, offset: Random::new(run).index(one_in) }
    }

    /// The cases of `list` that are tried.
    pub fn of<T>(self, list: &[T]) -> impl Iterator<Item = &T> {
        list.iter().enumerate().filter(move |(index, _)| self.has(*index)).map(|(_, case)| case)
    }

    /// Whether the case at `index` of the list is tried.
    pub fn has(self, index: usize) -> bool {
        (index + self.offset).is_multiple_of(self.one_in)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_many_runs_are_the_whole() {
        let tried = |run| (0..30).filter(move |index| Part::drawn(3, run).has(*index));
        assert!((0..50).all(|run| tried(run).count() == 10));
        let all: std::collections::BTreeSet<usize> = (0..50).flat_map(tried).collect();
        assert_eq!(all.len(), 30);
    }
}
