//! Extents of some allocation groups, gathered to be compared one by one.

use parking_lot::Mutex;
use uxfs_block::spill::SpillError;
use uxfs_format::{
    btree::reverse_map::{Mapping, Owner},
    units::{AgBlock, AgNumber, FileBlock},
};

use super::edges::{EdgeSorter, Edges};

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
    /// As bytes that are ordered as owners are.
    pub fn to_bytes(self) -> [u8; 17] {
        let mut bytes = [0; 17];
        let flags = u8::from(self.is_attribute_fork) << 2
            | u8::from(self.is_extent_map_block) << 1
            | u8::from(self.is_unwritten);
        let values = self.owner.to_be_bytes().into_iter().chain([flags]).chain(self.shift.to_be_bytes());
        bytes.iter_mut().zip(values).for_each(|(byte, value)| *byte = value);
        bytes
    }

    pub fn from_bytes(bytes: [u8; 17]) -> Self {
        let [a, b, c, d, e, f, g, h, flags, rest @ ..] = bytes;
        Self {
            owner: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            is_attribute_fork: flags & 4 != 0,
            is_extent_map_block: flags & 2 != 0,
            is_unwritten: flags & 1 != 0,
            shift: u64::from_be_bytes(rest),
        }
    }

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
    uses: Mutex<Uses>,
}

#[derive(Debug)]
enum Uses {
    InMemory(Vec<BlockUse>),
    Sorted(EdgeSorter),
}

impl UseList {
    /// Of these groups, which ascend; all extents are kept in memory.
    pub fn of(groups: Vec<u32>) -> Self {
        Self { groups, uses: Mutex::new(Uses::InMemory(Vec::new())) }
    }

    /// Of these groups, which ascend, to be compared; of the extents, about `memory_limit` bytes are kept in memory.
    pub fn to_compare(groups: Vec<u32>, memory_limit: usize) -> Self {
        Self { groups, uses: Mutex::new(Uses::Sorted(EdgeSorter::new(memory_limit))) }
    }

    pub fn add(&self, group: AgNumber, kind: UseKind, mapping: &Mapping) {
        let (start, group) = (mapping.start.get(), group.get());
        if self.groups.binary_search(&group).is_err() {
            return;
        }
        let end = start.saturating_add(mapping.length_blocks);
        let one = BlockUse { group, start, end, kind, owner: UseOwner::of(mapping) };
        match &mut *self.uses.lock() {
            Uses::InMemory(uses) => uses.push(one),
            Uses::Sorted(edges) => edges.add(&one),
        }
    }

    /// All of them, where they were kept in memory.
    pub fn into_uses(self) -> Vec<BlockUse> {
        match self.uses.into_inner() {
            Uses::InMemory(uses) => uses,
            Uses::Sorted(_) => Vec::new(),
        }
    }

    /// Where they begin and end, in order: of those to be compared.
    ///
    /// # Errors
    /// A temporary file.
    pub fn into_edges(self) -> Result<Edges, SpillError> {
        match self.uses.into_inner() {
            Uses::InMemory(_) => EdgeSorter::new(0).finish(),
            Uses::Sorted(edges) => edges.finish(),
        }
    }
}
