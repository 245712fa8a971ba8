//! The leaves of attribute forks, as the dabtree needs them.

use std::cell::Cell;

use uxfs_format::{
    attribute::{
        leaf::{self, LeafBlock},
        leaf_edit::{LeafEdit, SplitBias, SplitPlan},
    },
    edit::Edit,
    name_tree::{
        entry_array::MoveSide,
        header_edit::{BlockIdentity, neighbours},
    },
};

use crate::name_tree::{Side, TreeLeaf};
use uxfs_volume::error::Result;

/// Leaves of attribute forks.
#[derive(Debug)]
pub(super) struct AttributeLeaves {
    block_size_bytes: u32,
    /// Bytes of the attribute that a leaf is split for: they differ too much to be ignored.
    pub pending_bytes: Cell<u32>,
}

impl AttributeLeaves {
    pub(super) fn new(block_size_bytes: u32) -> Self {
        Self { block_size_bytes, pending_bytes: Cell::new(0) }
    }
}

/// Where an attribute with this hash belongs: before its equals.
pub(super) fn index_of(leaf: &LeafBlock<'_>, hash: u32) -> u32 {
    // A block has a few thousand entries at most.
    leaf.entries.partition_point(|entry| entry.hash.get() < hash) as u32
}

impl TreeLeaf for AttributeLeaves {
    const MAGIC: u16 = leaf::MAGIC;

    fn last_hash(&self, leaf: &[u8]) -> Option<u32> {
        LeafBlock::of_block(leaf)?.last_hash()
    }

    fn fill(&self, leaf: &[u8]) -> (usize, usize) {
        let Some(leaf) = LeafBlock::of_block(leaf) else { return (0, 0) };
        let (used, most) = LeafEdit::fill_bytes(&leaf, self.block_size_bytes);
        (used as usize, most as usize)
    }

    fn split(&self, left: Edit<'_>, right: Edit<'_>, identity: &BlockIdentity, hash: u32) -> Result<Side> {
        let (next, previous) = neighbours(left.bytes());
        let mut left = LeafEdit::new(left);
        let mut right = LeafEdit::init(right, identity);
        let (index, count) =
            left.view().map_or((0, 0), |leaf| (index_of(&leaf, hash), leaf.entries.len() as u32));
        let bias = match (next, previous) {
            (None, _) if index == count => SplitBias::Last,
            (_, None) if index == 0 => SplitBias::First,
            _ => SplitBias::Even,
        };
        let (first_moved, side) = match left.plan_split(index, self.pending_bytes.get(), bias) {
            SplitPlan::Two { stay } if index < stay => (stay.saturating_sub(1), Side::Left),
            SplitPlan::Two { stay } => (stay, Side::Right),
            // The new one gets a leaf of its own when the left half is split once more.
            SplitPlan::Three => (index, Side::Left),
        };
        left.move_to(first_moved, count.saturating_sub(first_moved), &mut right, 0);
        Ok(side)
    }

    fn take_all(&self, leaf: Edit<'_>, other: &[u8], place: MoveSide) -> Result<()> {
        LeafEdit::new(leaf).take_all(other, place);
        Ok(())
    }
}
