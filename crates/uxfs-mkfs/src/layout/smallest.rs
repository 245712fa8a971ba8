//! The smallest file system that is large enough.

use super::{DeviceFacts, Layout, LayoutError, Warning};
use crate::options::Options;

/// Sizes that are tried are multiples of this.
const STEP_BYTES: u64 = 1 << 20;
/// No file system that mkfs.xfs makes is smaller.
const MIN_BYTES: u64 = 16 << 20;
/// Nor is any larger than a file can be.
const MAX_BYTES: u64 = 1 << 62;

impl Layout {
    /// Lays out the smallest file system for a file of its own size that `is_enough` accepts, in steps of 1 MiB. Gives
    /// its size in bytes too.
    ///
    /// `is_enough` should accept every larger layout than one that it accepts. Where the groups change with the size, a
    /// slightly larger file system can have slightly less room; the result is then the smallest of its neighbourhood.
    ///
    /// # Errors
    /// Options that no size makes possible, or more than any file system holds.
    pub fn smallest(
        options: &Options,
        mut is_enough: impl FnMut(&Self) -> bool,
    ) -> Result<(Self, Vec<Warning>, u64), LayoutError> {
        let attempt = |bytes| Self::resolve(options, &DeviceFacts::file(bytes));
        let mut enough = |bytes| attempt(bytes).ok().filter(|(layout, _)| is_enough(layout));
        let mut high = MIN_BYTES;
        while enough(high).is_none() {
            if high >= MAX_BYTES {
                let largest = Self::resolve(options, &DeviceFacts::file(1 << 50));
                return Err(largest.err().unwrap_or(LayoutError::NeverEnough));
            }
            high *= 2;
        }
        // Here `low` is too small and `high` is not.
        let mut low = high / 2;
        while high - low > STEP_BYTES {
            let middle = low + (high - low) / 2 / STEP_BYTES * STEP_BYTES;
            if enough(middle).is_some() { high = middle } else { low = middle }
        }
        let (layout, warnings) = Self::resolve(options, &DeviceFacts::file(high))?;
        Ok((layout, warnings, high))
    }

    /// Blocks that are free in the empty file system, the free lists not counted. Linux keeps some of them back for the
    /// trees of the groups.
    pub fn free_blocks(&self) -> u64 {
        let count = self.groups.count as u32; // Verified with the groups.
        if count < 4 {
            return (0..count).map(|group| u64::from(self.space(group).free_blocks())).sum();
        }
        // All groups but three are alike.
        let special = [0, self.log.group, count - 1];
        let alike = (1..count).find(|group| !special.contains(group)).unwrap_or(1);
        let mut distinct = special.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let of = |group| u64::from(self.space(group).free_blocks());
        let others = u64::from(count) - distinct.len() as u64;
        distinct.into_iter().map(of).sum::<u64>() + others * of(alike)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(unsupported: bool) -> Options {
        let mut options = Options::default();
        options.allow_unsupported = unsupported;
        options
    }

    #[test]
    fn the_smallest_is_the_least_that_is_allowed() {
        let (_, _, bytes) = Layout::smallest(&options(false), |_| true).unwrap();
        assert_eq!(bytes, 300 << 20);
        let (_, _, bytes) = Layout::smallest(&options(true), |_| true).unwrap();
        assert_eq!(bytes, 16 << 20);
    }

    #[test]
    fn it_is_enough_and_one_step_less_is_not() {
        for needed in [1000, 100_000, 5_000_000, 3_000_000_000] {
            let enough = |layout: &Layout| layout.free_blocks() >= needed;
            let (layout, _, bytes) = Layout::smallest(&options(true), enough).unwrap();
            assert!(enough(&layout));
            if bytes > MIN_BYTES {
                let (less, _) =
                    Layout::resolve(&options(true), &DeviceFacts::file(bytes - STEP_BYTES)).unwrap();
                assert!(!enough(&less), "{needed} in {bytes}");
            }
        }
    }

    #[test]
    fn impossible_options_are_told_at_once() {
        let mut impossible = options(false);
        impossible.add(crate::options::grammar::Group::Data, "su=64k").unwrap();
        assert_eq!(Layout::smallest(&impossible, |_| true).unwrap_err(), LayoutError::HalfAStripe);
        assert_eq!(Layout::smallest(&options(false), |_| false).unwrap_err(), LayoutError::NeverEnough);
    }

    #[test]
    fn free_blocks_are_counted_in_all_groups() {
        for gib in [1, 20, 5000] {
            let (layout, _) = Layout::resolve(&options(false), &DeviceFacts::file(gib << 30)).unwrap();
            let all =
                (0..layout.groups.count as u32).map(|group| u64::from(layout.space(group).free_blocks()));
            assert_eq!(layout.free_blocks(), all.sum::<u64>());
        }
    }
}
