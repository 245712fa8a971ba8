//! Very many extents in memory: a B+-tree of packed records, addressed by their index.
//!
//! Each child of a branch says how many extents are below it and where the first one begins, so that an extent is found
//! by its index or by a file block in one descent, and a change in the middle touches one leaf and the way to it.
//!
//! Nodes are shared: a clone of a tree costs one count, and a change copies the nodes on its path that other trees share.
//!
//! Invariants, checked by the tests:
//! 1. All leaves are equally deep. No node is empty, and a root that is a branch has at least two children.
//! 2. Nodes other than the root are at least half full, except for the last one of each level: a file that grows at its
//!    end leaves full nodes behind.
//! 3. A branch's count and first block of each child are those of the child.
//! 4. The memory of each leaf is charged to the account as long as any tree holds the leaf.

mod change;

use std::sync::Arc;

use uxfs_block::cache::{MemoryAccount, MemoryCharge};
use uxfs_format::{btree::extent_map::ExtentRecord, units::FileBlock};

/// Records in a full leaf: 4 KiB.
pub(super) const LEAF_RECORDS: usize = 256;
/// Children of a full branch.
const BRANCH_CHILDREN: usize = 64;
/// Memory of a leaf beside its records: its counts, its charge, its entry in the branch above.
const LEAF_OVERHEAD_BYTES: u64 = 128;

/// A tree, of at least one extent.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    root: Node,
    length: usize,
    blocks: u64,
    account: Option<MemoryAccount>,
}

#[derive(Debug, Clone)]
enum Node {
    Leaf(Arc<Leaf>),
    Branch(Arc<Branch>),
}

#[derive(Debug)]
struct Leaf {
    records: Vec<ExtentRecord>,
    charge: Option<MemoryCharge>,
}

#[derive(Debug, Clone)]
struct Branch {
    children: Vec<Child>,
}

/// A node with what its parent knows of it.
#[derive(Debug, Clone)]
struct Child {
    /// Where its first extent begins.
    first: FileBlock,
    /// Extents below it.
    count: usize,
    node: Node,
}

impl Leaf {
    /// Room for a full leaf, with nothing in it.
    fn new(account: Option<&MemoryAccount>) -> Self {
        let mut leaf = Self { records: Vec::new(), charge: account.map(|account| account.charge(0)) };
        leaf.reserve(LEAF_RECORDS);
        leaf
    }

    /// Makes room for so many records, no more than fit a leaf, without moving again soon.
    fn reserve(&mut self, records: usize) {
        if records > self.records.capacity() {
            let wanted = records.saturating_mul(2).clamp(records, LEAF_RECORDS.max(records));
            self.records.reserve_exact(wanted.saturating_sub(self.records.len()));
            self.recharge();
        }
    }

    fn shrink(&mut self) {
        self.records.shrink_to_fit();
        self.recharge();
    }

    fn recharge(&mut self) {
        let bytes = self.memory_bytes();
        if let Some(charge) = &mut self.charge {
            charge.set_bytes(bytes);
        }
    }

    fn memory_bytes(&self) -> u64 {
        (self.records.capacity() * size_of::<ExtentRecord>()) as u64 + LEAF_OVERHEAD_BYTES
    }
}

impl Clone for Leaf {
    fn clone(&self) -> Self {
        let charge = self.charge.as_ref().map(MemoryCharge::another);
        let mut leaf = Self { records: self.records.clone(), charge };
        leaf.recharge();
        leaf
    }
}

impl Child {
    fn of(node: Node) -> Self {
        Self { first: node.first(), count: node.count(), node }
    }

    fn update(&mut self) {
        (self.first, self.count) = (self.node.first(), self.node.count());
    }
}

impl Node {
    fn new_leaf(leaf: Leaf) -> Self {
        Self::Leaf(Arc::new(leaf))
    }

    fn new_branch(children: Vec<Child>) -> Self {
        Self::Branch(Arc::new(Branch { children }))
    }

    /// Where its first extent begins.
    fn first(&self) -> FileBlock {
        match self {
            Self::Leaf(leaf) => {
                leaf.records.first().map_or(FileBlock::new(0), |record| record.get().file_block)
            }
            Self::Branch(branch) => branch.children.first().map_or(FileBlock::new(0), |child| child.first),
        }
    }

    /// Extents in it and below it.
    fn count(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.records.len(),
            Self::Branch(branch) => branch.children.iter().map(|child| child.count).sum(),
        }
    }

    /// Records of a leaf, children of a branch.
    fn entries(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.records.len(),
            Self::Branch(branch) => branch.children.len(),
        }
    }

    /// Entries that it holds at most.
    fn capacity(&self) -> usize {
        match self {
            Self::Leaf(_) => LEAF_RECORDS,
            Self::Branch(_) => BRANCH_CHILDREN,
        }
    }
}

impl Branch {
    /// The child that holds the extent at `index`, and its index there. Behind all extents: the last child.
    fn child_of(&self, index: usize) -> (usize, usize) {
        let mut rest = index;
        let last = self.children.len().saturating_sub(1);
        for (place, child) in self.children.iter().enumerate() {
            if rest < child.count || place == last {
                return (place, rest);
            }
            rest -= child.count;
        }
        (0, rest)
    }
}

impl Tree {
    /// Of no extents, which callers add at once.
    pub fn new(account: Option<&MemoryAccount>) -> Self {
        let leaf = Leaf { records: Vec::new(), charge: account.map(|account| account.charge(0)) };
        Self { root: Node::new_leaf(leaf), length: 0, blocks: 0, account: account.cloned() }
    }

    pub fn len(&self) -> usize {
        self.length
    }

    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The records of the leaf that holds the extent at `index`, and its place among them.
    #[inline]
    pub fn leaf_at(&self, index: usize) -> (&[ExtentRecord], usize) {
        let (mut node, mut rest) = (&self.root, index);
        loop {
            match node {
                Node::Leaf(leaf) => return (&leaf.records, rest),
                Node::Branch(branch) => {
                    let (place, within) = branch.child_of(rest);
                    let Some(child) = branch.children.get(place) else { return (&[], 0) };
                    (node, rest) = (&child.node, within);
                }
            }
        }
    }

    /// The last extent.
    pub fn last(&self) -> Option<&ExtentRecord> {
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(leaf) => return leaf.records.last(),
                Node::Branch(branch) => node = &branch.children.last()?.node,
            }
        }
    }

    /// The records of the leaf with the last extent that begins at or before `file_block` (or of the first leaf), and how many
    /// extents come before them.
    #[inline]
    pub fn leaf_of(&self, file_block: FileBlock) -> (&[ExtentRecord], usize) {
        let (mut node, mut before) = (&self.root, 0);
        loop {
            match node {
                Node::Leaf(leaf) => return (&leaf.records, before),
                Node::Branch(branch) => {
                    // The last child that begins at or before the block.
                    let place = branch.children.partition_point(|child| child.first <= file_block);
                    let place = place.saturating_sub(1);
                    let passed = branch.children.get(..place).unwrap_or_default();
                    before += passed.iter().map(|child| child.count).sum::<usize>();
                    let Some(child) = branch.children.get(place) else { return (&[], before) };
                    node = &child.node;
                }
            }
        }
    }

    /// Memory that it takes, with the index.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> u64 {
        fn of(node: &Node) -> u64 {
            match node {
                Node::Leaf(leaf) => leaf.memory_bytes(),
                Node::Branch(branch) => {
                    let own = branch.children.capacity() * size_of::<Child>();
                    own as u64 + branch.children.iter().map(|child| of(&child.node)).sum::<u64>()
                }
            }
        }
        of(&self.root)
    }

    /// Panics unless the invariants hold.
    #[cfg(test)]
    pub fn check(&self) {
        fn check(node: &Node, is_last: bool, is_root: bool) -> u32 {
            let least = if is_root || is_last { 1 } else { node.capacity() / 2 };
            assert!((least..=node.capacity()).contains(&node.entries()), "{} entries", node.entries());
            let Node::Branch(branch) = node else { return 0 };
            assert!(!is_root || branch.children.len() > 1, "a root with one child");
            let last = branch.children.len() - 1;
            let depths = branch.children.iter().enumerate().map(|(place, child)| {
                assert_eq!((child.first, child.count), (child.node.first(), child.node.count()));
                check(&child.node, is_last && place == last, false)
            });
            let depths: Vec<u32> = depths.collect();
            assert!(depths.iter().all(|depth| *depth == depths[0]), "leaves at different depths");
            depths[0] + 1
        }
        check(&self.root, true, true);
        assert_eq!(self.root.count(), self.length);
    }
}
