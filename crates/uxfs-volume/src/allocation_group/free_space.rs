//! Free extents of a group, read from its trees.

use uxfs_format::{
    btree::free_space::{ByBlock, ByLength, FreeExtent},
    units::AgBlock,
};

use super::reader::GroupReader;
use crate::{btree::Tree, error::Result};

impl<'v> GroupReader<'v> {
    /// The tree of a group's free extents ordered by block.
    ///
    /// # Errors
    /// [`OperationError::NoSuchGroup`](crate::error::OperationError::NoSuchGroup); damage of the header; the device.
    pub fn free_space_by_block(self) -> Result<Tree<'v, ByBlock>> {
        let header = self.free_space_header()?;
        let root = AgBlock::new(header.by_block_root.get());
        Ok(Tree::of_group(self.volume, self.group, root, header.by_block_levels.get()))
    }

    /// The tree of a group's free extents ordered by length.
    ///
    /// # Errors
    /// As [`free_space_by_block`](Self::free_space_by_block).
    pub fn free_space_by_length(self) -> Result<Tree<'v, ByLength>> {
        let header = self.free_space_header()?;
        let root = AgBlock::new(header.by_length_root.get());
        Ok(Tree::of_group(self.volume, self.group, root, header.by_length_levels.get()))
    }

    /// The free extents of a group, by block. Blocks on the free list are not among them.
    ///
    /// # Errors
    /// As [`free_space_by_block`](Self::free_space_by_block).
    pub fn free_extents(self) -> Result<impl Iterator<Item = Result<FreeExtent>> + use<'v>> {
        let records = self.free_space_by_block()?.records();
        Ok(records.map(|record| record.map(|record| record.get())))
    }

    /// Adds the free space of a group to a histogram. Like `xfs_db`'s `freesp` it counts each block of the free list
    /// as an extent of its own.
    ///
    /// # Errors
    /// As [`free_space_by_block`](Self::free_space_by_block).
    pub fn add_free_space(self, histogram: &mut FreeSpaceHistogram) -> Result<()> {
        for _ in self.free_list()? {
            histogram.add(1);
        }
        self.free_space_by_block()?.records().visit_leaves(|records| {
            records.iter().for_each(|record| histogram.add(record.get().length_blocks));
            Ok(())
        })
    }
}

/// Extents of 2ⁿ to 2ⁿ⁺¹ − 1 blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FreeSpaceBucket {
    /// How many extents.
    pub extents: u64,
    /// Blocks in all of them.
    pub blocks: u64,
}

/// Free extents by length, in powers of two.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FreeSpaceHistogram {
    buckets: [FreeSpaceBucket; 32],
}

impl FreeSpaceHistogram {
    /// Counts one extent. One without blocks counts for nothing.
    pub fn add(&mut self, length_blocks: u32) {
        let Some(log) = length_blocks.checked_ilog2() else { return };
        if let Some(bucket) = self.buckets.get_mut(log as usize) {
            bucket.extents = bucket.extents.saturating_add(1);
            bucket.blocks = bucket.blocks.saturating_add(length_blocks.into());
        }
    }

    /// Adds another histogram's counts: groups may be read by several threads.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, other) in self.buckets.iter_mut().zip(&other.buckets) {
            bucket.extents = bucket.extents.saturating_add(other.extents);
            bucket.blocks = bucket.blocks.saturating_add(other.blocks);
        }
    }

    /// The shortest length of each bucket that is not empty, with the bucket.
    pub fn buckets(&self) -> impl Iterator<Item = (u32, FreeSpaceBucket)> + '_ {
        let buckets = (0u32..).zip(&self.buckets).filter(|(_, bucket)| bucket.extents > 0);
        buckets.map(|(log, bucket)| (1 << log.min(31), *bucket))
    }

    /// All extents and blocks.
    pub fn total(&self) -> FreeSpaceBucket {
        self.buckets.iter().fold(FreeSpaceBucket::default(), |sum, bucket| FreeSpaceBucket {
            extents: sum.extents.saturating_add(bucket.extents),
            blocks: sum.blocks.saturating_add(bucket.blocks),
        })
    }
}
