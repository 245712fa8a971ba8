//! Changing interior blocks of a name tree.
//!
//! Callers keep the order of hashes: an entry goes where [`NodeBlock::child_for`] finds it, and the hash of a child is
//! the largest below it.

use zerocopy::big_endian::{U16, U32};

use super::{
    entry_array::{self, MoveSide},
    header::BlockHeader,
    header_edit::BlockIdentity,
    node::{MAGIC, NodeBlock, NodeFault, NodeHeader},
};
use crate::{convert::low_u32, edit::Edit, units::FileBlock};

/// A block with fewer entries than this share of a hundred is joined with a neighbour.
#[doc(alias = "magicpct")]
pub const JOIN_PERCENT: usize = 37;

/// An interior block that is being changed.
#[derive(Debug)]
pub struct NodeEdit<'a> {
    edit: Edit<'a>,
}

impl<'a> NodeEdit<'a> {
    /// A block that is one already.
    pub fn new(edit: Edit<'a>) -> Self {
        Self { edit }
    }

    /// Makes the block one without children, `level` above the leaves.
    pub fn init(mut edit: Edit<'a>, identity: &BlockIdentity, level: u16) -> Self {
        let header = NodeHeader {
            info: BlockHeader::new(MAGIC, identity),
            count: U16::new(0),
            level: U16::new(level),
            padding: U32::new(0),
        };
        edit.put_value(0, &header);
        Self { edit }
    }

    /// To read it.
    ///
    /// # Errors
    /// The count does not fit.
    pub fn view(&self) -> Result<NodeBlock<'_>, NodeFault> {
        NodeBlock::parse(self.edit.bytes())
    }

    /// How many children there are.
    pub fn count(&self) -> usize {
        entry_array::count(self.edit.bytes())
    }

    /// Whether no child can be added.
    pub fn is_full(&self) -> bool {
        self.count() >= entry_array::most(self.edit.len())
    }

    /// Adds a child at `index`. The caller has made sure that it fits.
    pub fn insert(&mut self, index: usize, hash: u32, child: FileBlock) {
        entry_array::insert(&mut self.edit, index, entry(hash, child));
    }

    /// Takes the child at `index` out.
    pub fn remove(&mut self, index: usize) {
        entry_array::remove(&mut self.edit, index);
    }

    /// Says what the largest hash below a child is.
    pub fn set_hash(&mut self, index: usize, hash: u32) {
        self.edit.put_value(entry_array::offset_of(index), &U32::new(hash));
    }

    /// Moves the children from `index` on into `right`, which has none.
    pub fn split_off(&mut self, index: usize, right: &mut NodeEdit<'_>) {
        let moved = entry_array::bytes_of(self.edit.bytes(), index, self.count());
        entry_array::add(&mut right.edit, moved, MoveSide::Back);
        entry_array::truncate(&mut self.edit, index);
    }

    /// Takes in all children of a neighbour, `other`, which is given up.
    pub fn take_all(&mut self, other: &[u8], place: MoveSide) {
        let entries = entry_array::bytes_of(other, 0, entry_array::count(other));
        entry_array::add(&mut self.edit, entries, place);
    }
}

fn entry(hash: u32, child: FileBlock) -> [u8; entry_array::ENTRY_BYTES] {
    entry_array::pair(hash, low_u32(child.get()))
}

impl NodeBlock<'_> {
    /// The index of the first child that can hold `hash`, or else of the last child.
    #[inline]
    pub fn index_for(&self, hash: u32) -> usize {
        let index = self.entries.partition_point(|entry| entry.hash.get() < hash);
        index.min(self.entries.len().saturating_sub(1))
    }

    /// Where the child at `index` lies.
    #[inline]
    pub fn child(&self, index: usize) -> Option<FileBlock> {
        self.entries.get(index).map(|entry| FileBlock::new(entry.child.get().into()))
    }

    /// The largest hash of all, `None` in a block without children.
    pub fn last_hash(&self) -> Option<u32> {
        self.entries.last().map(|entry| entry.hash.get())
    }
}

/// Whether a block with `used` of `most` units is so empty that it should be joined with a neighbour.
pub fn wants_join(used: usize, most: usize) -> bool {
    used.saturating_mul(100) < most.saturating_mul(JOIN_PERCENT)
}

/// Whether two neighbours that use `one` and `other` of `most` units may become one: a quarter stays free, so that the
/// next insertion does not split them again.
pub fn may_join(one: usize, other: usize, most: usize) -> bool {
    one.saturating_add(other) <= most.saturating_sub(most >> 2)
}

#[cfg(test)]
#[path = "node_edit_tests.rs"]
mod tests;
