//! The root of a btree and its owner.

use std::sync::Arc;

use uxfs_format::{
    btree::{
        BlockPointer, BtreeKind,
        block::{Address, Pointer},
        block_header::ShortBlockHeader,
        extent_map::{ExtentMap, ExtentMapRoot},
    },
    fault::{Corruption, Fault, Location},
    units::{AgBlock, AgNumber, InodeNumber, Sector},
};

use super::{Cursor, Records};
use crate::{error::Error, volume::Volume};

/// One tree of a file system. Cheap to make; nothing is read before a cursor moves.
#[derive(Debug, Clone)]
pub struct Tree<'fs, K: BtreeKind> {
    volume: &'fs Volume,
    owner: Owner,
    root: Root<K>,
}

/// Whom the blocks of a tree belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Group(AgNumber),
    Inode(InodeNumber),
}

#[derive(Debug, Clone)]
pub(crate) enum Root<K: BtreeKind> {
    /// A block, and the level that the group's header gives it.
    Block { pointer: Pointer<K>, level: u16 },
    /// Entries inside an inode.
    Entries(Arc<Entries<K>>),
}

/// A node that is not a block.
#[derive(Debug)]
pub(crate) struct Entries<K: BtreeKind> {
    pub level: u16,
    pub keys: Vec<K::Key>,
    pub pointers: Vec<Pointer<K>>,
}

impl<'fs, K: BtreeKind<Header = ShortBlockHeader>> Tree<'fs, K> {
    /// A tree of a group, with root and number of levels (at least 1) as the group's verified header says.
    pub fn of_group(volume: &'fs Volume, group: AgNumber, root: AgBlock, levels: u32) -> Self {
        let level = u16::try_from(levels.saturating_sub(1)).unwrap_or(u16::MAX);
        let root = Root::Block { pointer: Pointer::<K>::from_address(root), level };
        Self { volume, owner: Owner::Group(group), root }
    }
}

impl<'fs> Tree<'fs, ExtentMap> {
    /// The extent map of an inode, with the verified root in its fork.
    pub fn of_inode(volume: &'fs Volume, inode: InodeNumber, root: &ExtentMapRoot<'_>) -> Self {
        let (keys, pointers) = (root.keys().to_vec(), root.pointers().to_vec());
        let entries = Entries { level: root.level(), keys, pointers };
        Self { volume, owner: Owner::Inode(inode), root: Root::Entries(Arc::new(entries)) }
    }
}

impl<'fs, K: BtreeKind> Tree<'fs, K> {
    /// A cursor that is nowhere yet.
    pub fn cursor(&self) -> Cursor<'fs, K> {
        Cursor::new(self.clone())
    }

    /// All records in order, with readahead.
    pub fn records(&self) -> Records<'fs, K> {
        Records::new(self.cursor())
    }

    /// The file system.
    pub fn volume(&self) -> &'fs Volume {
        self.volume
    }

    pub(crate) fn root(&self) -> &Root<K> {
        &self.root
    }

    /// The owner field of all blocks of the btree.
    pub(crate) fn owner_number(&self) -> u64 {
        match self.owner {
            Owner::Group(group) => group.get().into(),
            Owner::Inode(inode) => inode.get(),
        }
    }

    fn group(&self) -> Option<AgNumber> {
        match self.owner {
            Owner::Group(group) => Some(group),
            Owner::Inode(_) => None,
        }
    }

    pub(crate) fn sector(&self, pointer: Pointer<K>) -> Option<Sector> {
        pointer.sector(self.volume.geometry(), self.group())
    }

    /// Whether a pointer can lead to a block of the tree.
    pub(crate) fn is_possible(&self, pointer: Pointer<K>) -> bool {
        pointer.is_possible(self.volume.geometry(), self.group())
    }

    /// Blocks that the tree cannot have more of.
    pub(crate) fn most_blocks(&self) -> u64 {
        let geometry = self.volume.geometry();
        let in_group = self.group().and_then(|group| geometry.group_length_blocks(group));
        in_group.map_or(geometry.data_blocks, u64::from)
    }

    /// A fault of the block at `address`, or of the tree as a whole.
    pub(crate) fn damaged(&self, address: Option<Address<K>>, fault: impl Into<Fault>) -> Error {
        let pointer = address.map(Pointer::<K>::from_address);
        let mut location = match self.owner {
            Owner::Group(group) => Location { group: Some(group), ..Location::default() },
            Owner::Inode(inode) => Location::of_inode(inode),
        };
        location.sector = pointer.and_then(|pointer| self.sector(pointer));
        if let Owner::Group(_) = self.owner {
            let block = pointer.and_then(|pointer| u32::try_from(pointer.raw()).ok());
            location.group_block = block.map(AgBlock::new);
        }
        Corruption::new(K::STRUCTURE, location, fault).into()
    }
}
