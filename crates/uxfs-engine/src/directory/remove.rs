//! Removing names, and letting them lead elsewhere.

use uxfs_format::{
    directory::DataPointer,
    directory::{
        NO_DATA_BLOCK, block_edit::BlockEdit, data_edit::DataEdit, leaf_edit::LeafEdit,
        shortform_edit::ShortformEdit,
    },
    fault::Structure,
    units::{FileBlock, InodeNumber},
};

use super::{
    Directory, DirectoryStore,
    find::{EntryPosition, StoredName},
};
use crate::name_tree::BlockBuffer;
use uxfs_volume::error::{OperationError, Result};

impl<'fs, S: DirectoryStore<'fs>> Directory<'_, S> {
    /// Removes a name that was found.
    pub fn remove(&mut self, found: &StoredName) -> Result<()> {
        match found.place {
            EntryPosition::Own | EntryPosition::Parent => Err(OperationError::InvalidName.into()),
            EntryPosition::Shortform(index) => self.remove_shortform(index),
            EntryPosition::Block { index, offset_bytes } => {
                let place = FileBlock::new(0);
                let mut buffer = self.store.edit(Structure::DirectoryBlock, place)?;
                BlockEdit::new(buffer.edit(), self.format)
                    .remove(index, offset_bytes)
                    .map_err(|fault| self.store.corruption(Structure::DirectoryBlock, place, fault))?;
                drop(buffer);
                self.block_to_shortform()
            }
            EntryPosition::Leaf { index, pointer } => {
                let (data_block, best) = self.remove_data(pointer)?;
                let mut buffer = self.edit_leaf()?;
                let mut leaf = LeafEdit::new(buffer.edit());
                leaf.remove(index);
                leaf.set_best(data_block as usize, best);
                if best == NO_DATA_BLOCK {
                    leaf.trim_bests();
                }
                drop(buffer);
                self.leaf_to_block()
            }
            EntryPosition::Node { path, index, pointer } => {
                let (data_block, best) = self.remove_data(pointer)?;
                self.set_free_index(data_block, best)?;
                let mut buffer = self.store.edit(Structure::DirectoryAnyIndex, path.leaf)?;
                LeafEdit::new(buffer.edit()).remove(index);
                drop(buffer);
                self.tree().settle(&path)?;
                self.node_to_leaf()
            }
        }
    }

    fn remove_shortform(&mut self, index: u8) -> Result<()> {
        let geometry = self.geometry();
        let bytes = self.store.local().ok_or(OperationError::NotADirectory)?;
        let removed = ShortformEdit::new(bytes, geometry).remove(index);
        let size_bytes = bytes.len() as u64;
        removed.map_err(|fault| self.damaged_shortform(fault))?;
        self.store.set_size_bytes(size_bytes);
        Ok(())
    }

    /// Takes an entry out of its data block, and the block away where it was the last one there. Gives the data block
    /// and its best.
    fn remove_data(&mut self, pointer: DataPointer) -> Result<(u32, u16)> {
        let (data_block, offset_bytes) = pointer.split(self.geometry());
        let place = self.data_start(data_block);
        let mut buffer = self.store.edit(Structure::DirectoryData, place)?;
        let mut data = DataEdit::new(buffer.edit(), self.format);
        data.remove(offset_bytes).map_err(|fault| self.damaged_data(data_block, fault))?;
        let (best, is_empty) = (data.longest_bytes(), data.is_empty());
        drop(buffer);
        if !is_empty {
            return Ok((data_block, best));
        }
        self.store.free(place)?;
        self.update_size();
        Ok((data_block, NO_DATA_BLOCK))
    }

    /// Lets a name that was found lead to another inode. `name` is needed where the directory must grow for it.
    pub fn replace(
        &mut self,
        name: &[u8],
        found: &StoredName,
        inode: InodeNumber,
        file_type_code: u8,
    ) -> Result<()> {
        let (place, pointer) = match found.place {
            EntryPosition::Own => return Err(OperationError::InvalidName.into()),
            EntryPosition::Parent | EntryPosition::Shortform(_) => {
                if self.replace_shortform(found, inode, file_type_code)? {
                    return Ok(());
                }
                // A large inode number is too much for the inode; in a block all have room.
                self.shortform_to_block()?;
                let found = self.find(name)?.ok_or(OperationError::NotFound)?;
                return self.replace(name, &found, inode, file_type_code);
            }
            EntryPosition::Block { offset_bytes, .. } => {
                let place = FileBlock::new(0);
                let mut buffer = self.store.edit(Structure::DirectoryBlock, place)?;
                return BlockEdit::new(buffer.edit(), self.format)
                    .replace(offset_bytes, inode, file_type_code)
                    .map_err(|fault| self.store.corruption(Structure::DirectoryBlock, place, fault));
            }
            EntryPosition::Leaf { pointer, .. } | EntryPosition::Node { pointer, .. } => {
                (self.data_start(pointer.split(self.geometry()).0), pointer)
            }
        };
        let (data_block, offset_bytes) = pointer.split(self.geometry());
        let mut buffer = self.store.edit(Structure::DirectoryData, place)?;
        DataEdit::new(buffer.edit(), self.format)
            .replace(offset_bytes, inode, file_type_code)
            .map_err(|fault| self.damaged_data(data_block, fault))
    }

    /// `false` where the directory does not fit the inode with that number.
    pub(super) fn replace_shortform(
        &mut self,
        found: &StoredName,
        inode: InodeNumber,
        file_type_code: u8,
    ) -> Result<bool> {
        let (geometry, room_bytes) = (self.geometry(), self.store.room_bytes());
        let bytes = self.store.local().ok_or(OperationError::NotADirectory)?;
        let mut edit = ShortformEdit::new(bytes, geometry);
        let replaced = match found.place {
            EntryPosition::Shortform(index) => edit.replace(index, inode, file_type_code, room_bytes),
            _ => edit.set_parent(inode, room_bytes),
        };
        let size_bytes = bytes.len() as u64;
        let replaced = replaced.map_err(|fault| self.damaged_shortform(fault))?;
        if replaced {
            self.store.set_size_bytes(size_bytes);
        }
        Ok(replaced)
    }

    /// Gives all blocks back.
    pub fn free_all(&mut self) -> Result<()> {
        let length = self.store.blocks_per_block();
        while let Some(end) = self.store.extents().last().map(|extent| extent.end().get()) {
            let last = end.saturating_sub(1);
            self.store.free(FileBlock::new(last - last % length))?;
        }
        self.store.set_size_bytes(0);
        Ok(())
    }
}
