//! The way from the root of a name tree to one of its leaves.

use uxfs_format::{
    name_tree::{MAX_LEVEL, node_edit::NodeEdit},
    units::FileBlock,
};

use super::{BlockBuffer, ForkStore, NameTree, TreeLeaf};
use uxfs_volume::error::Result;

/// A node, and which of its children the way goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathLevel {
    /// The node.
    pub block: FileBlock,
    /// The entry that was followed.
    pub index: usize,
}

const NO_LEVEL: PathLevel = PathLevel { block: FileBlock::new(0), index: 0 };

/// Nodes from the root on, and the leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreePath {
    steps: [PathLevel; MAX_LEVEL as usize],
    length: usize,
    /// Where the leaf lies: the root, as long as there are no nodes.
    pub leaf: FileBlock,
}

/// To which side of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The one behind.
    Next,
    /// The one before.
    Previous,
}

impl TreePath {
    /// To a leaf without nodes above.
    pub fn new(leaf: FileBlock) -> Self {
        Self { steps: [NO_LEVEL; MAX_LEVEL as usize], length: 0, leaf }
    }

    /// Nodes on the way.
    pub fn depth(&self) -> usize {
        self.length
    }

    pub(super) fn steps(&self) -> &[PathLevel] {
        self.steps.get(..self.length).unwrap_or_default()
    }

    /// `None` where there are as many as there can be.
    pub(super) fn push(&mut self, step: PathLevel) -> Option<()> {
        *self.steps.get_mut(self.length)? = step;
        self.length += 1;
        Some(())
    }

    /// Puts a step before all others.
    pub(super) fn push_front(&mut self, step: PathLevel) -> Option<()> {
        self.push(NO_LEVEL)?;
        let steps = self.steps.get_mut(..self.length)?;
        steps.rotate_right(1);
        *steps.first_mut()? = step;
        Some(())
    }

    pub(super) fn step(&self, depth: usize) -> Option<PathLevel> {
        self.steps().get(depth).copied()
    }

    pub(super) fn step_mut(&mut self, depth: usize) -> Option<&mut PathLevel> {
        self.steps.get_mut(..self.length)?.get_mut(depth)
    }

    /// The block at a depth: a node, or behind the last one the leaf.
    pub(super) fn block_at(&self, depth: usize) -> FileBlock {
        self.step(depth).map_or(self.leaf, |step| step.block)
    }
}

impl<'fs, S: ForkStore<'fs>, L: TreeLeaf> NameTree<'_, S, L> {
    /// The way to the block beside the one at `depth`, down to that depth. `None` at the end of the level.
    pub fn beside(
        &mut self,
        path: &TreePath,
        depth: usize,
        direction: Direction,
    ) -> Result<Option<TreePath>> {
        // Up to the first node that has a child on that side.
        for turn in (0..depth).rev() {
            let Some(step) = path.step(turn) else { continue };
            let buffer = self.edit(step.block)?;
            let node = self.parse_node(step.block, &buffer)?;
            let index = match direction {
                Direction::Next => step.index.checked_add(1),
                Direction::Previous => step.index.checked_sub(1),
            };
            let Some((index, child)) = index.and_then(|index| Some((index, node.child(index)?))) else {
                continue;
            };
            let mut found = TreePath::new(child);
            for above in path.steps().iter().take(turn) {
                found.push(*above).ok_or_else(|| self.missing(step.block))?;
            }
            found.push(PathLevel { block: step.block, index }).ok_or_else(|| self.missing(step.block))?;
            drop(buffer);
            self.descend_to(&mut found, depth, direction)?;
            return Ok(Some(found));
        }
        Ok(None)
    }

    /// Goes on down to `depth`, along the edge that is nearest to where the way came from.
    fn descend_to(&mut self, path: &mut TreePath, depth: usize, direction: Direction) -> Result<()> {
        while path.depth() < depth {
            let block = path.leaf;
            let buffer = self.edit(block)?;
            let node = self.parse_node(block, &buffer)?;
            let index = match direction {
                Direction::Next => 0,
                Direction::Previous => node.entries.len().saturating_sub(1),
            };
            let child = node.child(index).ok_or_else(|| self.missing(block))?;
            path.push(PathLevel { block, index }).ok_or_else(|| self.missing(block))?;
            path.leaf = child;
        }
        Ok(())
    }

    /// The way to the leaf at `block`, which can hold `hash`; `None` where no way for this hash leads there. Looks at nodes only:
    /// many leaves may hold one hash.
    pub(crate) fn path_to(&mut self, hash: u32, block: FileBlock) -> Result<Option<TreePath>> {
        let mut path = self.find(hash)?;
        // A level cannot have more nodes than the fork has blocks.
        let most =
            self.store.extents().iter().fold(0_u64, |sum, extent| sum.saturating_add(extent.length_blocks));
        for _ in 0..=most {
            let Some(depth) = path.depth().checked_sub(1) else { break };
            let Some(step) = path.step(depth) else { break };
            let buffer = self.edit(step.block)?;
            let node = self.parse_node(step.block, &buffer)?;
            for (index, entry) in node.entries.iter().enumerate().skip(step.index) {
                if node.child(index) == Some(block) {
                    let last = path.step_mut(depth).ok_or_else(|| self.missing(step.block))?;
                    last.index = index;
                    path.leaf = block;
                    return Ok(Some(path));
                }
                if entry.hash.get() > hash {
                    return Ok(None);
                }
            }
            drop(buffer);
            let Some(mut next) = self.beside(&path, depth, Direction::Next)? else { break };
            let first = PathLevel { block: next.leaf, index: 0 };
            next.push(first).ok_or_else(|| self.missing(first.block))?;
            path = next;
        }
        Ok((path.depth() == 0 && path.leaf == block).then_some(path))
    }

    /// Moves to the next leaf; `false` behind the last one.
    pub fn advance(&mut self, path: &mut TreePath) -> Result<bool> {
        match self.beside(path, path.depth(), Direction::Next)? {
            Some(next) => {
                *path = next;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Says that the largest hash of the leaf is `hash`, to all nodes above that it matters for.
    pub fn update_hash(&mut self, path: &TreePath, hash: u32) -> Result<()> {
        self.update_hash_at(path, path.depth(), hash)
    }

    /// The same for the block at `depth`.
    pub(super) fn update_hash_at(&mut self, path: &TreePath, depth: usize, hash: u32) -> Result<()> {
        for step in path.steps().iter().take(depth).rev() {
            let mut buffer = self.edit(step.block)?;
            let node = self.parse_node(step.block, &buffer)?;
            let count = node.entries.len();
            let current = node.entries.get(step.index).map(|entry| entry.hash.get());
            if current != Some(hash) {
                NodeEdit::new(buffer.edit()).set_hash(step.index, hash);
            }
            if step.index.saturating_add(1) < count {
                break;
            }
        }
        Ok(())
    }
}
