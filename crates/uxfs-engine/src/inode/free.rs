//! Giving inodes back.

use uxfs_format::{
    btree::{extent_map::MAX_FILE_BLOCKS, inode_index::InodeChunk, reverse_map::Owner},
    fault::{Corruption, Location, Structure},
    inode::{FileType, Fork, fault::InodeFault},
    units::{AgBlock, AgInode, AgNumber, FileBlock},
};
use zerocopy::big_endian::{U16, U32, U64};

use super::{
    create::feature_flags2,
    edit::{EditInode, InodeFork},
};
use crate::inode::allocator::InodeAllocator;
use crate::transaction::deferred::FreedOwner;
use uxfs_volume::error::{OperationError, Result};

impl InodeAllocator<'_, '_> {
    /// Makes an inode free. The data of a regular file goes with it; directories, links and attributes must have been
    /// emptied before, and the inode must have left the unlinked list.
    ///
    /// # Errors
    /// The inode counts blocks that no fork has; damage; the device.
    #[doc(alias = "xfs_ifree")]
    pub fn free_inode(&mut self, inode: &mut EditInode) -> Result<()> {
        if inode.file_type() == Some(FileType::Regular) {
            self.transaction.extent_maps().unmap_blocks(
                inode,
                Fork::Data,
                FileBlock::new(0),
                MAX_FILE_BLOCKS,
            )?;
        }
        if inode.blocks() != 0 {
            return Err(blocks_left(inode).into());
        }
        let geometry = self.transaction.engine().geometry();
        let (group, in_group) =
            geometry.split_inode_number(inode.number).ok_or(OperationError::NoSuchInode)?;
        // Before the group is locked, which others wait for. Where the whole chunk goes, it was for nothing.
        inode.make_free(feature_flags2(geometry).bits());
        self.transaction.store_inode(inode)?;
        let unused_chunk = self.transaction.group(group)?.inode_index().give_back_inode(in_group)?;
        // Other transactions may use the group meanwhile: they do not find such a chunk, and its blocks are not free yet.
        self.transaction.give_back_groups();
        unused_chunk.map_or(Ok(()), |chunk| self.free_chunk(group, &chunk))
    }

    /// Frees the blocks of a chunk without inodes in use.
    #[doc(alias = "xfs_difree_inode_chunk")]
    fn free_chunk(&mut self, group: AgNumber, chunk: &InodeChunk) -> Result<()> {
        let engine = self.transaction.engine();
        let geometry = engine.geometry();
        for (start, length_blocks) in chunk.blocks(geometry) {
            let end = start.get().saturating_add(length_blocks);
            let mut block = start;
            while block.get() < end {
                let first = AgInode::new(block.get() << geometry.inodes_per_block_log);
                let number = geometry.inode_number(group, first);
                let cluster = engine.inode_cluster(number)?.1;
                self.transaction.buffers().invalidate(&[(cluster.sector, cluster.length_bytes)]);
                let blocks = (cluster.length_bytes >> geometry.block_log).max(1);
                block = AgBlock::new((block.get() / blocks + 1) * blocks);
            }
            let start = geometry.fs_block(group, start).ok_or(OperationError::NoSuchGroup)?;
            self.transaction.defer_free_of(
                start,
                length_blocks.into(),
                FreedOwner::Group(Owner::InodeChunks),
            )?;
        }
        Ok(())
    }
}

/// An inode that has been emptied counts blocks.
fn blocks_left(inode: &EditInode) -> Corruption {
    let fault = InodeFault::BlocksWithoutExtents { blocks: inode.blocks() };
    Corruption::new(Structure::Inode, Location::of_inode(inode.number), fault)
}

impl EditInode {
    /// Leaves of a freed inode what Linux leaves: owner and times. Contents, flags and the attribute fork are gone, and the
    /// next file with this number has another generation.
    fn make_free(&mut self, flags2: u64) {
        self.core.mode = U16::new(0);
        self.core.link_count = U32::new(0);
        self.core.size_bytes = U64::new(0);
        self.core.flags = U16::new(0);
        self.core.flags2 = U64::new(flags2);
        self.core.generation = U32::new(self.core.generation.get().wrapping_add(1));
        // Hints mean nothing without their flags, and a hint may be one that only those allowed.
        self.core.extent_size_blocks = U32::new(0);
        self.core.cow_extent_size_blocks = U32::new(0);
        self.data = InodeFork::empty();
        (self.attribute, self.attribute_offset_bytes) = (None, 0);
        self.extent_hint.forget();
    }
}
