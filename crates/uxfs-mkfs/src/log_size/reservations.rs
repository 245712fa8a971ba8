//! The most log space of each kind of operation.
//!
//! A logged buffer costs its bytes and [`BUFFER_OVERHEAD_BYTES`]; a logged inode its bytes and the items around it.

use uxfs_format::{
    btree::{
        BtreeKind,
        free_space::ByBlock,
        inode_index::InodeIndex,
        levels::{self, ForkRoom},
        reference_count::ReferenceCount,
        reverse_map::ReverseMap,
    },
    features::Incompatible,
    geometry::Geometry,
};

/// Item and operation headers of a logged buffer, with its bitmap.
const BUFFER_OVERHEAD_BYTES: u64 = 128;
/// Item and operation headers of a logged inode, and room for the roots of its trees in their larger form.
const INODE_OVERHEAD_BYTES: u64 = 248;
/// Quota records that go with a transaction.
const QUOTA_BYTES: u64 = 768;
/// Intent and regions of a parent pointer that is set or removed.
const PARENT_POINTER_BYTES: u64 = 308;
/// The same for one that is replaced.
const PARENT_POINTER_REPLACE_BYTES: u64 = 576;
/// Levels of the reverse map that old logs were sized for where extents are shared.
const OLD_REVERSE_MAP_LEVELS: u64 = 9;
/// Directory levels that an operation may split.
const NAME_TREE_LEVELS: u64 = 5;
/// Relogging the four intents that exchange one extent, in an atomic write.
const ATOMIC_INTENT_BYTES: u64 = 208;
/// A symbolic link's longest target.
const SYMLINK_BYTES: u64 = 1024;

/// A reservation and how often a transaction rolls on with it.
pub type Reservation = (u64, u64);

/// Whose reservations are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// As Linux makes them now.
    Today,
    /// As it made them in the early days of reflink: larger.
    Early,
}

impl Era {
    /// The one whose largest reservation a log must hold.
    pub fn that_decides(geometry: &Geometry) -> Self {
        if has_parents(geometry) { Self::Today } else { Self::Early }
    }
}

fn has_parents(geometry: &Geometry) -> bool {
    geometry.features.incompatible.contains(Incompatible::PARENT_POINTERS)
}

/// The numbers that all reservations are made of.
#[derive(Debug)]
pub struct Reservations {
    era: Era,
    block: u64,
    sector: u64,
    inode: u64,
    cluster: u64,
    free_space_levels: u64,
    /// 0 without the tree.
    reverse_map_levels: u64,
    reference_count_levels: u64,
    inode_index_levels: u64,
    data_map_levels: u64,
    attribute_map_levels: u64,
    /// Most extents of which one block of a free space tree can gain or lose the records.
    extents_in_block: u64,
    directory_blocks: u64,
    has_reverse_map: bool,
    has_reflink: bool,
    has_free_inode_btree: bool,
    has_parents: bool,
}

impl Reservations {
    /// For one geometry.
    pub fn new(geometry: &Geometry, era: Era) -> Self {
        let features = geometry.features;
        let block_bytes = geometry.block_size_bytes;
        let reverse_map_levels = match (features.has_reverse_map(), features.has_reflink()) {
            (false, _) => 0,
            (true, true) if era == Era::Early => OLD_REVERSE_MAP_LEVELS,
            (true, _) => ReverseMap::max_levels(geometry).into(),
        };
        Self {
            era,
            block: block_bytes.into(),
            sector: geometry.sector_size_bytes.into(),
            inode: geometry.inode_size_bytes.into(),
            cluster: u64::from(geometry.inode_cluster_blocks()) * u64::from(block_bytes),
            free_space_levels: ByBlock::max_levels(geometry).into(),
            reverse_map_levels,
            reference_count_levels: ReferenceCount::max_levels(geometry).into(),
            inode_index_levels: InodeIndex::max_levels(geometry).into(),
            data_map_levels: levels::of_extent_map(geometry, ForkRoom::Data).into(),
            attribute_map_levels: levels::of_extent_map(geometry, ForkRoom::Attribute).into(),
            extents_in_block: u64::from(ByBlock::max_leaf_records(block_bytes))
                - u64::from(ByBlock::min_entries(block_bytes, 0)),
            directory_blocks: geometry.blocks_per_directory_block().into(),
            has_reverse_map: features.has_reverse_map(),
            has_reflink: features.has_reflink(),
            has_free_inode_btree: features.has_free_inode_btree(),
            has_parents: has_parents(geometry),
        }
    }

    /// The reservation with the largest product of bytes and count.
    pub fn largest(&self) -> Reservation {
        let rolls = self.rolls();
        let parent_rolls = if self.has_parents { 3 } else { 0 };
        let all = [
            (self.write(), rolls),
            (self.truncate(), rolls),
            (self.write() + buffers(1, self.block - 1), rolls),
            (self.create(0), 2 + parent_rolls),
            (self.create(0), 3 + parent_rolls),
            (self.create(buffers(1, SYMLINK_BYTES)), 3 + parent_rolls),
            (self.attribute_set_inline(), 3),
            (self.attribute_remove(), 3),
            (self.link(), 2 + parent_rolls),
            (self.remove(), 2 + parent_rolls),
            (self.rename(), 2 + parent_rolls),
        ];
        let mut largest = all.into_iter().max_by_key(|(bytes, count)| bytes * count).unwrap_or_default();
        // A large attribute is compared by its single transaction, and then rolls three times.
        let attribute = self.attribute_set();
        if attribute > largest.0 * largest.1 {
            largest = (attribute, 3);
        }
        largest
    }

    /// How often the transactions that change extents roll on: once more for each kind of deferred work. In the early
    /// days of reflink that was overestimated.
    fn rolls(&self) -> u64 {
        if self.era == Era::Early && self.has_reflink {
            return 8;
        }
        let deferred = self.has_reflink || self.has_reverse_map;
        2 + u64::from(deferred) + u64::from(self.has_reflink) + u64::from(self.has_reverse_map)
    }

    /// Blocks of both free space trees, and of the reverse map, that freeing or allocating `extents` may change.
    fn free_space_blocks(&self, extents: u64) -> u64 {
        let reverse_map = if self.has_reverse_map { 2 * self.reverse_map_levels - 1 } else { 0 };
        extents * (2 * (2 * self.free_space_levels - 1) + reverse_map)
    }

    fn reference_count_blocks(&self, extents: u64) -> u64 {
        extents * (2 * self.reference_count_levels - 1)
    }

    fn free_space(&self, extents: u64) -> u64 {
        buffers(self.free_space_blocks(extents), self.block)
    }

    fn reference_counts(&self, extents: u64) -> u64 {
        buffers(self.reference_count_blocks(extents), self.block)
    }

    fn inodes(&self, count: u64) -> u64 {
        count * (self.inode + INODE_OVERHEAD_BYTES)
    }

    fn sectors(&self, count: u64) -> u64 {
        buffers(count, self.sector)
    }

    fn blocks(&self, count: u64) -> u64 {
        buffers(count, self.block)
    }

    /// The share of old reservations for reference counts, before these became deferred work.
    fn old_reference_counts(&self, extents: u64) -> u64 {
        if self.has_reflink && self.era == Era::Early { self.reference_counts(extents) } else { 0 }
    }

    /// Deferred work on reference counts, as it is today.
    fn deferred_reference_counts(&self, extents: u64) -> u64 {
        if self.has_reflink && self.era == Era::Today {
            self.sectors(extents) + self.reference_counts(extents)
        } else {
            0
        }
    }

    fn write(&self) -> u64 {
        let old = self.old_reference_counts(2);
        let map =
            self.inodes(1) + self.blocks(self.data_map_levels) + self.sectors(3) + self.free_space(2) + old;
        let free = self.sectors(5) + self.free_space(2) + old;
        QUOTA_BYTES + map.max(free).max(self.deferred_reference_counts(1))
    }

    fn truncate(&self) -> u64 {
        let map = self.inodes(1) + self.blocks(self.data_map_levels + 1);
        let free = self.sectors(9) + self.free_space(4) + self.old_reference_counts(4);
        QUOTA_BYTES + map.max(free).max(self.deferred_reference_counts(2))
    }

    /// Blocks of a directory, of its extent map and of the free list that one name may change.
    fn directory(&self) -> u64 {
        let levels = NAME_TREE_LEVELS + 2;
        let map_blocks = self.directory_blocks.div_ceil(self.extents_in_block) * (self.data_map_levels - 1);
        levels * self.directory_blocks + levels * map_blocks + 1
    }

    fn inode_index(&self) -> u64 {
        self.blocks(self.inode_index_levels) + self.free_space(1)
    }

    fn free_inode_index(&self) -> u64 {
        if self.has_free_inode_btree { self.inode_index() } else { 0 }
    }

    fn parent_pointer(&self) -> u64 {
        if self.has_parents { PARENT_POINTER_BYTES } else { 0 }
    }

    fn when_parents(&self, bytes: u64) -> u64 {
        if self.has_parents { bytes } else { 0 }
    }

    fn create(&self, target: u64) -> u64 {
        let allocate =
            self.sectors(2) + self.sector + self.free_space(1) + self.inode_index() + self.free_inode_index();
        let change = self.inodes(2)
            + self.sectors(1)
            + self.block
            + self.blocks(self.directory())
            + self.free_inode_index();
        let parent = self.when_parents(self.attribute_set_inline());
        QUOTA_BYTES + self.parent_pointer() + target + allocate.max(change).max(parent)
    }

    fn attribute_set_inline(&self) -> u64 {
        QUOTA_BYTES + self.inodes(1) + self.sectors(1) + self.blocks(NAME_TREE_LEVELS)
    }

    fn attribute_remove(&self) -> u64 {
        let change = self.inodes(1)
            + self.blocks(NAME_TREE_LEVELS)
            + self.attribute_map_levels * self.block
            + buffers(self.data_map_levels, 0);
        QUOTA_BYTES + change.max(self.sectors(5) + self.free_space(2))
    }

    fn link(&self) -> u64 {
        let change = self.inodes(2) + self.blocks(self.directory());
        let free = self.sectors(3) + self.free_space(1);
        let parent = self.when_parents(self.attribute_set_inline());
        QUOTA_BYTES
            + self.parent_pointer()
            + self.sectors(1)
            + 2 * self.cluster
            + change.max(free).max(parent)
    }

    fn remove(&self) -> u64 {
        let change = self.inodes(2) + self.blocks(self.directory());
        let free = self.sectors(4) + self.free_space(2);
        let parent = self.when_parents(self.attribute_remove());
        QUOTA_BYTES + self.parent_pointer() + self.sectors(1) + self.cluster + change.max(free).max(parent)
    }

    fn rename(&self) -> u64 {
        let change = self.inodes(5) + self.blocks(2 * self.directory());
        let free = self.sectors(7) + self.free_space(3);
        let parent = self.when_parents(self.attribute_set_inline().max(self.attribute_remove()));
        let pointers =
            (2 * PARENT_POINTER_BYTES + PARENT_POINTER_REPLACE_BYTES).max(2 * PARENT_POINTER_REPLACE_BYTES);
        QUOTA_BYTES + self.when_parents(pointers) + change.max(free).max(parent)
    }

    /// The largest attribute whose value is still kept among the others, set in one go.
    fn attribute_set(&self) -> u64 {
        let largest_bytes = self.block * 3 / 4 - 257;
        let value_blocks = largest_bytes.div_ceil(self.block);
        // The early days counted bytes where blocks were meant.
        let mapped = if self.era == Era::Today { value_blocks } else { largest_bytes };
        let blocks = NAME_TREE_LEVELS
            + NAME_TREE_LEVELS * (self.attribute_map_levels - 1)
            + value_blocks
            + mapped.div_ceil(self.extents_in_block) * (self.attribute_map_levels - 1);
        let for_each = self.sectors(1) + self.blocks(self.attribute_map_levels);
        self.attribute_set_inline() + for_each * blocks
    }

    /// Exchanging `blocks` extents of one block each between a file and its staging area.
    pub fn atomic_write(&self, blocks: u64) -> Reservation {
        let free = self.sectors(3) + self.free_space(1);
        let counts = self.sectors(1) + self.reference_counts(1);
        let map = self.inodes(1) + self.sectors(1) + self.blocks(self.data_map_levels + 1);
        let step = free.max(counts).max(map);
        (ATOMIC_INTENT_BYTES * blocks + step, self.rolls())
    }
}

/// `count` buffers of `bytes` each.
fn buffers(count: u64, bytes: u64) -> u64 {
    count * (bytes + BUFFER_OVERHEAD_BYTES)
}
