//! All blocks of a tree, damaged ones passed over.
//!
//! [`Records`](super::Records) gives records and ends at the first fault. A check of the whole file system needs more: each block
//! with its address, the key by which its parent leads to it, and what lies beside a damaged block.
//!
//! Invariants:
//! 1. No block is visited twice, whatever the pointers say: at each level a block must begin behind the end of the block before it.
//!    So a walk reads no more blocks than there are pointers in the blocks that it has visited.
//! 2. A damaged block costs what lies below it, and nothing else.

use std::ops::ControlFlow;

use uxfs_format::{
    btree::{
        BlockPointer, BtreeKind,
        block::{Address, BtreeBlock, Pointer},
        check::BtreeFault,
    },
    fault::Structure,
};

use super::{block::Block, tree::Tree};
use crate::error::Error;

/// Children of one node that are asked for together.
const READAHEAD_BLOCKS: usize = 64;

/// An event of a walk over the blocks of a btree.
#[derive(Debug)]
pub enum BlockEvent<'b, K: BtreeKind> {
    /// A block. It passed the verifier, and lies where it belongs between the blocks before it.
    Block {
        /// Where it lies.
        address: Address<K>,
        /// Its contents.
        view: BtreeBlock<'b, K>,
        /// The key by which its parent leads to it; `None` for a root.
        key: Option<&'b K::Key>,
    },
    /// A block and all that is below it could not be read, or lies where it does not belong; or a sibling is wrong.
    Damage(Error),
}

type Visit<'v, K> = dyn FnMut(BlockEvent<'_, K>) -> ControlFlow<()> + 'v;

impl<K: BtreeKind> Tree<'_, K> {
    /// Visits all blocks of the tree, each before those below it and leaves in the order of their records, until `visit` breaks.
    pub fn visit_blocks(
        &self,
        visit: &mut dyn FnMut(BlockEvent<'_, K>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let root = match Block::root(self) {
            Ok(root) => root,
            Err(error) => return visit(BlockEvent::Damage(error)),
        };
        let mut walk = BlockWalk { tree: self, before: Vec::new() };
        walk.before.resize_with(usize::from(root.level()).saturating_add(1), || Before::Nothing);
        walk.visit_block(&root, None, visit)?;
        walk.check_ends(visit)
    }
}

/// The left sibling of the next block of a level, as far as the walk has seen it.
#[derive(Debug)]
enum Before<K: BtreeKind> {
    /// Nothing: the next block is the first.
    Nothing,
    /// A sound block, and whether all blocks between it and the next one were seen.
    Block { block: Block<K>, is_neighbour: bool },
    /// Damaged blocks only.
    Damage,
}

struct BlockWalk<'w, 'fs, K: BtreeKind> {
    tree: &'w Tree<'fs, K>,
    /// By level.
    before: Vec<Before<K>>,
}

impl<K: BtreeKind> BlockWalk<'_, '_, K> {
    fn visit_block(
        &mut self,
        block: &Block<K>,
        key: Option<&K::Key>,
        visit: &mut Visit<'_, K>,
    ) -> ControlFlow<()> {
        if let (Some(address), Some(view)) = (block.address(), block.view()) {
            visit(BlockEvent::Block { address, view, key })?;
        }
        let Some(level) = block.level().checked_sub(1) else { return ControlFlow::Continue(()) };
        for (index, (key, pointer)) in block.keys().iter().zip(block.pointers()).enumerate() {
            if index % READAHEAD_BLOCKS == 0 {
                self.read_ahead(block.pointers().get(index..).unwrap_or_default());
            }
            match self.child(*pointer, key, level, visit) {
                Ok(child) => {
                    self.visit_block(&child, Some(key), visit)?;
                    self.pass(level, Before::Block { block: child, is_neighbour: true });
                }
                Err(error) => {
                    visit(BlockEvent::Damage(error))?;
                    self.lose_neighbours(level);
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Reads a child and compares it with its key and with the block to its left.
    fn child(
        &self,
        pointer: Pointer<K>,
        key: &K::Key,
        level: u16,
        visit: &mut Visit<'_, K>,
    ) -> Result<Block<K>, Error> {
        let child = Block::read(self.tree, pointer, level)?;
        let Some(first) = child.first_position() else {
            return Err(self.tree.damaged(child.address(), BtreeFault::Empty { level }));
        };
        let before = self.before.get(usize::from(level));
        let is_behind = match before {
            Some(Before::Block { block, .. }) => follows(block, &child),
            _ => true,
        };
        if first < K::position_of_key(key) || !is_behind {
            return Err(self.tree.damaged(child.address(), BtreeFault::BlockOrder));
        }
        if let Some(error) = before.and_then(|before| self.sibling_fault(before, &child)) {
            // The fault is reported; the blocks themselves are sound.
            let _ = visit(BlockEvent::Damage(error));
        }
        Ok(child)
    }

    /// The first sibling pointer that contradicts the order of the parents.
    fn sibling_fault(&self, before: &Before<K>, child: &Block<K>) -> Option<Error> {
        let raw = |pointer: Option<Address<K>>| {
            pointer.map_or(Block::<K>::NO_SIBLING, |address| Pointer::<K>::from_address(address).raw())
        };
        let (left, neighbour) = match before {
            Before::Nothing => (None, None),
            Before::Block { block, is_neighbour: true } => (block.address(), Some(block)),
            Before::Block { .. } | Before::Damage => return None,
        };
        let found = raw(child.view().and_then(|view| view.left_sibling()));
        if found != raw(left) {
            let fault = BtreeFault::WrongSibling { side: "left", found, expected: raw(left) };
            return Some(self.tree.damaged(child.address(), fault));
        }
        let neighbour = neighbour?;
        let found = raw(neighbour.view().and_then(|view| view.right_sibling()));
        let expected = raw(child.address());
        (found != expected).then(|| {
            let fault = BtreeFault::WrongSibling { side: "right", found, expected };
            self.tree.damaged(neighbour.address(), fault)
        })
    }

    fn pass(&mut self, level: u16, before: Before<K>) {
        if let Some(place) = self.before.get_mut(usize::from(level)) {
            *place = before;
        }
    }

    /// At this level and below it a block was left out: the next one's left sibling was not seen.
    fn lose_neighbours(&mut self, level: u16) {
        for before in self.before.iter_mut().take(usize::from(level).saturating_add(1)) {
            match before {
                Before::Nothing => *before = Before::Damage,
                Before::Block { is_neighbour, .. } => *is_neighbour = false,
                Before::Damage => {}
            }
        }
    }

    /// The last block of each level has no right sibling. The root was compared when it was read.
    fn check_ends(&self, visit: &mut Visit<'_, K>) -> ControlFlow<()> {
        for before in &self.before {
            let Before::Block { block, is_neighbour: true } = before else { continue };
            if let Some(sibling) = block.view().and_then(|view| view.right_sibling()) {
                let found = Pointer::<K>::from_address(sibling).raw();
                let expected = Block::<K>::NO_SIBLING;
                let fault = BtreeFault::WrongSibling { side: "right", found, expected };
                visit(BlockEvent::Damage(self.tree.damaged(block.address(), fault)))?;
            }
        }
        ControlFlow::Continue(())
    }

    fn read_ahead(&self, pointers: &[Pointer<K>]) {
        let length_bytes = self.tree.volume().geometry().block_size_bytes;
        let batch = pointers.iter().take(READAHEAD_BLOCKS);
        let requests: Vec<(Structure, _, u32)> = batch
            .filter_map(|pointer| self.tree.sector(*pointer))
            .map(|sector| (K::STRUCTURE, sector, length_bytes))
            .collect();
        if requests.len() > 1 {
            self.tree.volume().metadata().prefetch(&requests);
        }
    }
}

/// Whether the contents of `next` may follow those of `block`, which is at the same level.
fn follows<K: BtreeKind>(block: &Block<K>, next: &Block<K>) -> bool {
    match (block.records().last(), next.records().first()) {
        (Some(last), Some(first)) => K::may_follow(last, first),
        _ => match (block.keys().last(), next.keys().first()) {
            (Some(last), Some(first)) => K::position_of_key(last) < K::position_of_key(first),
            _ => false,
        },
    }
}
