//! Whether blocks may be written in place.

use uxfs_format::{btree::extent_map::Extent, inode::Fork};

use super::{FileEdit, pieces::Piece};
use uxfs_engine::transaction::{Transaction, reservation::Operation};
use uxfs_volume::error::Result;

impl FileEdit<'_> {
    /// Checks that the blocks of a piece, which no other file shares, are the file's own: on a damaged image an extent may lie
    /// over another file or over metadata. Each extent is compared once.
    ///
    /// # Errors
    /// They are another owner's, or free; damage; the device.
    #[inline]
    pub(super) fn require_own(&mut self, piece: &Piece) -> Result<()> {
        match piece.extent() {
            Some(extent) if !self.inode.extent_hint.own.contains(&extent) => self.compare_owners(extent),
            _ => Ok(()),
        }
    }

    fn compare_owners(&mut self, part: Extent) -> Result<()> {
        // Of an extent that may be shared in part only the part that is known to be alone.
        let whole = self.inode.extents(Fork::Data).lookup(part.file_block);
        let extent = whole.filter(|_| !self.inode.may_share_extents()).unwrap_or(part);
        let mut transaction = Transaction::begin_for(self.file_system, Operation::Release)?;
        let compared = transaction.extent_maps().require_own_blocks(self.inode, &extent);
        transaction.commit()?;
        compared?;
        self.inode.extent_hint.own.add(&extent);
        Ok(())
    }
}
