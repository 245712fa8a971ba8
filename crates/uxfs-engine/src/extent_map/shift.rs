//! Other file blocks for the same blocks on disk: what collapsing and inserting of ranges is made of.

use uxfs_format::{btree::extent_map::Extent, inode::Fork, units::FileBlock};

use super::list;
use crate::extent_map::editor::ExtentMapEditor;
use crate::inode::edit::EditInode;
use uxfs_volume::error::{OperationError, Result};

impl ExtentMapEditor<'_, '_> {
    /// Moves an extent of a file's data, by its index, over holes to other file blocks. It becomes one with the neighbour
    /// that it comes to, where that continues it; gives how many extents there are less.
    ///
    /// # Errors
    /// No such extent; damage; the device.
    #[doc(alias = "xfs_bmap_shift_extents")]
    pub fn shift_extent(
        &mut self,
        inode: &mut EditInode,
        index: usize,
        file_block: FileBlock,
    ) -> Result<usize> {
        let extents = inode.extents(Fork::Data);
        let extent = extents.get(index).ok_or(OperationError::NotFound)?;
        let splice = list::shift(extents, index, file_block).ok_or(OperationError::NotFound)?;
        self.splice_extents(inode, Fork::Data, &splice)?;
        self.transaction.note_moved_contents(extent.start, extent.length_blocks);
        self.transaction.defer_unmap(inode, Fork::Data, &extent)?;
        self.transaction.defer_map(inode, Fork::Data, &Extent { file_block, ..extent })?;
        Ok(splice.removed.saturating_sub(splice.added().len()))
    }

    /// Divides the extent of a file's data that holds `file_block` and the one before it.
    ///
    /// # Errors
    /// No space for the tree; more extents than the inode can count; damage; the device.
    #[doc(alias = "xfs_bmap_split_extent")]
    pub fn divide_extent(&mut self, inode: &mut EditInode, file_block: FileBlock) -> Result<()> {
        match list::division(inode.extents(Fork::Data), file_block) {
            Some(splice) => self.splice_extents(inode, Fork::Data, &splice),
            None => Ok(()),
        }
    }
}
