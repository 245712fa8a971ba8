//! All records of a btree that may be damaged.
//!
//! A damaged block is left out with a finding, and the walk goes on with the next pointer of its parent. Where an interior block
//! is damaged, the leaves below it are reached by the sibling pointers of the leaf before them.
//!
//! It ends on any image: each level down is one lower, a step budget counts the blocks, and on each level the first positions of
//! the blocks rise, so that no block is walked twice.

use uxfs_format::btree::{BlockPointer, BtreeKind, block::Pointer, check::BtreeFault};

use crate::{
    btree::{Block, Tree},
    error::{Error, Result},
};

/// A walk over the leaves of a tree in order.
#[derive(Debug)]
pub(crate) struct TolerantWalk<'fs, K: BtreeKind> {
    tree: Tree<'fs, K>,
    /// Interior blocks from the root, each with the index of the child that comes next.
    nodes: Vec<(Block<K>, usize)>,
    /// The leaf at hand, or the one before a damaged block.
    leaf: Option<Block<K>>,
    /// The last position that was given.
    last: Option<K::Position>,
    /// The first position of the last interior block of each level, the lowest first.
    firsts: Vec<Option<K::Position>>,
    /// Leaves that are followed by their siblings lie before this key of the next interior block.
    follows_up_to: Option<Option<K::Position>>,
    blocks_left: u64,
    has_begun: bool,
    left_out: u64,
}

impl<'fs, K: BtreeKind> TolerantWalk<'fs, K> {
    pub(crate) fn new(tree: Tree<'fs, K>) -> Self {
        let blocks_left = tree.most_blocks();
        Self {
            tree,
            nodes: Vec::new(),
            leaf: None,
            last: None,
            firsts: Vec::new(),
            follows_up_to: None,
            blocks_left,
            has_begun: false,
            left_out: 0,
        }
    }

    /// Blocks that were left out so far.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The records of the next leaf that can be read. `None` behind the last.
    ///
    /// # Errors
    /// Those that no walk passes over.
    pub(crate) fn next_leaf(&mut self) -> Result<Option<&[K::Record]>> {
        let leaf = match std::mem::replace(&mut self.has_begun, true) {
            true => self.advance()?,
            false => match Block::root(&self.tree) {
                Ok(root) => self.enter(root)?,
                Err(error) => {
                    self.leave_out(error)?;
                    None
                }
            },
        };
        let Some(leaf) = leaf else {
            self.leaf = None;
            return Ok(None);
        };
        let leaf = self.leaf.insert(leaf);
        self.last = leaf.records().last().map(K::position_of_record).or(self.last);
        Ok(Some(leaf.records()))
    }

    /// A block below the path: itself where it is a leaf, or else the first leaf below it.
    fn enter(&mut self, block: Block<K>) -> Result<Option<Block<K>>> {
        if block.level() == 0 {
            return Ok(Some(block));
        }
        self.nodes.push((block, 0));
        self.advance()
    }

    fn advance(&mut self) -> Result<Option<Block<K>>> {
        loop {
            if let Some(end) = self.follows_up_to {
                if let Some(leaf) = self.sibling(end.as_ref())? {
                    return Ok(Some(leaf));
                }
                self.follows_up_to = None;
            }
            let Some((node, index)) = self.nodes.last_mut() else { return Ok(None) };
            let level = node.level().saturating_sub(1);
            let (pointer, key) = (node.pointers().get(*index).copied(), node.keys().get(*index).copied());
            *index += 1;
            let next_key = node.keys().get(*index).map(K::position_of_key);
            let (Some(pointer), Some(key)) = (pointer, key) else {
                self.nodes.pop();
                continue;
            };
            let next_key = next_key.or_else(|| self.next_key_above());
            match self.read(pointer, level, Some(K::position_of_key(&key))) {
                Ok(block) if level == 0 => return Ok(Some(block)),
                Ok(block) => self.nodes.push((block, 0)),
                Err(error) => {
                    self.leave_out(error)?;
                    self.follows_up_to = (level > 0).then_some(next_key);
                }
            }
        }
    }

    /// The key of the child that comes next in any block above the last.
    fn next_key_above(&self) -> Option<K::Position> {
        let above = self.nodes.iter().rev().skip(1);
        above.filter_map(|(node, index)| node.keys().get(*index).map(K::position_of_key)).next()
    }

    /// The leaf behind the one at hand by its sibling pointer, if it lies before `end`.
    fn sibling(&mut self, end: Option<&K::Position>) -> Result<Option<Block<K>>> {
        let sibling = self.leaf.as_ref().and_then(|leaf| leaf.view()?.right_sibling());
        let Some(sibling) = sibling else { return Ok(None) };
        match self.read(Pointer::<K>::from_address(sibling), 0, None) {
            Ok(leaf) => {
                let is_before = leaf.first_position().is_some_and(|first| end.is_none_or(|end| first < *end));
                Ok(is_before.then_some(leaf))
            }
            Err(error) => {
                self.leave_out(error)?;
                Ok(None)
            }
        }
    }

    /// Reads a block, and compares it with the key that led to it and with the records before it.
    fn read(&mut self, pointer: Pointer<K>, level: u16, key: Option<K::Position>) -> Result<Block<K>> {
        let budget = self.tree.most_blocks();
        self.blocks_left = match self.blocks_left.checked_sub(1) {
            Some(left) => left,
            None => {
                self.nodes.clear();
                return Err(self.tree.damaged(None, BtreeFault::TooManyBlocks { budget }));
            }
        };
        let block = Block::read(&self.tree, pointer, level)?;
        let Some(first) = block.first_position() else {
            return Err(self.tree.damaged(block.address(), BtreeFault::Empty { level }));
        };
        if !self.is_behind(level, &first) || key.is_some_and(|key| first < key) {
            return Err(self.tree.damaged(block.address(), BtreeFault::BlockOrder));
        }
        self.note_first(level, first);
        Ok(block)
    }

    /// Whether a position lies behind the records that were given, or behind the first position of the interior block before.
    fn is_behind(&self, level: u16, first: &K::Position) -> bool {
        let before = match level.checked_sub(1) {
            None => self.last.as_ref(),
            Some(index) => self.firsts.get(usize::from(index)).and_then(Option::as_ref),
        };
        before.is_none_or(|before| before < first)
    }

    fn note_first(&mut self, level: u16, first: K::Position) {
        let Some(index) = level.checked_sub(1).map(usize::from) else { return };
        if self.firsts.len() <= index {
            self.firsts.resize_with(index + 1, || None);
        }
        if let Some(before) = self.firsts.get_mut(index) {
            *before = Some(first);
        }
    }

    fn leave_out(&mut self, error: Error) -> Result<()> {
        self.left_out += 1;
        self.tree.volume().leave_out(error)
    }
}
