//! Written and unwritten extents.

use uxfs_format::{
    btree::extent_map::{Extent, MAX_FILE_BLOCKS},
    inode::{FileType, Fork},
    units::FileBlock,
};

use super::list;
use crate::extent_map::editor::ExtentMapEditor;
use crate::inode::edit::EditInode;
use uxfs_volume::error::{OperationError, Result};

impl ExtentMapEditor<'_, '_> {
    /// Makes the mapped blocks of a range of a regular file written, once their contents have been written, or
    /// unwritten. Holes stay holes.
    ///
    /// # Errors
    /// No regular file; no space for the btree; more extents than the inode can count; damage; the device.
    #[doc(alias = "xfs_bmap_add_extent_unwritten_real")]
    pub fn convert_blocks(
        &mut self,
        inode: &mut EditInode,
        file_block: FileBlock,
        length_blocks: u64,
        is_unwritten: bool,
    ) -> Result<()> {
        if inode.file_type() != Some(FileType::Regular) {
            return Err(OperationError::WrongFileType.into());
        }
        let end = file_block.get().saturating_add(length_blocks).min(MAX_FILE_BLOCKS);
        let (mut next, end) = (file_block, FileBlock::new(end));
        while let Some((part, splice)) = list::conversion(inode.extents(Fork::Data), next, end, is_unwritten)
        {
            self.splice_extents(inode, Fork::Data, &splice)?;
            self.transaction.defer_convert(inode, Fork::Data, &Extent { is_unwritten, ..part })?;
            next = part.end();
        }
        Ok(())
    }
}
