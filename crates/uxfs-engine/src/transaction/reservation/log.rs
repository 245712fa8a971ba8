//! Log reservations of operations.
//!
//! The most that each object can take, as the journal's marks count it, follows from the geometry: sizes of blocks,
//! directory blocks, sectors and inodes, and how high trees can become. Each operation names its objects; their sum is
//! what it asks for. What a transaction then marks is compared with that when it ends (`Ticket::commit`): more is a fault,
//! found by tests and counted otherwise (`overruns`).
//!
//! Deferred work does not add up: before each step a transaction looks whether the step, and intents for all that waits
//! behind it, fit into what it has left, and goes on in another if not (`deferred/run.rs`). So each operation asks for at
//! least one step.
//!
//! Reserved elsewhere, and not part of the sum: headers and the current chunks of each group (by the transaction that changes a
//! group first in a checkpoint, here counted for as many groups as an operation reaches), pending reverse-map records (by the
//! transaction that adds them).

use uxfs_block::cache::logged::{PIECE_LOG_BYTES, RUN_LOG_BYTES};
use uxfs_format::{
    btree::{
        BtreeKind,
        extent_map::ExtentMap,
        free_space::{ByBlock, ByLength},
        inode_index::{FreeInodeIndex, InodeIndex},
        levels::{self, ForkRoom},
        reference_count::ReferenceCount,
        reverse_map::ReverseMap,
    },
    edit::DIRTY_RUN_BYTES,
    geometry::Geometry,
};
use uxfs_journal::journal::{
    LogReservation,
    items::{inode::most_log_bytes, intent::MAX_EXTENTS},
};

use super::{DIRECTORY_SPACE_BYTES, NAME_TREE_LEVELS, Needs, Operation};
use crate::{
    allocation_group::inode_index::current::MOST_CURRENT_CHUNKS,
    extent_map::limits::ATOMIC_EXTENTS,
    transaction::deferred::queue::{STEP_LIMIT, Work},
};

/// Groups that one step of a transaction reaches: an inode's, its directory's, one for new blocks.
const GROUPS: u64 = 3;
/// Log space of a piece of work in an intent, with its share of the header.
const INTENT_WORK_BYTES: u64 = 64;

/// The same where the intent is logged anew, with the end of the old one.
const RENEWED_WORK_BYTES: u64 = 2 * INTENT_WORK_BYTES;

/// The most that objects take in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogNeeds {
    /// A block of metadata.
    block: u64,
    /// An inode: its core, both forks, its place in the unlinked list.
    inode: u64,
    /// AGF, AGFL, AGI of a group, the record of each current chunk of inodes in both trees, and a change of one of these.
    group: u64,
    /// Chunks of inodes of a group that are kept in memory.
    current_chunks: u64,
    /// Groups that there are.
    groups: u64,
    /// An extent taken from free space or given back: the trees by block and by length (there a record leaves one leaf
    /// and comes into another), and the owner of blocks that the free list gets or gives.
    space: u64,
    /// One of several extents given back that lie far from each other: a leaf by block, two by length.
    further_space: u64,
    /// A chunk of inodes comes or goes: both trees, and the item that makes its blocks.
    chunk: u64,
    /// An owner of blocks changes: a way through the tree, or for each further change in one step a leaf and its
    /// neighbour.
    owner: u64,
    /// The same of reference counts.
    reference: u64,
    /// Each further change of owners or reference counts in one step.
    further: u64,
    /// The extent map of a file changes in one place.
    map: u64,
    /// As many mappings as change at once, next to each other.
    mappings: u64,
    /// A name that comes into a directory: its entry, and a split on every level of the index, each half; the free index;
    /// the map splits in three places.
    name: u64,
    /// A name that goes, or leads elsewhere: entry, index and free index, each block with a neighbour that it joins, and
    /// the way through the map of what becomes free.
    less_name: u64,
    /// An attribute: splits on every level of the index (that of a leaf into three), each half; the map splits in one place;
    /// what is in the way moves out of the inode.
    attribute: u64,
}

/// A buffer of so many bytes, all of them.
fn buffer(bytes: u32, pieces: u32) -> u64 {
    PIECE_LOG_BYTES * u64::from(pieces) + u64::from(bytes.div_ceil(DIRTY_RUN_BYTES) * RUN_LOG_BYTES)
}

/// The part of the log, one in so many bytes, that all current inode chunks may take at once.
const LOG_SHARE_OF_CHUNKS: u64 = 64;
/// Bytes of an attribute fork, at most: names and values that are kept in its blocks, of as many files as can be.
const ATTRIBUTE_SPACE_BYTES: u64 = 1 << 35;

/// Levels of an index of names with entries of eight bytes over `space_bytes`, half full.
fn index_levels(block_bytes: u32, space_bytes: u64) -> u64 {
    let fan_out = u64::from(block_bytes.saturating_sub(64) / 8 / 2).max(2);
    let (mut blocks, mut levels) = (space_bytes / u64::from(block_bytes.max(1)), 1);
    while blocks > 1 {
        blocks = blocks.div_ceil(fan_out);
        levels += 1;
    }
    levels
}

/// Blocks of a change on every level of a tree: each splits or joins with its neighbour, and a root comes or goes.
fn way(levels: u32) -> u64 {
    (2 * u64::from(levels)).saturating_sub(1)
}

impl LogNeeds {
    /// The log space of the objects of a file system.
    pub fn new(geometry: &Geometry) -> Self {
        let features = &geometry.features;
        let block = buffer(geometry.block_size_bytes, 1);
        let pieces = geometry.blocks_per_directory_block();
        let sector = buffer(geometry.sector_size_bytes, 1);
        let free_inodes =
            if features.has_free_inode_btree() { way(FreeInodeIndex::max_levels(geometry)) } else { 0 };
        let owner_blocks = if features.has_reverse_map() { way(ReverseMap::max_levels(geometry)) } else { 0 };
        let references = if features.has_reflink() { way(ReferenceCount::max_levels(geometry)) } else { 0 };
        let space = way(ByBlock::max_levels(geometry)) + way(ByLength::max_levels(geometry)) + 1;
        let map = way(levels::of_extent_map(geometry, ForkRoom::Data));
        let per_leaf = ExtentMap::min_entries(geometry.block_size_bytes, 0).max(1);
        let leaves = (ATOMIC_EXTENTS as u64).div_ceil(u64::from(per_leaf)) + 1;
        let directory_block = buffer(geometry.directory_block_size_bytes, pieces);
        let directory_levels =
            index_levels(geometry.directory_block_size_bytes, DIRECTORY_SPACE_BYTES).min(NAME_TREE_LEVELS);
        let attribute_levels =
            index_levels(geometry.block_size_bytes, ATTRIBUTE_SPACE_BYTES).min(NAME_TREE_LEVELS);
        let map_levels = |blocks: u64| u64::from(levels::for_records::<ExtentMap>(geometry, blocks));
        let directory_map = map_levels(3 * (DIRECTORY_SPACE_BYTES >> geometry.block_log));
        let attribute_map = map_levels(ATTRIBUTE_SPACE_BYTES >> geometry.block_log);
        let moved = u64::from(pieces).max(2) + 1;
        let log_bytes = u64::from(geometry.log_blocks) << geometry.block_log;
        let chunks_bytes = 2 * block * u64::from(geometry.ag_count.max(1));
        let current_chunks =
            (log_bytes / LOG_SHARE_OF_CHUNKS / chunks_bytes).clamp(1, MOST_CURRENT_CHUNKS as u64);
        Self {
            block,
            name: 2 * (directory_levels + 2) * directory_block + (6 * directory_map + 1) * block,
            less_name: (directory_levels + 2) * directory_block + 3 * directory_map * block,
            // The sector: the first attribute fork logs the superblock.
            attribute: (2 * (attribute_levels + 1) + 1 + 2 * attribute_map + moved) * block + sector,
            inode: PIECE_LOG_BYTES + most_log_bytes(geometry),
            group: 3 * sector + (free_inodes + 2 * current_chunks - 1) * block,
            current_chunks,
            groups: geometry.ag_count.into(),
            space: (space + owner_blocks) * block,
            further_space: 3 * block,
            chunk: (way(InodeIndex::max_levels(geometry)) + free_inodes) * block + PIECE_LOG_BYTES,
            owner: owner_blocks * block,
            reference: references * block,
            further: 2 * block,
            map: map * block,
            mappings: (map + leaves) * block,
        }
    }

    /// The number of inode chunks of a group that are kept in memory.
    pub fn current_chunks(&self) -> usize {
        self.current_chunks as usize
    }

    /// The reservation of the first transaction that changes a group in a checkpoint.
    pub fn group(&self) -> u64 {
        self.group
    }

    /// The reservation of a transaction that adds a pending reverse-map record.
    pub fn pending_reverse_record(&self) -> u64 {
        self.block
    }

    /// The most that a step of so many works like this takes, with intents for `waiting` others. All are in one group.
    pub fn step(&self, work: &Work, works: usize, waiting: usize) -> u64 {
        let further = self.further * (works.max(1) - 1) as u64;
        let step = match work {
            // The free list gets or gives blocks before a tree changes.
            Work::Owners { .. } | Work::Free { .. } => self.owner + further + self.space,
            // Blocks whose last reference goes become free: an owner less each.
            Work::References { .. } => self.reference + further + self.space,
            Work::ExtentMap { .. } => self.inode + self.map + self.space,
            Work::Attribute(_) => self.inode + self.attribute + self.space,
        };
        step + self.group + waiting as u64 * INTENT_WORK_BYTES
    }

    /// The largest step of any kind.
    fn largest_step(&self) -> u64 {
        let of_groups = self.owner.max(self.reference) + self.further * (STEP_LIMIT as u64 - 1);
        let of_inodes = self.inode + self.map.max(self.attribute);
        of_groups.max(of_inodes) + self.space + self.group + 2 * ATOMIC_EXTENTS as u64 * INTENT_WORK_BYTES
    }

    /// The largest reservation of transactions that move the tail: completing the frees of an intent, or a step under intents,
    /// which may be logged anew, with their ends; or staged blocks that are mapped.
    pub fn largest_urgent(&self, needs: &Needs) -> u64 {
        let allocate = Operation::Allocate { blocks: 0 }.log_bytes(needs) + self.renewal();
        Operation::LARGEST_COMPLETE_FREES
            .log_bytes(needs)
            .max(self.largest_step() + self.renewal())
            .max(allocate)
    }

    /// The most that intents which are logged anew, and the ends of the old ones, take at once.
    pub fn renewal(&self) -> u64 {
        2 * ATOMIC_EXTENTS as u64 * RENEWED_WORK_BYTES
    }

    /// The largest of all reservations.
    pub fn largest(&self, needs: &Needs) -> u64 {
        Operation::Rename.log_bytes(needs).max(Operation::LARGEST_CREATE.log_bytes(needs))
    }
}

impl Operation {
    /// With the longest target.
    const LARGEST_CREATE: Self = Self::Create { target_bytes: 1024 };

    /// All frees of one intent.
    const LARGEST_COMPLETE_FREES: Self = Self::CompleteFrees { extents: MAX_EXTENTS as u32 };

    /// The kind of its reservation.
    pub fn reserve(self) -> LogReservation {
        match self {
            Self::CompleteFrees { .. } => LogReservation::Urgent,
            _ => LogReservation::Usual,
        }
    }

    /// The most that it takes of the log in one step.
    pub fn log_bytes(self, needs: &Needs) -> u64 {
        let log = &needs.log;
        let objects = match self {
            // The inode, its neighbours in the unlinked list, its chunk; mappings; the superblock.
            Self::Release => 3 * log.inode + log.chunk + log.mappings + log.block,
            // So many extents, each perhaps in a group of its own.
            Self::CompleteFrees { extents } => {
                let extents = u64::from(extents.max(1));
                let groups = extents.min(log.groups).saturating_sub(GROUPS);
                log.space + log.further_space * (extents - 1) + log.group * groups
            }
            // The inode, its directory; the chunk; a name; attributes that it begins with (parent pointer, lists, labels); the
            // blocks of a target; space in two places.
            Self::Create { target_bytes } => {
                let inodes = 3 * log.inode + log.chunk + 2 * log.space;
                inodes + log.name + 2 * log.attribute + needs.value(target_bytes.min(1024)) * log.block
            }
            // The inode (which may leave the unlinked list), its directory; a name; a parent pointer.
            Self::Link | Self::LinkInPlace => 3 * log.inode + log.name + log.attribute + 2 * log.space,
            // The inode, its neighbours in the unlinked list, its directory; a name less; a parent pointer less.
            Self::Remove => 4 * log.inode + log.less_name + log.attribute + log.space,
            // Up to five inodes and their neighbours in the list; two names more, one less; three parent pointers; what is
            // left behind is a new inode.
            Self::Rename | Self::RenameInPlace => {
                let names = 2 * log.name + log.less_name;
                7 * log.inode + log.chunk + names + 3 * log.attribute + 2 * log.space
            }
            // The inode; a longer list of permissions.
            Self::SetAttributes => log.inode + log.attribute + log.space,
            // The inode; the attribute, another of its name less. Large values are not logged.
            Self::SetXattr { .. } => log.inode + log.attribute + log.map + log.space,
            // The inode; the extent and blocks for two places of the map; an intent to free the extent, or its end.
            Self::Allocate { .. } => log.inode + 2 * log.space + 2 * log.map + RENEWED_WORK_BYTES,
            // Two inodes, and as many mappings of each as change at once.
            Self::Remap => 2 * log.inode + log.space + 2 * log.mappings,
        };
        (objects + GROUPS * log.group).max(log.largest_step())
    }
}
