//! Sets of bytes as ranges that do not touch each other.

use std::{collections::BTreeMap, ops::Range};

/// Ranges that a set keeps apart. With more, those that lie within [`COARSE_BYTES`] of each other become one.
const MOST_RANGES: usize = 1 << 20;
/// What a set that holds very many ranges is rounded to.
const COARSE_BYTES: u64 = 1 << 20;

/// A set of bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// From the first byte to the byte behind the last.
    ranges: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// Adds a range, and joins it with those that it touches.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let range = if self.ranges.len() < MOST_RANGES { range } else { coarse(&range) };
        let (mut start, mut end) = (range.start, range.end);
        if let Some((before, before_end)) = self.ranges.range(..=start).next_back()
            && *before_end >= start
        {
            (start, end) = (*before, end.max(*before_end));
        }
        while let Some((next, next_end)) = self.ranges.range(start..=end).next() {
            let (next, next_end) = (*next, *next_end);
            self.ranges.remove(&next);
            end = end.max(next_end);
        }
        self.ranges.insert(start, end);
    }

    /// The parts of the set that lie in `range`, in order.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let before = self.ranges.range(..range.start).next_back();
        let inside = self.ranges.range(range.start..range.end.max(range.start));
        before.into_iter().chain(inside).filter_map(move |(start, end)| {
            let part = range.start.max(*start)..range.end.min(*end);
            (part.start < part.end).then_some(part)
        })
    }

    /// The parts of `range` that are not in the set, in order.
    pub fn without(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut parts = Vec::new();
        let mut position = range.start;
        for inside in self.within(range.clone()) {
            if position < inside.start {
                parts.push(position..inside.start);
            }
            position = inside.end;
        }
        if position < range.end {
            parts.push(position..range.end);
        }
        parts
    }

    /// Whether any of `range` is in the set.
    pub fn touches(&self, range: Range<u64>) -> bool {
        self.within(range).next().is_some()
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// All ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|(start, end)| *start..*end)
    }

    /// Bytes in the set.
    pub fn total_bytes(&self) -> u64 {
        self.iter().map(|range| range.end.saturating_sub(range.start)).sum()
    }
}

fn coarse(range: &Range<u64>) -> Range<u64> {
    let end = range.end.checked_next_multiple_of(COARSE_BYTES).unwrap_or(range.end);
    range.start - range.start % COARSE_BYTES..end
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;

    fn set(ranges: &[Range<u64>]) -> RangeSet {
        let mut set = RangeSet::default();
        ranges.iter().for_each(|range| set.insert(range.clone()));
        set
    }

    /// Beside a table of single bytes.
    #[test]
    fn it_holds_what_was_put_in() {
        let mut seed = 7_u64;
        let mut next = |limit: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % limit
        };
        for _ in 0..200 {
            let mut bytes = [false; 100];
            let mut set = RangeSet::default();
            for _ in 0..next(12) {
                let start = next(100);
                let end = (start + next(20)).min(100);
                set.insert(start..end);
                (start..end).for_each(|byte| bytes[byte as usize] = true);
            }
            let held: Vec<u64> = set.iter().flatten().collect();
            let expected: Vec<u64> = (0..100).filter(|byte| bytes[*byte as usize]).collect();
            assert_eq!(held, expected);
            let ranges: Vec<_> = set.iter().collect();
            assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start), "{ranges:?}");
            let start = next(100);
            let part = start..start + next(30);
            let within: Vec<u64> = set.within(part.clone()).flatten().collect();
            let expected: Vec<u64> =
                part.clone().filter(|byte| bytes.get(*byte as usize).is_some_and(|is_in| *is_in)).collect();
            assert_eq!(within, expected, "{part:?} of {ranges:?}");
            let without: Vec<u64> = set.without(part.clone()).into_iter().flatten().collect();
            assert_eq!(without.len() + within.len(), part.count());
        }
    }

    #[test]
    fn neighbours_are_one_range() {
        assert_eq!(set(&[0..5, 5..9]).iter().collect::<Vec<_>>(), [0..9]);
        assert_eq!(set(&[0..5, 7..9, 4..8]).iter().collect::<Vec<_>>(), [0..9]);
        assert_eq!(set(&[3..4]).total_bytes(), 1);
    }
}
