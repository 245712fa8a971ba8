//! Blocks of a group that are kept for the growth of its own trees. Known in memory only, but they decide when the group
//! is full: without them the last free block could go to a file, and the next split of a tree would fail in the middle of
//! a change.

use uxfs_format::{
    btree::{
        BtreeKind, inode_index::FreeInodeIndex, reference_count::ReferenceCount, reverse_map::ReverseMap,
    },
    geometry::{Geometry, INODES_PER_CHUNK},
    units::AgNumber,
};

use super::Purpose;
use crate::allocation_group::state::Headers;

/// How many blocks each tree may grow to.
#[doc(alias = "xfs_ag_resv")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reservation {
    /// The reference count tree.
    pub reference_count_blocks: u32,
    /// The tree of chunks with free inodes.
    pub free_inode_blocks: u32,
    /// The reverse map.
    pub reverse_map_blocks: u32,
}

/// Blocks of a tree of `records` records in blocks filled to the minimum.
#[doc(alias = "xfs_btree_calc_size")]
fn blocks_of<K: BtreeKind>(geometry: &Geometry, records: u64) -> u32 {
    let fewest = |level| u64::from(K::min_entries(geometry.block_size_bytes, level)).max(2);
    let mut level_blocks = records.div_ceil(fewest(0));
    let mut blocks = level_blocks;
    while level_blocks > 1 {
        level_blocks = level_blocks.div_ceil(fewest(1));
        blocks = blocks.saturating_add(level_blocks);
    }
    u32::try_from(blocks).unwrap_or(u32::MAX)
}

impl Reservation {
    /// The blocks that the trees of a group may need.
    pub fn new(geometry: &Geometry, group: AgNumber) -> Self {
        let length_blocks = geometry.group_length_blocks(group).unwrap_or(0);
        let log_group = geometry.log_start.and_then(|start| geometry.split_fs_block(start));
        let has_log = log_group.is_some_and(|(log_group, _)| log_group == group);
        let blocks = length_blocks.saturating_sub(if has_log { geometry.log_blocks } else { 0 });
        let features = &geometry.features;
        let inodes = u64::from(blocks) << geometry.inodes_per_block_log;
        let when = |is_present: bool, blocks: u32| if is_present { blocks } else { 0 };
        Self {
            reference_count_blocks: when(
                features.has_reflink(),
                blocks_of::<ReferenceCount>(geometry, blocks.into()),
            ),
            free_inode_blocks: when(
                features.has_free_inode_btree(),
                blocks_of::<FreeInodeIndex>(geometry, inodes / u64::from(INODES_PER_CHUNK)),
            ),
            reverse_map_blocks: when(
                features.has_reverse_map(),
                blocks_of::<ReverseMap>(geometry, blocks.into()).max(blocks / 100),
            ),
        }
    }

    /// Gives up what the group cannot keep: it has been full before, and must stay usable.
    pub fn fitted(self, headers: &Headers) -> Self {
        let free = headers.free_space.free_blocks.get() + headers.free_space.free_list_count.get();
        let smaller = Self { free_inode_blocks: 0, ..self };
        let choices = [self, smaller, Self::default()];
        choices.into_iter().find(|choice| choice.left(headers, Purpose::Data) <= free).unwrap_or_default()
    }

    /// Whether the group is so short of blocks that its reverse map should not grow by what needs no blocks itself: further
    /// owners of shared ones, which nothing bounds.
    #[doc(alias = "xfs_ag_resv_critical")]
    pub fn is_reverse_map_short(&self, headers: &Headers) -> bool {
        const LEAST_BLOCKS: u32 = 9;
        if self.reverse_map_blocks == 0 {
            return false;
        }
        let header = &headers.free_space;
        let there = header.free_blocks.get().saturating_add(header.free_list_count.get());
        let of_others = self.left(headers, Purpose::Data) - self.left(headers, Purpose::FreeInodeBtree);
        there.saturating_sub(of_others) < (self.reverse_map_blocks / 10).max(LEAST_BLOCKS)
    }

    /// Blocks that are kept from `purpose`.
    #[doc(alias = "xfs_ag_resv_needed")]
    pub fn left(&self, headers: &Headers, purpose: Purpose) -> u32 {
        let header = &headers.free_space;
        let reference_count = self.reference_count_blocks.saturating_sub(header.reference_count_blocks.get());
        let free_inodes = self.free_inode_blocks.saturating_sub(headers.inodes.free_blocks.get());
        let reverse_map = self.reverse_map_blocks.saturating_sub(header.reverse_map_blocks.get());
        match purpose {
            Purpose::ReferenceCountBtree | Purpose::FreeInodeBtree => reverse_map,
            Purpose::Data | Purpose::Metadata => {
                reference_count.saturating_add(free_inodes).saturating_add(reverse_map)
            }
        }
    }
}
