//! Extents of some allocation groups, gathered to be compared one by one.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;
use uxfs_format::{
    btree::reverse_map::{Mapping, Owner},
    units::{AgBlock, AgNumber, FileBlock},
};

/// Which structure shows an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UseKind {
    /// The free space btree.
    Free,
    /// A structure of the group, or a file.
    Shown,
    /// The reverse mapping btree.
    Mapped,
    /// The reference count btree, with this count.
    Counted(u32),
}

/// Owner of an extent and kind of use. Adjoining extents that have both in common are one extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct UseOwner {
    owner: u64,
    is_attribute_fork: bool,
    is_extent_map_block: bool,
    is_unwritten: bool,
    /// File block less block, modulo 2⁶⁴.
    shift: u64,
}

impl UseOwner {
    pub fn of(mapping: &Mapping) -> Self {
        let start = u64::from(mapping.start.get());
        Self {
            owner: mapping.owner.raw(),
            is_attribute_fork: mapping.is_attribute_fork,
            is_extent_map_block: mapping.is_extent_map_block,
            is_unwritten: mapping.is_unwritten,
            shift: if mapping.has_file_blocks() { mapping.file_block.get().wrapping_sub(start) } else { 0 },
        }
    }

    pub fn owner(&self) -> Owner {
        Owner::from_raw(self.owner)
    }

    /// The mapping of blocks that are had in this way.
    pub fn mapping(&self, start: u32, length_blocks: u32) -> Mapping {
        let mut mapping = Mapping {
            start: AgBlock::new(start),
            length_blocks,
            owner: self.owner(),
            file_block: FileBlock::new(0),
            is_attribute_fork: self.is_attribute_fork,
            is_extent_map_block: self.is_extent_map_block,
            is_unwritten: self.is_unwritten,
        };
        if mapping.has_file_blocks() {
            mapping.file_block = FileBlock::new(self.shift.wrapping_add(start.into()));
        }
        mapping
    }
}

/// One extent of a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockUse {
    pub group: u32,
    pub start: u32,
    pub end: u32,
    pub kind: UseKind,
    pub owner: UseOwner,
}

/// Gathers the extents of some groups, from several threads.
#[derive(Debug)]
pub(crate) struct UseList {
    /// In ascending order.
    groups: Vec<u32>,
    most: usize,
    uses: Mutex<Vec<BlockUse>>,
    is_full: AtomicBool,
}

impl UseList {
    /// Of these groups, which ascend; of `most` extents.
    pub fn of(groups: Vec<u32>, most: usize) -> Self {
        Self { groups, most, uses: Mutex::default(), is_full: AtomicBool::new(false) }
    }

    pub fn add(&self, group: AgNumber, kind: UseKind, mapping: &Mapping) {
        let (start, group) = (mapping.start.get(), group.get());
        if self.groups.binary_search(&group).is_err() || self.is_full() {
            return;
        }
        let end = start.saturating_add(mapping.length_blocks);
        let mut uses = self.uses.lock();
        if uses.len() >= self.most {
            self.is_full.store(true, Relaxed);
            return;
        }
        uses.push(BlockUse { group, start, end, kind, owner: UseOwner::of(mapping) });
    }

    /// Whether there were more extents.
    pub fn is_full(&self) -> bool {
        self.is_full.load(Relaxed)
    }

    /// All of them.
    pub fn into_uses(self) -> Vec<BlockUse> {
        self.uses.into_inner()
    }
}
