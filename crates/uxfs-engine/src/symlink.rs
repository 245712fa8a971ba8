//! Changing what a symbolic link says.

use uxfs_format::{
    fault::Structure,
    inode::{
        FileType, Fork,
        symlink::{self, SymlinkFault, target_blocks, verify_target},
    },
    name_tree::header_edit::BlockIdentity,
    units::FileBlock,
};

use crate::extent_map::sectors::fork_sectors;
use crate::{
    extent_map::map::Mapping,
    inode::edit::{EditInode, InodeFork},
    transaction::Transaction,
};
use uxfs_volume::error::{OperationError, Result};

/// Where a target begins.
const START: FileBlock = FileBlock::new(0);

/// Changes the targets of symbolic links.
#[derive(Debug)]
pub struct SymlinkEditor<'t, 'fs> {
    pub(crate) transaction: &'t mut Transaction<'fs>,
}

impl<'fs> Transaction<'fs> {
    /// To change the targets of symbolic links.
    #[inline]
    pub fn symlinks(&mut self) -> SymlinkEditor<'_, 'fs> {
        SymlinkEditor { transaction: self }
    }
}

impl SymlinkEditor<'_, '_> {
    /// Gives a symbolic link that has none its target: inside the inode if it fits, else in blocks of its own. The inode
    /// is not stored.
    ///
    /// # Errors
    /// No symbolic link, or one with a target; 0 or more than 1023 bytes, or a zero byte; no space; damage; the device.
    #[doc(alias = "xfs_symlink_write_target")]
    pub fn set_symlink_target(&mut self, inode: &mut EditInode, target: &[u8]) -> Result<()> {
        if inode.file_type() != Some(FileType::SymbolicLink) {
            return Err(OperationError::WrongFileType.into());
        }
        verify_target(target).map_err(|fault| match fault {
            SymlinkFault::TargetLength { length_bytes } if length_bytes > 0 => OperationError::TargetTooLong,
            _ => OperationError::InvalidName,
        })?;
        let has_none = match &inode.data {
            InodeFork::Local(bytes) => bytes.is_empty(),
            InodeFork::Extents(extents) => extents.extents.is_empty(),
            InodeFork::Device(_) => false,
        };
        if !has_none {
            return Err(OperationError::Exists.into());
        }
        let room = inode.fork_room_bytes(Fork::Data, self.transaction.engine().geometry());
        if target.len() <= room as usize {
            inode.data = InodeFork::Local(target.to_vec());
        } else {
            inode.data = InodeFork::empty();
            self.write_target(inode, target)?;
        }
        inode.set_size_bytes(target.len() as u64);
        Ok(())
    }

    /// Takes the target of a symbolic link away, before the inode is freed.
    ///
    /// # Errors
    /// No symbolic link; damage; the device.
    #[doc(alias = "xfs_inactive_symlink")]
    pub fn remove_symlink_target(&mut self, inode: &mut EditInode) -> Result<()> {
        if inode.file_type() != Some(FileType::SymbolicLink) {
            return Err(OperationError::WrongFileType.into());
        }
        if let InodeFork::Extents(_) = &inode.data {
            let geometry = self.transaction.engine().geometry();
            let extents = inode.extents(Fork::Data);
            let count = extents.last().map_or(0, |extent| extent.end().get());
            // A target has two blocks at most; a damaged link is cut without a look at its buffers.
            if let Ok(count) = u32::try_from(count)
                && count <= target_blocks(symlink::TARGET_END_BYTES, geometry)
                && let Some(pieces) =
                    fork_sectors(self.transaction.engine().geometry(), inode, Fork::Data, START, count)?
            {
                for piece in pieces.iter() {
                    self.transaction.buffers().invalidate(std::slice::from_ref(piece));
                }
            }
            self.transaction.extent_maps().unmap_blocks(inode, Fork::Data, START, count)?;
        }
        inode.data = InodeFork::empty();
        inode.set_size_bytes(0);
        Ok(())
    }

    /// Moves a target that lies in the inode into blocks of its own, because attributes need the room.
    #[doc(alias = "xfs_symlink_local_to_remote")]
    pub fn move_target_out(&mut self, inode: &mut EditInode) -> Result<()> {
        match std::mem::replace(&mut inode.data, InodeFork::empty()) {
            InodeFork::Local(target) => self.write_target(inode, &target),
            other => {
                inode.data = other;
                Ok(())
            }
        }
    }

    /// Writes a target along the extents of an empty data fork: each is one buffer with a header of its own.
    fn write_target(&mut self, inode: &mut EditInode, target: &[u8]) -> Result<()> {
        let geometry = self.transaction.engine().geometry();
        // Shorter than 1024 bytes.
        let blocks = target_blocks(target.len() as u32, geometry);
        self.transaction.extent_maps().map_blocks(
            inode,
            Fork::Data,
            START,
            blocks.into(),
            Mapping::default(),
        )?;
        let pieces = fork_sectors(self.transaction.engine().geometry(), inode, Fork::Data, START, blocks)?
            .ok_or(OperationError::NoSpace)?;
        let (mut rest, mut offset_bytes) = (target, 0_u32);
        for (sector, length_bytes) in pieces.iter() {
            let identity = BlockIdentity::new(geometry, *sector, inode.number);
            let mut buffer = self.transaction.buffers().create(Structure::Symlink, *sector, *length_bytes)?;
            let written = symlink::write_piece(buffer.edit(), &identity, offset_bytes, rest);
            rest = rest.get(written..).unwrap_or_default();
            offset_bytes += written as u32;
        }
        Ok(())
    }
}
