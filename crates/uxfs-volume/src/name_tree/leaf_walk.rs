//! From the root of a name tree to a leaf, and on from leaf to leaf.

use uxfs_format::{
    attribute, directory,
    field_table::OnDisk,
    name_tree::{
        TreeKind,
        fault::NameTreeFault,
        header::{BlockHeader, magic_of},
        node::{self, NodeBlock},
    },
    units::FileBlock,
};

use super::{ForkBlocks, leaves_ahead::LeavesAhead};
use crate::{error::Result, volume::MetadataBuffer};

/// Which leaf to begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The first one.
    First,
    /// The first one that can hold this hash.
    Hash(u32),
}

/// A leaf of a tree, and the way to the next.
#[derive(Debug)]
pub struct LeafWalk<'a, 'fs> {
    blocks: &'a ForkBlocks<'fs>,
    /// Verified as a leaf of this kind of tree.
    pub leaf: MetadataBuffer,
    /// Its place in the fork.
    pub block: FileBlock,
    remaining_blocks: u64,
    circle: CircleCheck,
    /// Of a walk over all leaves.
    ahead: LeavesAhead,
}

/// Finds out that neighbours point at each other in a circle, after at most three times as many steps as the circle and the way to
/// it have blocks (Brent's algorithm). Leaves of one hash may pass all other checks.
#[derive(Debug)]
struct CircleCheck {
    /// A block that the walk has passed.
    mark: FileBlock,
    /// Steps since the mark, and after how many steps another block becomes the mark.
    steps: u64,
    next_mark: u64,
}

impl CircleCheck {
    fn new(mark: FileBlock) -> Self {
        Self { mark, steps: 0, next_mark: 1 }
    }

    /// Whether `block` comes a second time.
    fn is_closed_by(&mut self, block: FileBlock) -> bool {
        if block == self.mark {
            return true;
        }
        self.steps += 1;
        if self.steps == self.next_mark {
            *self = Self { mark: block, steps: 0, next_mark: self.next_mark.saturating_mul(2) };
        }
        false
    }
}

impl<'a, 'fs> LeafWalk<'a, 'fs> {
    /// Goes down from the root, whose block the caller has read. `None` where every hash is smaller.
    pub fn descend(blocks: &'a ForkBlocks<'fs>, root: MetadataBuffer, start: Start) -> Result<Option<Self>> {
        let mut block = blocks.kind.root(blocks.geometry());
        let mut buffer = root;
        let mut expected_level = None;
        let mut ahead = LeavesAhead::default();
        // Levels fall at each step and begin at 5 at most: the loop ends.
        loop {
            let level = level_of(blocks, block, &buffer)?;
            if let Some(expected) = expected_level
                && level != expected
            {
                let fault = NameTreeFault::ChildLevel { found: level, expected };
                return Err(blocks.corruption(blocks.index_structure(), block, Some(buffer.sector()), fault));
            }
            if level == 0 {
                let remaining_blocks = blocks.most_blocks();
                let circle = CircleCheck::new(block);
                return Ok(Some(Self { blocks, leaf: buffer, block, remaining_blocks, circle, ahead }));
            }
            let node = NodeBlock::parse(&buffer)
                .map_err(|fault| blocks.corruption(blocks.index_structure(), block, None, fault))?;
            let child = match start {
                Start::First => node.first_child(),
                Start::Hash(hash) => node.child_for(hash),
            };
            let Some(child) = child else { return Ok(None) };
            if start == Start::First && level == 1 {
                ahead = LeavesAhead::below(blocks, &node, &buffer);
            }
            expected_level = Some(level - 1);
            block = child;
            buffer = blocks.read_tree_block(block)?;
        }
    }

    /// Moves to the next leaf. `last_hash` is the last of this one. `false` behind the last leaf.
    pub fn next(&mut self, last_hash: Option<u32>) -> Result<bool> {
        let Some(next) = BlockHeader::prefix_of(&self.leaf).and_then(BlockHeader::next) else {
            return Ok(false);
        };
        let structure = self.blocks.index_structure();
        let fail = |fault: NameTreeFault| self.blocks.corruption(structure, next, None, fault);
        self.remaining_blocks = self
            .remaining_blocks
            .checked_sub(1)
            .ok_or_else(|| fail(NameTreeFault::TooManyBlocks { most: self.blocks.most_blocks() }))?;
        self.ahead.step(self.blocks);
        let buffer = self.blocks.read_tree_block(next)?;
        let level = level_of(self.blocks, next, &buffer)?;
        if level != 0 {
            return Err(fail(NameTreeFault::ChildLevel { found: level, expected: 0 }));
        }
        let back = BlockHeader::prefix_of(&buffer).map_or(0, |header| header.backward.get());
        if u64::from(back) != self.block.get() {
            return Err(fail(NameTreeFault::NeighbourBack { found: back, expected: self.block }));
        }
        let first_hash = first_hash(self.blocks, &buffer);
        if let (Some(hash), Some(last)) = (first_hash, last_hash)
            && hash < last
        {
            return Err(fail(NameTreeFault::LeafOrder { hash, last }));
        }
        if self.circle.is_closed_by(next) {
            let most = self.blocks.most_blocks().saturating_sub(self.remaining_blocks);
            return Err(fail(NameTreeFault::TooManyBlocks { most }));
        }
        self.leaf = buffer;
        self.block = next;
        Ok(true)
    }
}

/// The level of a verified tree block, 0 for a leaf below nodes.
fn level_of(blocks: &ForkBlocks<'_>, block: FileBlock, buffer: &MetadataBuffer) -> Result<u16> {
    let magic = magic_of(buffer).unwrap_or(0);
    let leaf_magic = match blocks.kind {
        TreeKind::Directory => directory::leaf::NODE_MAGIC,
        TreeKind::Attribute => attribute::leaf::MAGIC,
    };
    let structure = blocks.index_structure();
    if magic == leaf_magic {
        return Ok(0);
    }
    if magic != node::MAGIC {
        // The one leaf of a leaf directory cannot lie in a tree.
        let fault = NameTreeFault::Root { magic };
        return Err(blocks.corruption(structure, block, Some(buffer.sector()), fault));
    }
    let node = NodeBlock::parse(buffer).map_err(|fault| blocks.corruption(structure, block, None, fault))?;
    Ok(node.header.level.get())
}

fn first_hash(blocks: &ForkBlocks<'_>, buffer: &MetadataBuffer) -> Option<u32> {
    let geometry = blocks.geometry();
    match blocks.kind {
        TreeKind::Directory => {
            let leaf = directory::leaf::LeafBlock::parse(buffer, geometry).ok()?;
            leaf.entries.first().map(|entry| entry.hash.get())
        }
        TreeKind::Attribute => {
            let leaf = attribute::leaf::LeafBlock::parse(buffer, geometry).ok()?;
            leaf.entries.first().map(|entry| entry.hash.get())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_soon_and_long_ways_are_none() {
        for (before, circle) in [(0_u64, 1_u64), (0, 2), (5, 1), (5, 7), (1000, 3), (3, 1000)] {
            let mut check = CircleCheck::new(FileBlock::new(0));
            let mut place = 0;
            let mut steps = 0_u64;
            while {
                place = if place + 1 == before + circle { before } else { place + 1 };
                !check.is_closed_by(FileBlock::new(place))
            } {
                steps += 1;
            }
            assert!(steps >= circle.saturating_sub(1), "{before} {circle}: {steps}");
            assert!(steps <= 3 * (before + circle), "{before} {circle}: {steps}");
        }
        let mut check = CircleCheck::new(FileBlock::new(0));
        assert!((1..100_000).all(|place| !check.is_closed_by(FileBlock::new(place))));
    }
}
