//! How high the trees of a file system can become.
//!
//! The bound is that of a tree whose blocks are all as empty as they may be. A higher tree on disk is damaged, and
//! later the log reservations and the reserved space of a group are computed from these numbers.

use super::{BtreeKind, extent_map::ExtentMap};
use crate::{features::Incompatible, geometry::Geometry};

/// No tree of any kind is higher: a bound for cursors on the stack.
#[doc(alias = "XFS_BTREE_MAXLEVELS")]
pub const MAX_LEVELS: u32 = 12;

/// Fewest pointers that an extent map root in the data fork has room for.
#[doc(alias = "MINDBTPTRS")]
const MIN_DATA_ROOT_POINTERS: u64 = 3;
/// The same in the attribute fork.
#[doc(alias = "MINABTPTRS")]
const MIN_ATTRIBUTE_ROOT_POINTERS: u64 = 2;

/// One of an inode's forks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkRoom {
    /// Data: many extents, and a root of at least three entries.
    Data,
    /// Attributes: fewer extents, and a root of at least two entries.
    Attribute,
}

/// Levels of a tree that holds `records` records in blocks filled to the minimum.
pub fn for_records<K: BtreeKind>(geometry: &Geometry, records: u64) -> u32 {
    let min_leaf = u64::from(K::min_entries(geometry.block_size_bytes, 0)).max(1);
    let min_node = u64::from(K::min_entries(geometry.block_size_bytes, 1)).max(2);
    let mut blocks = records.div_ceil(min_leaf);
    let mut levels = 1u32;
    while blocks > 1 {
        blocks = blocks.div_ceil(min_node);
        levels = levels.saturating_add(1);
    }
    levels
}

/// Levels of the highest tree that `blocks` blocks have room for, each node filled to the minimum; the root, which may
/// be emptier, to two entries.
#[doc(alias = "xfs_btree_space_to_height")]
pub fn for_blocks<K: BtreeKind>(geometry: &Geometry, blocks: u64) -> u32 {
    let min_node = u64::from(K::min_entries(geometry.block_size_bytes, 1)).max(2);
    let Some(mut left) = blocks.checked_sub(1) else { return 0 };
    let (mut level_blocks, mut levels) = (2u64, 1u32);
    while level_blocks < left {
        left = left.saturating_sub(level_blocks);
        level_blocks = level_blocks.saturating_mul(min_node);
        levels = levels.saturating_add(1);
    }
    levels
}

/// Most levels of an extent map, its root in the inode included.
#[doc(alias = "m_bm_maxlevels")]
pub fn of_extent_map(geometry: &Geometry, fork: ForkRoom) -> u32 {
    let large = geometry.features.incompatible.contains(Incompatible::LARGE_EXTENT_COUNTS);
    let (extents, root_entries) = match (fork, large) {
        (ForkRoom::Data, true) => ((1u64 << 48).wrapping_sub(1), MIN_DATA_ROOT_POINTERS),
        (ForkRoom::Data, false) => (i32::MAX.unsigned_abs().into(), MIN_DATA_ROOT_POINTERS),
        (ForkRoom::Attribute, true) => (u32::MAX.into(), MIN_ATTRIBUTE_ROOT_POINTERS),
        (ForkRoom::Attribute, false) => (i16::MAX.unsigned_abs().into(), MIN_ATTRIBUTE_ROOT_POINTERS),
    };
    let min_leaf = u64::from(ExtentMap::min_entries(geometry.block_size_bytes, 0)).max(1);
    let min_node = u64::from(ExtentMap::min_entries(geometry.block_size_bytes, 1)).max(2);
    let mut blocks = extents.div_ceil(min_leaf);
    let mut levels = 1u32;
    while blocks > 1 {
        blocks = if blocks <= root_entries { 1 } else { blocks.div_ceil(min_node) };
        levels = levels.saturating_add(1);
    }
    levels
}

#[cfg(test)]
#[path = "levels_tests.rs"]
mod tests;
