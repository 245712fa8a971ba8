//! The inode chunks of a group.

use uxfs_format::{
    btree::inode_index::{FreeInodeIndex, InodeChunk, InodeIndex},
    units::{AgBlock, InodeNumber},
};

use super::reader::{GroupReader, GroupsReader};
use crate::{btree::Tree, error::Result};

impl<'v> GroupReader<'v> {
    /// The tree of a group's inode chunks.
    ///
    /// # Errors
    /// [`OperationError::NoSuchGroup`](crate::error::OperationError::NoSuchGroup); damage of the header; the device.
    pub fn inode_index(self) -> Result<Tree<'v, InodeIndex>> {
        let header = self.inode_header()?;
        Ok(Tree::of_group(self.volume, self.group, AgBlock::new(header.root.get()), header.levels.get()))
    }

    /// The tree of a group's inode chunks that have a free inode; `None` where the file system has no such trees.
    ///
    /// # Errors
    /// As [`inode_index`](Self::inode_index).
    pub fn free_inode_index(self) -> Result<Option<Tree<'v, FreeInodeIndex>>> {
        if !self.volume.geometry().features.has_free_inode_btree() {
            return Ok(None);
        }
        let header = self.inode_header()?;
        let root = AgBlock::new(header.free_root.get());
        Ok(Some(Tree::of_group(self.volume, self.group, root, header.free_levels.get())))
    }

    /// The inode chunks of a group in order.
    ///
    /// # Errors
    /// As [`inode_index`](Self::inode_index).
    pub fn inode_chunks(self) -> Result<impl Iterator<Item = Result<InodeChunk>> + use<'v>> {
        let (records, geometry) = (self.inode_index()?.records(), self.volume.geometry());
        Ok(records.map(|record| record.map(|record| record.get(geometry))))
    }
}

impl GroupsReader<'_> {
    /// The chunk that an inode number lies in, and which of its 64 inodes it is. `None` where no chunk holds it, or
    /// where it lies in a hole of a sparse chunk.
    ///
    /// # Errors
    /// Damage on the way; the device. A number outside the file system is `None`.
    pub fn inode_chunk_of(self, inode: InodeNumber) -> Result<Option<(InodeChunk, u32)>> {
        let geometry = self.volume.geometry();
        let split = geometry.inode_place(inode).and_then(|_| geometry.split_inode_number(inode));
        let Some((group, in_group)) = split else { return Ok(None) };
        let found = self.volume.group(group).inode_index()?.cursor().at_or_before(in_group)?;
        let chunk = found.map(|record| record.get(geometry));
        Ok(chunk.and_then(|chunk| Some((chunk, chunk.index_of(in_group)?))).filter(|(c, i)| c.exists(*i)))
    }

    /// Whether the inode index says that an inode is in use. Numbers from outside (a command line, a file handle) must
    /// be asked about here before anything is read at the place that they name.
    ///
    /// # Errors
    /// As [`inode_chunk_of`](Self::inode_chunk_of).
    pub fn is_inode_allocated(self, inode: InodeNumber) -> Result<bool> {
        Ok(self.inode_chunk_of(inode)?.is_some_and(|(chunk, index)| chunk.is_allocated(index)))
    }
}
