//! Truncating and extending a file.

use std::ops::Range;

use uxfs_format::{
    btree::extent_map::MAX_FILE_BLOCKS,
    inode::{Fork, InodeFlags},
    units::FileBlock,
};

use super::{FileEdit, Touch};
use crate::filesystem::FileSystem;
use uxfs_engine::extent_map::{ATOMIC_EXTENTS, STEP_EXTENTS};
use uxfs_engine::{
    inode::edit::EditInode,
    transaction::{Transaction, reservation::Operation},
};
use uxfs_volume::error::{OperationError, Result};

impl FileEdit<'_> {
    /// Sets the size. Blocks past a smaller size are freed, many of them in further transactions after the size has changed;
    /// a larger size adds zeros.
    ///
    /// # Errors
    /// [`FileTooLarge`](OperationError::FileTooLarge); [`NoSpace`](OperationError::NoSpace), where the last block is
    /// shared and the file becomes larger; damage; the device.
    #[doc(alias = "xfs_setattr_size")]
    pub fn set_size(&mut self, size_bytes: u64, touch: Touch) -> Result<()> {
        if size_bytes > self.file_system.largest_file_bytes() {
            return Err(OperationError::FileTooLarge.into());
        }
        let old_bytes = self.inode.size_bytes();
        if size_bytes > old_bytes {
            self.prepare_growth(size_bytes, size_bytes)?;
            self.inode.set_size_bytes(size_bytes);
            return self.touch(touch);
        }
        if size_bytes == old_bytes {
            self.free_behind_end()?;
            // The size is the same, but a user without privileges may have asked.
            return match touch.clears_set_id {
                Some(_) => self.touch(Touch { time: None, ..touch }),
                None => Ok(()),
            };
        }
        self.inode.set_size_bytes(size_bytes);
        let gone = self.range_behind_end();
        if self.extents_in(&gone) == 0 {
            return self.touch(touch);
        }
        self.release(&gone, touch)
    }

    /// Frees speculative preallocation past EOF when the last handle of the file goes. Space that `fallocate` asked for
    /// stays.
    ///
    /// # Errors
    /// Damage; the device.
    #[doc(alias = "xfs_free_eofblocks")]
    pub fn free_preallocation(&mut self) -> Result<()> {
        let flags = self.inode.core.flags();
        if flags.intersects(InodeFlags::PREALLOCATED | InodeFlags::APPEND) {
            return Ok(());
        }
        self.free_behind_end()
    }

    fn free_behind_end(&mut self) -> Result<()> {
        if !has_blocks_behind_end(self.file_system, self.inode) {
            return Ok(());
        }
        let gone = self.range_behind_end();
        self.release(&gone, Touch::NOTHING)
    }

    fn range_behind_end(&self) -> Range<FileBlock> {
        self.block_behind(self.inode.size_bytes())..FileBlock::new(MAX_FILE_BLOCKS)
    }

    /// Frees all blocks of `gone`, in transactions that need no space.
    fn release(&mut self, gone: &Range<FileBlock>, touch: Touch) -> Result<()> {
        let mut touch = touch;
        loop {
            let count = self.extents_in(gone);
            let most = if count <= ATOMIC_EXTENTS { ATOMIC_EXTENTS } else { STEP_EXTENTS };
            let mut tx = Transaction::begin_for(self.file_system, Operation::Release)?;
            let is_done = tx.extent_maps().unmap_last(self.inode, gone.clone(), most)?;
            self.end_step(&mut tx, touch)?;
            if is_done {
                return Ok(());
            }
            touch = Touch::NOTHING;
        }
    }
}

/// Whether a file has blocks past EOF.
pub(super) fn has_blocks_behind_end(file_system: &FileSystem, inode: &EditInode) -> bool {
    let end = inode.extents(Fork::Data).end().get();
    end > inode.size_bytes().div_ceil(file_system.geometry().block_size_bytes.into())
}
