//! Mappings that come and go while their blocks stay in use: what clones and exchanges of contents are made of.

use uxfs_format::{
    btree::extent_map::{Extent, ExtentMapFault},
    fault::{Corruption, Location, Structure},
    inode::Fork,
    log::extent_map::ExtentMapOperation,
    units::InodeNumber,
};

use super::list;
use crate::extent_map::editor::ExtentMapEditor;
use crate::inode::edit::EditInode;
use uxfs_volume::error::{OperationError, Result};

impl ExtentMapEditor<'_, '_> {
    /// Removes a mapping. Its blocks stay in use: the caller knows their new owner.
    ///
    /// # Errors
    /// The fork does not map these file blocks to these blocks; more extents than the inode can count, where one is split;
    /// damage; the device.
    pub fn unmap_existing(&mut self, inode: &mut EditInode, fork: Fork, extent: &Extent) -> Result<()> {
        let (start, end) = (extent.file_block, extent.end());
        let extents = inode.extents(fork);
        let range = list::overlapping(extents, start, end);
        let found = extents.get(range.start).filter(|_| range.len() == 1);
        let is_mapped = found.is_some_and(|found| list::part_of(&found, start, end) == Some(*extent));
        if !is_mapped {
            let Extent { file_block, start, length_blocks, .. } = *extent;
            let fault = ExtentMapFault::NotMapped { file_block, start, length_blocks };
            let location = Location::of_inode(inode.number);
            return Err(Corruption::new(Structure::ExtentMap, location, fault).into());
        }
        let splice = list::removal(extents, start, end);
        self.splice_extents(inode, fork, &splice)?;
        inode.add_blocks(-extent.length_blocks.cast_signed());
        self.transaction.defer_unmap(inode, fork, extent)
    }

    /// Replaces a mapping of the same blocks of a file's data. The caller defers the changes of the blocks' owners, in the
    /// order that they need.
    ///
    /// # Errors
    /// Not a part of one extent ([`NotFound`](OperationError::NotFound)); no space for the tree; more extents than the
    /// inode can count; damage; the device.
    pub fn replace_mapping(&mut self, inode: &mut EditInode, new: &Extent) -> Result<()> {
        let splice = list::replacement(inode.extents(Fork::Data), new).ok_or(OperationError::NotFound)?;
        self.splice_extents(inode, Fork::Data, &splice)
    }

    /// Replaces a run of blocks of a fork: `old` is a part of one extent, or a hole, and so is `new`. The caller defers the
    /// changes of the blocks' owners.
    ///
    /// # Errors
    /// As [`replace_mapping`](Self::replace_mapping).
    pub fn put_mapping(
        &mut self,
        inode: &mut EditInode,
        fork: Fork,
        old: Option<Extent>,
        new: Option<Extent>,
    ) -> Result<()> {
        let extents = inode.extents(fork);
        let splice = match (old, new) {
            (Some(_), Some(new)) => list::replacement(extents, &new).ok_or(OperationError::NotFound)?,
            (Some(old), None) => list::removal(extents, old.file_block, old.end()),
            (None, Some(new)) => list::insertion(extents, &new).ok_or(OperationError::Exists)?,
            (None, None) => return Ok(()),
        };
        self.splice_extents(inode, fork, &splice)?;
        let blocks = |extent: Option<Extent>| extent.map_or(0, |extent| extent.length_blocks.cast_signed());
        inode.add_blocks(blocks(new) - blocks(old));
        Ok(())
    }

    /// Does what an intent or deferred work says.
    pub fn change_extent_map(
        &mut self,
        operation: ExtentMapOperation,
        inode: InodeNumber,
        fork: Fork,
        extent: &Extent,
    ) -> Result<()> {
        let mut inode = self.transaction.load_inode(inode)?;
        match operation {
            ExtentMapOperation::Map => self.map_existing(&mut inode, fork, *extent)?,
            ExtentMapOperation::Unmap => self.unmap_existing(&mut inode, fork, extent)?,
        }
        self.transaction.store_inode(&mut inode)
    }
}
