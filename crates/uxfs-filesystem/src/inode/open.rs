//! Opening inodes of a live file system by their numbers.

use uxfs_engine::transaction::{Transaction, reservation::Operation};
use uxfs_format::units::InodeNumber;

use super::table::{InodeHandle, InodeWriteGuard};
use crate::filesystem::FileSystem;
use uxfs_volume::error::{OperationError, Result};

impl FileSystem {
    /// Opens an inode by its number, taken on trust: as directories have it. It stays in memory, and stays an inode, as
    /// long as the handle or a clone of it.
    ///
    /// # Errors
    /// [`OperationError::NoSuchInode`]; damage; the device.
    #[doc(alias = "xfs_iget")]
    #[inline]
    pub fn open(&self, number: InodeNumber) -> Result<InodeHandle> {
        self.inode_table().open(number, || self.load_inode_to_change(number))
    }

    /// Opens an inode by the number and generation of a file handle that comes from outside: asks the inode index first, where the
    /// inode is not in memory.
    ///
    /// # Errors
    /// [`OperationError::Stale`] where there is no such inode any more, or another; damage; the device.
    #[doc(alias = "xfs_nfs_get_inode")]
    pub fn open_handle(&self, number: InodeNumber, generation: u32) -> Result<InodeHandle> {
        let stale = |error: uxfs_volume::error::Error| match error {
            uxfs_volume::error::Error::Operation(OperationError::NoSuchInode) => OperationError::Stale.into(),
            other => other,
        };
        let handle = self.open_if_in_use(number).map_err(stale)?;
        if handle.read().core.generation.get() != generation {
            return Err(OperationError::Stale.into());
        }
        Ok(handle)
    }

    /// Opens an inode by a number that may be out of date: of a chunk that has been freed the device still holds what
    /// inodes were last.
    ///
    /// # Errors
    /// [`OperationError::NoSuchInode`]; damage; the device.
    pub fn open_if_in_use(&self, number: InodeNumber) -> Result<InodeHandle> {
        self.inode_table().open(number, || {
            if !is_inode_in_use(self, number)? {
                return Err(OperationError::NoSuchInode.into());
            }
            self.load_inode_to_change(number)
        })
    }

    /// The root directory, opened.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn open_root(&self) -> Result<InodeHandle> {
        self.open(self.geometry().root_inode)
    }

    /// Locks two inodes for changes, in the order that all keep. The second is `None` where both are the same.
    pub fn write_two<'a>(
        &self,
        first: &'a InodeHandle,
        second: &'a InodeHandle,
    ) -> (InodeWriteGuard<'a>, Option<InodeWriteGuard<'a>>) {
        if first.is_same(second) {
            return (first.write(), None);
        }
        if first.number() < second.number() {
            let guard = first.write();
            return (guard, Some(second.write()));
        }
        let guard = second.write();
        (first.write(), Some(guard))
    }

    /// Inodes that are in memory.
    pub fn inodes_in_memory(&self) -> usize {
        self.inode_table().len()
    }
}

/// Whether the inode index says that an inode is in use: in a file system that may be changing, under the lock of
/// its group.
fn is_inode_in_use(file_system: &FileSystem, number: InodeNumber) -> Result<bool> {
    let Some((group, inode)) = file_system.geometry().split_inode_number(number) else { return Ok(false) };
    let mut transaction = Transaction::begin_for(file_system, Operation::Release)?;
    let chunk = transaction.group(group)?.inode_index().chunk_of(inode)?;
    transaction.commit()?;
    Ok(chunk.is_some_and(|chunk| chunk.index_of(inode).is_some_and(|index| chunk.is_allocated(index))))
}
