//! The extents of a fork, however its inode is held.

use std::sync::Arc;

use uxfs_format::units::FileBlock;

use super::{Extent, ExtentMap};

/// The extents of a fork.
#[derive(Debug, Clone)]
pub enum ForkExtents<'a> {
    /// Of an inode that was read.
    Map(Arc<ExtentMap>),
    /// Of an inode that is open and locked.
    List(&'a [Extent]),
}

impl ForkExtents<'_> {
    /// The extent at an index, from 0 in file order.
    pub fn get(&self, index: usize) -> Option<Extent> {
        match self {
            Self::Map(map) => map.get(index),
            Self::List(extents) => extents.get(index).copied(),
        }
    }

    fn index_at_or_after(&self, file_block: FileBlock) -> usize {
        match self {
            Self::Map(map) => map.index_at_or_after(file_block),
            Self::List(extents) => extents.partition_point(|extent| extent.end() <= file_block),
        }
    }

    /// The extent that holds `file_block`, or else the next one behind it.
    pub fn next_at_or_after(&self, file_block: FileBlock) -> Option<Extent> {
        self.get(self.index_at_or_after(file_block))
    }

    /// The extent that holds `file_block`, whole; `None` in a hole.
    pub fn lookup(&self, file_block: FileBlock) -> Option<Extent> {
        self.next_at_or_after(file_block).filter(|extent| extent.file_block <= file_block)
    }

    /// All extents that end behind `file_block`, in order.
    pub fn from(&self, file_block: FileBlock) -> impl Iterator<Item = Extent> + '_ {
        (self.index_at_or_after(file_block)..).map_while(|index| self.get(index))
    }

    /// Blocks that all extents have together.
    pub fn blocks(&self) -> u64 {
        match self {
            Self::Map(map) => map.blocks(),
            Self::List(extents) => {
                extents.iter().fold(0, |sum, extent| sum.saturating_add(extent.length_blocks))
            }
        }
    }
}
