//! Where the trees of a group begin.

use uxfs_format::{
    btree::{
        BtreeKind,
        free_space::{ByBlock, ByLength},
        reverse_map::ReverseMap,
    },
    geometry::Geometry,
};

use super::{Features, Sizes};

/// The roots of a group's trees, directly behind its headers; the same in every group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tables {
    /// Free space by block.
    pub by_block: u32,
    /// Free space by length.
    pub by_length: u32,
    /// Inode index.
    pub inode_index: u32,
    /// Free inode index.
    pub free_inode_index: Option<u32>,
    /// Reverse map.
    pub reverse_map: Option<u32>,
    /// Reference counts.
    pub reference_count: Option<u32>,
    /// First block behind them.
    pub first_free_block: u32,
}

impl Tables {
    /// As it follows from sizes and features.
    pub fn new(sizes: &Sizes, features: &Features) -> Self {
        let mut next = sizes.group_header_blocks();
        let mut take = || {
            next += 1;
            next - 1
        };
        let (by_block, by_length, inode_index) = (take(), take(), take());
        let free_inode_index = features.free_inode_btree.then(&mut take);
        let reverse_map = features.reverse_map.then(&mut take);
        let reference_count = features.reflink.then(&mut take);
        Self {
            by_block,
            by_length,
            inode_index,
            free_inode_index,
            reverse_map,
            reference_count,
            first_free_block: next,
        }
    }
}

/// Blocks that the free list of a group has while its trees have one level each: what one insertion into each tree
/// can need, and one more level of blocks beside.
#[doc(alias = "xfs_alloc_min_freelist")]
pub fn free_list_blocks(geometry: &Geometry) -> u32 {
    let for_tree = |max_levels: u32| 2 * max_levels.min(2) - 2;
    let mut blocks = for_tree(ByBlock::max_levels(geometry)) + for_tree(ByLength::max_levels(geometry));
    if geometry.features.has_reverse_map() {
        blocks += for_tree(ReverseMap::max_levels(geometry));
    }
    blocks
}
