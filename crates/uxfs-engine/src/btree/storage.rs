//! Where a tree's root lies and where its blocks come from.

use uxfs_format::{
    btree::{
        BtreeKind,
        block::{Address, Pointer},
    },
    units::{AgNumber, InodeNumber},
};
use uxfs_journal::transaction::TransactionBuffers;

use super::path::CursorHint;
use uxfs_volume::error::Result;

/// The owner of the blocks of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeOwner {
    /// A group.
    Group(AgNumber),
    /// An inode.
    Inode(InodeNumber),
}

/// Where a tree begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeRoot<A> {
    /// In a block.
    Block {
        /// Which.
        address: A,
        /// Levels of the tree, from 1.
        levels: u32,
    },
    /// In memory that the home keeps: [`BtreeStorage::inline_root`].
    Inline,
}

/// The tree that a cursor is in.
///
/// Giving and taking blocks may change other trees, never the one that the cursor is in (invariant 6 of the
/// [module](super)).
pub trait BtreeStorage<'fs, K: BtreeKind> {
    /// The root, where it is not a block.
    type Inline: InlineRoot<K>;

    /// The transaction's buffers.
    fn buffers(&mut self) -> &mut TransactionBuffers<'fs>;

    /// The owner of the blocks.
    fn owner(&self) -> TreeOwner;

    /// Where the tree begins.
    ///
    /// # Errors
    /// The tree does not exist.
    fn root(&self) -> Result<TreeRoot<Address<K>>>;

    /// Notes that the tree begins elsewhere. Never called where the root is not a block.
    ///
    /// # Errors
    /// The tree does not exist.
    fn set_root(&mut self, address: Address<K>, levels: u32) -> Result<()>;

    /// The root, where it is not a block.
    fn inline_root(&mut self) -> Option<&mut Self::Inline>;

    /// Entries that the root has room for, where it is not a block.
    fn inline_capacity(&self) -> usize {
        0
    }

    /// A block for the tree, near another of its blocks.
    ///
    /// # Errors
    /// No space; damage; the device.
    fn allocate_block(&mut self, near: Option<Address<K>>) -> Result<Address<K>>;

    /// Gives a block back. The cursor has forgotten its buffer already.
    ///
    /// # Errors
    /// Damage; the device.
    fn free_block(&mut self, address: Address<K>) -> Result<()>;

    /// The hint of the last cursor of the tree, where the home keeps it.
    fn hint(&mut self) -> Option<&mut CursorHint<K>> {
        None
    }
}

/// A root that is not a block: the entries inside an inode.
pub trait InlineRoot<K: BtreeKind> {
    /// At least 1.
    fn level(&self) -> u16;
    /// Changes the level.
    fn set_level(&mut self, level: u16);
    /// How many entries there are.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// One entry.
    fn entry(&self, index: usize) -> Option<(K::Key, Pointer<K>)>;
    /// Replaces a key.
    fn set_key(&mut self, index: usize, key: &K::Key);
    /// Puts an entry before the one at `index`, or behind the last.
    fn insert(&mut self, index: usize, key: &K::Key, pointer: &Pointer<K>);
    /// Takes an entry out.
    fn remove(&mut self, index: usize);
}

/// For trees whose root is a block.
#[derive(Debug, Clone, Copy)]
pub enum NoInlineRoot {}

impl<K: BtreeKind> InlineRoot<K> for NoInlineRoot {
    fn level(&self) -> u16 {
        match *self {}
    }
    fn set_level(&mut self, _: u16) {}
    fn len(&self) -> usize {
        match *self {}
    }
    fn entry(&self, _: usize) -> Option<(K::Key, Pointer<K>)> {
        match *self {}
    }
    fn set_key(&mut self, _: usize, _: &K::Key) {}
    fn insert(&mut self, _: usize, _: &K::Key, _: &Pointer<K>) {}
    fn remove(&mut self, _: usize) {}
}
