//! The inode chunks of a group.

use uxfs_format::{
    btree::inode_index::{FreeInodeIndex, InodeChunk, InodeIndex},
    geometry::INODES_PER_CHUNK,
    units::{AgBlock, AgInode, AgNumber, InodeNumber},
};

use crate::{btree::Tree, error::Result, volume::Volume};

impl Volume {
    /// The tree of a group's inode chunks.
    ///
    /// # Errors
    /// [`OperationError::NoSuchGroup`](crate::error::OperationError::NoSuchGroup); damage of the header; the device.
    pub fn inode_index(&self, group: AgNumber) -> Result<Tree<'_, InodeIndex>> {
        let header = self.inode_header(group)?;
        Ok(Tree::of_group(self, group, AgBlock::new(header.root.get()), header.levels.get()))
    }

    /// The tree of a group's inode chunks that have a free inode; `None` where the file system has no such trees.
    ///
    /// # Errors
    /// As [`inode_index`](Self::inode_index).
    pub fn free_inode_index(&self, group: AgNumber) -> Result<Option<Tree<'_, FreeInodeIndex>>> {
        if !self.geometry().features.has_free_inode_btree() {
            return Ok(None);
        }
        let header = self.inode_header(group)?;
        let root = AgBlock::new(header.free_root.get());
        Ok(Some(Tree::of_group(self, group, root, header.free_levels.get())))
    }

    /// The inode chunks of a group in order.
    ///
    /// # Errors
    /// As [`inode_index`](Self::inode_index).
    pub fn inode_chunks(
        &self,
        group: AgNumber,
    ) -> Result<impl Iterator<Item = Result<InodeChunk>> + use<'_>> {
        let records = self.inode_index(group)?.records();
        Ok(records.map(|record| record.map(|record| record.get(self.geometry()))))
    }

    /// The chunk that an inode number lies in, and which of its 64 inodes it is. `None` where no chunk holds it, or
    /// where it lies in a hole of a sparse chunk.
    ///
    /// # Errors
    /// Damage on the way; the device. A number outside the file system is `None`.
    pub fn inode_chunk_of(&self, inode: InodeNumber) -> Result<Option<(InodeChunk, u32)>> {
        let geometry = self.geometry();
        let split = geometry.inode_place(inode).and_then(|_| geometry.split_inode_number(inode));
        let Some((group, in_group)) = split else { return Ok(None) };
        let found = self.inode_index(group)?.cursor().at_or_before(in_group)?;
        let chunk = found.map(|record| record.get(geometry));
        Ok(chunk.and_then(|chunk| Some((chunk, chunk.index_of(in_group)?))).filter(|(c, i)| c.exists(*i)))
    }

    /// Whether the inode index says that an inode is in use. Numbers from outside (a command line, a file handle) must
    /// be asked about here before anything is read at the place that they name.
    ///
    /// # Errors
    /// As [`inode_chunk_of`](Self::inode_chunk_of).
    pub fn is_inode_allocated(&self, inode: InodeNumber) -> Result<bool> {
        Ok(self.inode_chunk_of(inode)?.is_some_and(|(chunk, index)| chunk.is_allocated(index)))
    }

    /// The blocks of a chunk that hold existing inodes, as runs of first block and number of blocks. A chunk whose
    /// holes share a block with inodes that exist counts that block.
    pub fn blocks_of_chunk(&self, chunk: &InodeChunk) -> Vec<(AgBlock, u32)> {
        let shift = self.geometry().inodes_per_block_log;
        let block_of = |inode: AgInode| AgBlock::new(inode.get() >> shift);
        let mut runs: Vec<(AgBlock, u32)> = Vec::new();
        for index in (0..INODES_PER_CHUNK).filter(|index| chunk.exists(*index)) {
            let block = block_of(chunk.inode(index));
            match runs.last_mut() {
                Some((start, length)) => match block.checked_distance_from(*start) {
                    Some(distance) if distance < *length => {}
                    Some(distance) if distance == *length => *length = length.saturating_add(1),
                    _ => runs.push((block, 1)),
                },
                None => runs.push((block, 1)),
            }
        }
        runs
    }
}
