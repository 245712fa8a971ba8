//! Taking names away, and the files that have none left.

use zerocopy::big_endian::U32;

use super::create::pointer_to;
use crate::bulk::BulkFiles;
use crate::inode::edit::EditInode;
use uxfs_volume::{
    error::{OperationError, Result},
    inode::FileType,
};

impl BulkFiles<'_, '_> {
    /// Takes a name out of a directory; a file whose last name that was is freed with all that it holds. A directory
    /// must be empty. The caller stores `parent`.
    ///
    /// # Errors
    /// No such name; a directory that is not empty; damage; the device.
    pub fn remove(&mut self, parent: &mut EditInode, name: &[u8]) -> Result<()> {
        let found =
            self.transaction.directories().lookup_name(parent, name)?.ok_or(OperationError::NotFound)?;
        let mut inode = self.transaction.load_inode(found.inode)?;
        let is_directory = inode.file_type() == Some(FileType::Directory);
        if is_directory && !self.transaction.directories().is_directory_empty(&inode)? {
            return Err(OperationError::NotEmpty.into());
        }
        self.transaction.directories().remove_name(parent, name)?;
        if is_directory {
            parent.core.link_count = U32::new(parent.core.link_count.get().saturating_sub(1));
            return self.transaction.inodes().destroy(&mut inode);
        }
        let links = inode.core.link_count.get().saturating_sub(1);
        inode.core.link_count = U32::new(links);
        if links == 0 {
            return self.transaction.inodes().destroy(&mut inode);
        }
        self.transaction.parent_pointers().remove_parent_pointer(&mut inode, pointer_to(parent, name))?;
        self.transaction.store_inode(&mut inode)
    }
}
