//! The way from a tree's root to one of its leaves, and the checks between the blocks on it.

use uxfs_format::btree::{BlockPointer, BtreeKind, block::Pointer, check::BtreeFault};
use uxfs_format::fault::Structure;

use super::{block::Block, tree::Tree};
use crate::error::Result;

/// Children of one node that are asked for together.
const READAHEAD_BLOCKS: usize = 64;

/// One step of the way: a block, and which record or entry of it.
#[derive(Debug, Clone)]
pub(super) struct PathLevel<K: BtreeKind> {
    pub block: Block<K>,
    pub index: usize,
}

/// Which way a walk goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Left,
    Right,
}

impl Direction {
    fn side(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Right => "right",
        }
    }

    fn reversed(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }

    /// The index next to `index` among `length`.
    fn neighbour(self, index: usize, length: usize) -> Option<usize> {
        let next = match self {
            Self::Left => index.checked_sub(1)?,
            Self::Right => index.checked_add(1)?,
        };
        (next < length).then_some(next)
    }
}

/// Steps from the root (first) to a leaf (last). Empty before the first seek.
#[derive(Debug, Clone)]
pub(super) struct Path<K: BtreeKind> {
    steps: Vec<PathLevel<K>>,
    pub blocks_left: u64,
    pub reads_ahead: bool,
}

impl<K: BtreeKind> Path<K> {
    pub fn new() -> Self {
        Self { steps: Vec::new(), blocks_left: 0, reads_ahead: false }
    }

    pub fn leaf(&self) -> Option<&PathLevel<K>> {
        self.steps.last()
    }

    pub fn leaf_mut(&mut self) -> Option<&mut PathLevel<K>> {
        self.steps.last_mut()
    }

    pub fn clear(&mut self) {
        self.steps.clear();
    }

    /// Starts over at the root.
    pub fn restart(&mut self, tree: &Tree<'_, K>) -> Result<()> {
        self.steps.clear();
        self.blocks_left = tree.most_blocks();
        let block = Block::root(tree)?;
        self.push(tree, block, 0);
        Ok(())
    }

    fn push(&mut self, tree: &Tree<'_, K>, block: Block<K>, index: usize) {
        self.steps.push(PathLevel { block, index });
        self.read_ahead(tree);
    }

    /// Goes down to a leaf, choosing an entry in each node.
    pub fn descend(&mut self, tree: &Tree<'_, K>, choose: impl Fn(&Block<K>) -> usize) -> Result<()> {
        loop {
            let Some(step) = self.steps.last_mut() else { return Ok(()) };
            step.index = choose(&step.block);
            if step.block.level() == 0 {
                return Ok(());
            }
            let child = self.read_child(tree)?;
            self.push(tree, child, 0);
        }
    }

    /// Reads the child that the last step points to and compares it with its key.
    fn read_child(&mut self, tree: &Tree<'_, K>) -> Result<Block<K>> {
        let budget = tree.most_blocks();
        self.blocks_left = match self.blocks_left.checked_sub(1) {
            Some(left) => left,
            None => return Err(tree.damaged(None, BtreeFault::TooManyBlocks { budget })),
        };
        let Some(parent) = self.steps.last() else {
            return Err(tree.damaged(None, BtreeFault::Empty { level: 0 }));
        };
        let (block, index) = (&parent.block, parent.index);
        let (Some(pointer), Some(key)) = (block.pointers().get(index), block.keys().get(index)) else {
            return Err(tree.damaged(block.address(), BtreeFault::Empty { level: block.level() }));
        };
        let level = block.level().saturating_sub(1);
        let child = Block::read(tree, *pointer, level)?;
        let Some(first) = child.first_position() else {
            return Err(tree.damaged(child.address(), BtreeFault::Empty { level }));
        };
        if first < K::position_of_key(key) {
            return Err(tree.damaged(child.address(), BtreeFault::BlockOrder));
        }
        Ok(child)
    }

    /// Goes to the leaf next to this one, if there is one; the index is at its near end. On the way it compares the
    /// siblings of every level with the order of the parents, and the contents of both leaves.
    ///
    /// Nothing has moved where there is no such leaf.
    pub fn step_leaf(&mut self, tree: &Tree<'_, K>, direction: Direction) -> Result<bool> {
        let turn = self.steps.iter().rposition(|step| {
            step.block.level() > 0 && direction.neighbour(step.index, step.block.len()).is_some()
        });
        let Some(turn) = turn else {
            self.verify_edges(tree, direction)?;
            return Ok(false);
        };
        let left_behind = self.steps.split_off(turn.saturating_add(1));
        if let Some(step) = self.steps.last_mut() {
            step.index = direction.neighbour(step.index, step.block.len()).unwrap_or(step.index);
        }
        self.read_ahead(tree);
        for old in &left_behind {
            let child = self.read_child(tree)?;
            verify_siblings(tree, &old.block, &child, direction)?;
            let index = match direction {
                Direction::Left => child.len().saturating_sub(1),
                Direction::Right => 0,
            };
            self.push(tree, child, index);
        }
        if let (Some(old), Some(new)) = (left_behind.last(), self.steps.last()) {
            verify_order(tree, &old.block, &new.block, direction)?;
        }
        Ok(true)
    }

    /// At the edge of the tree no level has a sibling on that side.
    fn verify_edges(&self, tree: &Tree<'_, K>, direction: Direction) -> Result<()> {
        for step in &self.steps {
            if let Some(found) = sibling(&step.block, direction) {
                let fault = BtreeFault::WrongSibling {
                    side: direction.side(),
                    found: found.raw(),
                    expected: Block::<K>::NO_SIBLING,
                };
                return Err(tree.damaged(step.block.address(), fault));
            }
        }
        Ok(())
    }

    /// Asks for the next children of the last node, when a walk has come to the first of a batch of them.
    fn read_ahead(&self, tree: &Tree<'_, K>) {
        let Some(step) = self.steps.last().filter(|step| self.reads_ahead && step.block.level() > 0) else {
            return;
        };
        if step.index % READAHEAD_BLOCKS != 0 {
            return;
        }
        let batch = step.block.pointers().iter().skip(step.index).take(READAHEAD_BLOCKS);
        let length_bytes = tree.volume().geometry().block_size_bytes;
        let requests: Vec<(Structure, _, u32)> = batch
            .filter_map(|pointer| tree.sector(*pointer))
            .map(|sector| (K::STRUCTURE, sector, length_bytes))
            .collect();
        if requests.len() > 1 {
            tree.volume().metadata().prefetch(&requests);
        }
    }
}

fn sibling<K: BtreeKind>(block: &Block<K>, direction: Direction) -> Option<Pointer<K>> {
    let view = block.view()?;
    let sibling = match direction {
        Direction::Left => view.left_sibling(),
        Direction::Right => view.right_sibling(),
    };
    sibling.map(Pointer::<K>::from_address)
}

/// `new` must be the sibling of `old` on the side of `direction`, and `old` that of `new` on the other.
fn verify_siblings<K: BtreeKind>(
    tree: &Tree<'_, K>,
    old: &Block<K>,
    new: &Block<K>,
    direction: Direction,
) -> Result<()> {
    let verify = |block: &Block<K>, other: &Block<K>, direction: Direction| {
        let found = sibling(block, direction);
        let expected = other.address().map(Pointer::<K>::from_address);
        if found == expected {
            return Ok(());
        }
        let raw = |pointer: Option<Pointer<K>>| pointer.map_or(Block::<K>::NO_SIBLING, BlockPointer::raw);
        let (found, expected) = (raw(found), raw(expected));
        let fault = BtreeFault::WrongSibling { side: direction.side(), found, expected };
        Err(tree.damaged(block.address(), fault))
    };
    verify(old, new, direction)?;
    verify(new, old, direction.reversed())
}

/// The records of two leaves must follow each other.
fn verify_order<K: BtreeKind>(
    tree: &Tree<'_, K>,
    old: &Block<K>,
    new: &Block<K>,
    direction: Direction,
) -> Result<()> {
    let (left, right) = match direction {
        Direction::Left => (new, old),
        Direction::Right => (old, new),
    };
    match (left.records().last(), right.records().first()) {
        (Some(last), Some(first)) if K::may_follow(last, first) => Ok(()),
        _ => Err(tree.damaged(new.address(), BtreeFault::BlockOrder)),
    }
}
