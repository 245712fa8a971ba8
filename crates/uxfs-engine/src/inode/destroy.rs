//! Freeing an inode with all that it holds.

use uxfs_format::{
    btree::extent_map::MAX_FILE_BLOCKS,
    inode::{FileType, Fork},
    units::FileBlock,
};

use super::edit::EditInode;
use crate::inode::allocator::InodeAllocator;
use uxfs_volume::error::Result;

/// Extents that are given back in one transaction: as many as an intent to free extents holds.
#[doc(alias = "XFS_EFI_MAX_FAST_EXTENTS")]
pub const STEP_EXTENTS: usize = 16;
/// Blocks of an attribute fork that are given back in one transaction: each is a buffer to be cancelled.
pub const STEP_BLOCKS: u64 = 64;

impl InodeAllocator<'_, '_> {
    /// Frees an unlinked inode with all that it holds. Where that is much, the caller has freed most of it before.
    pub fn destroy(&mut self, inode: &mut EditInode) -> Result<()> {
        self.transaction.attributes().remove_all_attributes(inode)?;
        match inode.file_type() {
            Some(FileType::Directory) => self.transaction.directories().remove_directory_blocks(inode)?,
            Some(FileType::SymbolicLink) => self.transaction.symlinks().remove_symlink_target(inode)?,
            // What lies behind the end of the file goes, too.
            Some(FileType::Regular) => {
                self.transaction.extent_maps().unmap_blocks(
                    inode,
                    Fork::Data,
                    FileBlock::new(0),
                    MAX_FILE_BLOCKS,
                )?;
            }
            // Devices, fifos and sockets hold nothing but a number.
            _ => {}
        }
        inode.set_link_count(0);
        self.free_inode(inode)
    }
}

/// Whether an inode has so little that one transaction can free it.
pub fn is_freed_at_once(inode: &EditInode) -> bool {
    !has_many_extents(inode, Fork::Data) && !has_many_extents(inode, Fork::Attribute)
}

/// Whether a fork has more than one transaction can free.
pub fn has_many_extents(inode: &EditInode, fork: Fork) -> bool {
    let extents = inode.extents(fork);
    inode.has_extent_tree(fork)
        || extents.len() > STEP_EXTENTS
        || (fork == Fork::Attribute && extents.blocks() > STEP_BLOCKS)
}
