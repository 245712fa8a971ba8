//! Parts of extent maps that could not be read.
//!
//! A tolerant volume gives the extents of those blocks of a map that are sound. Where the others would lie is remembered here, so
//! that nothing takes such a part for a hole.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use uxfs_format::{
    btree::extent_map::ExtentMapFault,
    fault::{Corruption, Location, Structure},
    inode::Fork,
    units::{FileBlock, InodeNumber},
};

use crate::{
    error::{Error, Result},
    inode::Inode,
    volume::Volume,
};

/// Parts that are remembered. An inode with further ones is refused whole.
const MOST_PARTS: usize = 100_000;

/// Ranges of file blocks, in order, that do not overlap.
pub type LostRanges = Arc<[Range<u64>]>;

/// Of all forks of a volume.
#[derive(Debug, Default)]
pub(super) struct LostExtents {
    parts: Mutex<Lost>,
}

#[derive(Debug, Default)]
struct Lost {
    by_fork: HashMap<(InodeNumber, Fork), LostRanges>,
    count: usize,
}

impl Volume {
    /// Remembers what could not be read of the extent map of a fork; gives whether there was room for it.
    pub(crate) fn note_lost_extents(&self, inode: &Inode, fork: Fork, ranges: Vec<Range<u64>>) -> bool {
        let Some(findings) = self.findings() else { return false };
        let ranges = joined(ranges);
        let mut lost = findings.lost.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if lost.count + ranges.len() > MOST_PARTS {
            return false;
        }
        lost.count += ranges.len();
        if let Some(before) = lost.by_fork.insert((inode.number, fork), ranges.into()) {
            lost.count = lost.count.saturating_sub(before.len());
        }
        true
    }

    /// Where the extent map of a fork could not be read: `None` where all of it was, as always in a strict volume. Asks for
    /// nothing to be read: the caller has the map.
    pub fn lost_extents(&self, inode: &Inode, fork: Fork) -> Option<LostRanges> {
        let lost = self.findings()?.lost.parts.lock().unwrap_or_else(PoisonError::into_inner);
        lost.by_fork.get(&(inode.number, fork)).cloned()
    }

    /// Checks that the extents of a range of a file's bytes were read.
    ///
    /// # Errors
    /// Some were not.
    pub(crate) fn require_extents(&self, inode: &Inode, bytes: Range<u64>) -> Result<()> {
        let Some(lost) = self.lost_extents(inode, Fork::Data) else { return Ok(()) };
        let block_log = self.geometry().block_log;
        let end = bytes.end.div_ceil(self.geometry().block_size_bytes.into());
        match first_in(&lost, bytes.start >> block_log..end) {
            Some(lost) => Err(lost_extents(inode.number, lost.start)),
            None => Ok(()),
        }
    }
}

/// The lost parts of a file that is read from its beginning to its end.
#[derive(Debug)]
pub(crate) struct LostBytes {
    inode: InodeNumber,
    lost: LostRanges,
}

impl LostBytes {
    /// Of a file.
    pub(crate) fn new(inode: InodeNumber, lost: LostRanges) -> Self {
        Self { inode, lost }
    }

    /// The first lost bytes among these, and what reading them gives.
    pub(crate) fn first_in(&self, bytes: Range<u64>, block_log: u32) -> Option<(Range<u64>, Error)> {
        let byte_of = |block: u64| block.checked_shl(block_log).filter(|byte| byte >> block_log == block);
        let blocks = bytes.start >> block_log..((bytes.end - 1) >> block_log) + 1;
        let lost = first_in(&self.lost, blocks)?;
        let range = byte_of(lost.start).unwrap_or(u64::MAX)..byte_of(lost.end).unwrap_or(u64::MAX);
        Some((range, lost_extents(self.inode, lost.start)))
    }
}

/// Puts ranges in order, and joins those that overlap.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|range, before| {
        let overlaps = range.start <= before.end;
        if overlaps {
            before.end = before.end.max(range.end);
        }
        overlaps
    });
    ranges
}

/// The first lost range that has blocks of `range`.
pub(crate) fn first_in(lost: &[Range<u64>], range: Range<u64>) -> Option<Range<u64>> {
    let index = lost.partition_point(|lost| lost.end <= range.start);
    lost.get(index).filter(|lost| lost.start < range.end).cloned()
}

/// The error of a read in a lost part.
pub(crate) fn lost_extents(inode: InodeNumber, file_block: u64) -> Error {
    let fault = ExtentMapFault::Lost { file_block: FileBlock::new(file_block) };
    Corruption::new(Structure::ExtentMap, Location::of_inode(inode), fault).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_in_any_order_of_arrival() {
        let ranges = joined(vec![40..50, 10..20, 45..60, 20..21, 80..81]);
        assert_eq!(ranges, [10..21, 40..60, 80..81]);
        for range in (0..100).flat_map(|start| (start + 1..101).map(move |end| start..end)) {
            let expected = ranges.iter().find(|lost| lost.start < range.end && range.start < lost.end);
            assert_eq!(first_in(&ranges, range.clone()), expected.cloned(), "{range:?}");
        }
    }
}
