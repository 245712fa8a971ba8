//! Free extents, from the blocks that are in use; and the choice of blocks for the group's own btrees.

use std::ops::Range;

use uxfs_format::{
    btree::{
        BtreeKind,
        free_space::{ByLength, FreeExtent, FreeSpaceRecord},
    },
    units::AgBlock,
};

/// The free blocks of a group, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Free {
    extents: Vec<Range<u32>>,
}

impl Free {
    /// All blocks of a group but those in use, which are in order.
    pub fn without(in_use: &[Range<u32>], length_blocks: u32) -> Self {
        let mut extents = Vec::new();
        let mut at = 0;
        for used in in_use {
            if used.start > at {
                extents.push(at..used.start.min(length_blocks));
            }
            at = at.max(used.end);
        }
        if at < length_blocks {
            extents.push(at..length_blocks);
        }
        extents.retain(|extent| extent.start < extent.end);
        Self { extents }
    }

    /// Blocks.
    pub fn blocks(&self) -> u32 {
        self.extents.iter().map(|extent| extent.end.saturating_sub(extent.start)).fold(0, u32::saturating_add)
    }

    /// Blocks of the longest extent.
    pub fn longest_blocks(&self) -> u32 {
        self.extents.iter().map(|extent| extent.end.saturating_sub(extent.start)).max().unwrap_or(0)
    }

    /// Extents.
    pub fn len(&self) -> usize {
        self.extents.len()
    }

    /// Takes so many blocks: from the first extent that has them all, or else from the first extents. `None` where there are not
    /// so many.
    pub fn take(&mut self, count: usize) -> Option<Vec<AgBlock>> {
        let fits = |extent: &Range<u32>| extent.len() >= count;
        let first = self.extents.iter().position(fits).unwrap_or(0);
        let mut taken = Vec::with_capacity(count);
        for extent in self.extents.iter_mut().skip(first) {
            while taken.len() < count && extent.start < extent.end {
                taken.push(AgBlock::new(extent.start));
                extent.start = extent.start.saturating_add(1);
            }
        }
        self.extents.retain(|extent| extent.start < extent.end);
        (taken.len() == count).then_some(taken)
    }

    /// Records in the order of both btrees.
    pub fn records(&self) -> (Vec<FreeSpaceRecord>, Vec<FreeSpaceRecord>) {
        let record = |extent: &Range<u32>| -> FreeSpaceRecord {
            let length_blocks = extent.end.saturating_sub(extent.start);
            FreeExtent { start: AgBlock::new(extent.start), length_blocks }.into()
        };
        let by_block: Vec<_> = self.extents.iter().map(record).collect();
        let mut by_length = by_block.clone();
        by_length.sort_unstable_by_key(ByLength::position_of_record);
        (by_block, by_length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_use_is_free() {
        let free = Free::without(&[0..4, 10..20, 20..21, 95..100], 100);
        assert_eq!(free.extents, [4..10, 21..95]);
        assert_eq!((free.blocks(), free.longest_blocks(), free.len()), (80, 74, 2));
        assert_eq!(Free::without(&[0..4, 50..60, 90..200], 100).extents, [4..50, 60..90]);
        assert_eq!(Free::without(&[0..50, 50..100], 100).len(), 0);
    }

    #[test]
    fn blocks_are_taken_together_where_they_can_be() {
        let mut free = Free::without(&[0..4, 10..20, 90..100], 100);
        let taken: Vec<u32> = free.take(10).unwrap().iter().map(|block| block.get()).collect();
        assert_eq!(taken, (20..30).collect::<Vec<_>>());
        assert_eq!(free.extents, [4..10, 30..90]);
        assert_eq!(free.clone().take(67), None);
        assert_eq!(free.take(66).unwrap().len(), 66);
        assert_eq!(free.len(), 0);
    }
}
