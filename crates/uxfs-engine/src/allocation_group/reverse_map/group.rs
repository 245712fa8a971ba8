//! Owners of the blocks of a group that is being changed.

use uxfs_format::{
    btree::reverse_map::{Mapping, Owner, ReverseMap},
    inode::Fork,
    log::reverse_map::ReverseMapOperation,
    units::{AgBlock, InodeNumber},
};

use super::edit::{self, Sharing};
use crate::{
    allocation_group::{group_edit::GroupEdit, trees::GroupCursor},
    transaction::deferred::queue::FreedOwner,
};
use uxfs_volume::error::Result;

impl<'fs> GroupEdit<'_, 'fs> {
    /// A cursor in the tree of owners; `None` in a file system without one. Files may have more than the tree has been
    /// told yet; for all other owners it is complete.
    fn owner_cursor(&mut self) -> Option<GroupCursor<'_, 'fs, ReverseMap>> {
        let has_owners = self.volume.geometry().features.has_reverse_map();
        has_owners.then(|| self.tree())
    }

    /// Brings the free list to its length before the trees of the group change. In a full group it stays shorter: blocks
    /// must lose their owners there too, and mostly no tree grows by that.
    pub fn ready_free_list(&mut self) -> Result<()> {
        self.fix_free_list().map(drop)
    }

    /// Gives blocks to an owner that is no file. Without a reverse map this does nothing, as all functions here.
    ///
    /// # Errors
    /// Some of them have an owner; damage; the device.
    #[doc(alias = "xfs_rmap_alloc")]
    pub fn add_owner(&mut self, start: AgBlock, length_blocks: u32, owner: Owner) -> Result<()> {
        self.map_owner(Mapping::of_group(start, length_blocks, owner), Sharing::Exclusive)
    }

    /// Takes blocks from an owner that is no file.
    ///
    /// # Errors
    /// It does not have them; damage; the device.
    #[doc(alias = "xfs_rmap_free")]
    pub fn remove_owner(&mut self, start: AgBlock, length_blocks: u32, owner: Owner) -> Result<()> {
        self.unmap_owner(Mapping::of_group(start, length_blocks, owner), Sharing::Exclusive)
    }

    /// Gives a block to the extent map of a fork.
    ///
    /// # Errors
    /// As [`add_owner`](Self::add_owner).
    pub fn add_extent_map_block(&mut self, block: AgBlock, inode: InodeNumber, fork: Fork) -> Result<()> {
        let mapping = Mapping::of_extent_map(block, inode, fork == Fork::Attribute);
        self.map_owner(mapping, Sharing::Exclusive)
    }

    /// Removes the reverse-map record of blocks, if they have one, before they become free.
    pub fn remove_freed_owner(
        &mut self,
        start: AgBlock,
        length_blocks: u32,
        owner: FreedOwner,
    ) -> Result<()> {
        match owner {
            FreedOwner::NoOwner => Ok(()),
            FreedOwner::Group(owner) => self.remove_owner(start, length_blocks, owner),
            FreedOwner::ExtentMap { inode, fork } => {
                let first = Mapping::of_extent_map(start, inode, fork == Fork::Attribute);
                self.unmap_owner(Mapping { length_blocks, ..first }, Sharing::Exclusive)
            }
            FreedOwner::Unknown => {
                self.flush_reverse_map()?;
                match self.owner_cursor() {
                    Some(mut cursor) => edit::unmap_unknown(&mut cursor, start, length_blocks),
                    None => Ok(()),
                }
            }
        }
    }

    /// Does what an intent or deferred work says.
    #[inline]
    pub fn change_owner(&mut self, operation: ReverseMapOperation, mapping: Mapping) -> Result<()> {
        match operation {
            ReverseMapOperation::Map => return self.map_owner_later(mapping),
            ReverseMapOperation::Allocate | ReverseMapOperation::Free => {}
            _ => self.flush_reverse_map()?,
        }
        self.ready_free_list()?;
        match operation {
            ReverseMapOperation::Map | ReverseMapOperation::Allocate => {
                self.map_owner(mapping, Sharing::Exclusive)
            }
            ReverseMapOperation::MapShared => self.map_owner(mapping, Sharing::Possible),
            ReverseMapOperation::Unmap | ReverseMapOperation::Free => {
                self.unmap_owner(mapping, Sharing::Exclusive)
            }
            ReverseMapOperation::UnmapShared => self.unmap_owner(mapping, Sharing::Possible),
            ReverseMapOperation::Convert => self.convert_owner(mapping, Sharing::Exclusive),
            ReverseMapOperation::ConvertShared => self.convert_owner(mapping, Sharing::Possible),
        }
    }

    fn map_owner(&mut self, mapping: Mapping, sharing: Sharing) -> Result<()> {
        match self.owner_cursor() {
            Some(mut cursor) => edit::map(&mut cursor, mapping, sharing),
            None => Ok(()),
        }
    }

    fn unmap_owner(&mut self, mapping: Mapping, sharing: Sharing) -> Result<()> {
        match self.owner_cursor() {
            Some(mut cursor) => edit::unmap(&mut cursor, mapping, sharing),
            None => Ok(()),
        }
    }

    fn convert_owner(&mut self, mapping: Mapping, sharing: Sharing) -> Result<()> {
        match self.owner_cursor() {
            Some(mut cursor) => edit::convert(&mut cursor, mapping, sharing),
            None => Ok(()),
        }
    }
}
