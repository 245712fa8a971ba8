//! Keyed sums: two lists hold the same, in whatever order, if the sums of their elements' hashes are equal.
//!
//! The hash has 128 bits and keys drawn at random for each check, so that an image cannot be made for which two different lists have
//! one sum. Extents are summed by their ends: `h(start) − h(end)`. A list of adjoining extents then has the sum of the one extent
//! that they make up, however it was divided: the reverse map merges extents, an extent map divides them.

use std::{
    hash::{BuildHasher, Hash, RandomState},
    ops::Range,
};

/// The keys of one check.
#[derive(Debug, Default, Clone)]
pub(crate) struct Keys {
    high: RandomState,
    low: RandomState,
}

/// A sum modulo 2¹²⁸.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sum(u128);

impl Keys {
    pub fn of(&self, element: impl Hash) -> Sum {
        let (high, low) = (self.high.hash_one(&element), self.low.hash_one(&element));
        Sum(u128::from(high) << 64 | u128::from(low))
    }

    /// The sum of all blocks of an extent; `tag` says what is the same for all of them.
    pub fn of_extent(&self, tag: impl Hash + Copy, blocks: Range<u64>) -> Sum {
        let mut sum = self.of((tag, blocks.start));
        sum.subtract(self.of((tag, blocks.end)));
        sum
    }
}

impl Sum {
    pub fn add(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }

    pub fn subtract(&mut self, other: Self) {
        self.0 = self.0.wrapping_sub(other.0);
    }

    /// The sum of so many of it.
    pub fn times(self, count: u32) -> Self {
        Self(self.0.wrapping_mul(count.into()))
    }

    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Which of so many parts an element with this hash is in.
    pub fn part_of(self, parts: usize) -> usize {
        self.0 as usize % parts.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_have_the_sum_of_their_parts_in_any_order() {
        let keys = Keys::default();
        let mut parts = keys.of_extent(7, 20..25);
        parts.add(keys.of_extent(7, 10..15));
        parts.add(keys.of_extent(7, 15..20));
        assert_eq!(parts, keys.of_extent(7, 10..25));
        for other in [keys.of_extent(7, 10..26), keys.of_extent(8, 10..25), keys.of_extent(7, 9..25)] {
            assert_ne!(parts, other);
        }
    }

    #[test]
    fn an_element_that_is_there_twice_is_not_the_same_as_once() {
        let keys = Keys::default();
        let (mut twice, mut both) = (keys.of("a"), keys.of("a"));
        twice.add(keys.of("a"));
        both.add(keys.of("b"));
        assert_eq!(twice, keys.of("a").times(2));
        assert_ne!(twice, both);
        twice.subtract(keys.of("a").times(2));
        assert!(twice.is_zero());
    }
}
