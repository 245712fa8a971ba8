//! One node or leaf of a tree as a cursor holds it.

use std::sync::Arc;

use uxfs_format::btree::{
    BlockPointer, BtreeKind,
    block::{Address, BtreeBlock, Pointer},
    block_header::BlockHeader,
    check::BtreeFault,
};
use uxfs_format::fault::HeaderFault;

use super::tree::{Entries, Root, Tree};
use crate::{error::Result, volume::MetadataBuffer};

/// A block in memory, or the entries inside an inode.
#[derive(Debug, Clone)]
pub(super) enum Block<K: BtreeKind> {
    Buffer { buffer: MetadataBuffer, address: Address<K> },
    Entries(Arc<Entries<K>>),
}

impl<K: BtreeKind> Block<K> {
    /// Reads the root.
    pub fn root(tree: &Tree<'_, K>) -> Result<Self> {
        match tree.root() {
            Root::Block { pointer, level } => {
                let block = Self::read(tree, *pointer, *level)?;
                block.verify_root(tree)?;
                Ok(block)
            }
            Root::Entries(entries) => Ok(Self::Entries(Arc::clone(entries))),
        }
    }

    /// Reads a block and compares owner and level with what led to it.
    pub fn read(tree: &Tree<'_, K>, pointer: Pointer<K>, expected: u16) -> Result<Self> {
        let address = pointer.address();
        let sector = match tree.sector(pointer) {
            Some(sector) if tree.is_possible(pointer) => sector,
            _ => return Err(tree.damaged(None, BtreeFault::Pointer { index: 0, block: pointer.raw() })),
        };
        let length_bytes = tree.volume().geometry().block_size_bytes;
        let buffer = tree.volume().metadata().read(K::STRUCTURE, sector, length_bytes)?;
        let block = Self::Buffer { buffer, address };
        let (found_owner, expected_owner) =
            (block.view().map_or(0, |view| view.header().owner()), tree.owner_number());
        if found_owner != expected_owner {
            let fault = HeaderFault::WrongOwner { found: found_owner, expected: expected_owner };
            return Err(tree.damaged(Some(address), fault));
        }
        let found = block.level();
        if found != expected {
            return Err(tree.damaged(Some(address), BtreeFault::WrongLevel { found, expected }));
        }
        Ok(block)
    }

    /// A root has no siblings.
    fn verify_root(&self, tree: &Tree<'_, K>) -> Result<()> {
        let Some(view) = self.view() else { return Ok(()) };
        let siblings = [("left", view.left_sibling()), ("right", view.right_sibling())];
        for (side, sibling) in siblings {
            if let Some(sibling) = sibling {
                let found = Pointer::<K>::from_address(sibling).raw();
                let fault = BtreeFault::WrongSibling { side, found, expected: Self::NO_SIBLING };
                return Err(tree.damaged(self.address(), fault));
            }
        }
        Ok(())
    }

    /// "None" in messages, whatever the width of the tree's pointers.
    pub const NO_SIBLING: u64 = u64::MAX;

    pub fn view(&self) -> Option<BtreeBlock<'_, K>> {
        match self {
            Self::Buffer { buffer, .. } => BtreeBlock::parse(buffer).ok(),
            Self::Entries(_) => None,
        }
    }

    pub fn address(&self) -> Option<Address<K>> {
        match self {
            Self::Buffer { address, .. } => Some(*address),
            Self::Entries(_) => None,
        }
    }

    pub fn level(&self) -> u16 {
        match self {
            Self::Buffer { .. } => self.view().map_or(0, |view| view.level()),
            Self::Entries(entries) => entries.level,
        }
    }

    /// Records or entries.
    pub fn len(&self) -> usize {
        match self {
            Self::Buffer { .. } => self.view().map_or(0, |view| view.len()),
            Self::Entries(entries) => entries.pointers.len().min(entries.keys.len()),
        }
    }

    pub fn records(&self) -> &[K::Record] {
        self.view().map_or(&[], |view| view.records())
    }

    pub fn keys(&self) -> &[K::Key] {
        match self {
            Self::Buffer { .. } => self.view().map_or(&[], |view| view.keys()),
            Self::Entries(entries) => &entries.keys,
        }
    }

    pub fn pointers(&self) -> &[Pointer<K>] {
        match self {
            Self::Buffer { .. } => self.view().map_or(&[], |view| view.pointers()),
            Self::Entries(entries) => &entries.pointers,
        }
    }

    /// Where the first record or entry stands.
    pub fn first_position(&self) -> Option<K::Position> {
        let record = self.records().first().map(K::position_of_record);
        record.or_else(|| self.keys().first().map(K::position_of_key))
    }

    /// How many records or entries stand at or before `position`.
    pub fn count_up_to(&self, position: &K::Position) -> usize {
        let records = self.records();
        if records.is_empty() {
            return self.keys().partition_point(|key| K::position_of_key(key) <= *position);
        }
        records.partition_point(|record| K::position_of_record(record) <= *position)
    }
}
