//! Whether a name fits into what a directory has: asked before anything changes, where there may be no block to be had.
//!
//! A short form is tried on a [sketch](EditInode::sketch) of the inode, a block on a copy of it.

use uxfs_format::{
    directory::{block_edit::BlockEdit, data_edit::NewEntry, leaf_edit::LeafEdit},
    edit::{DirtyMap, Edit},
    fault::Structure,
    units::{FileBlock, InodeNumber},
};

use super::{Directory, DirectoryStore, Form, insert::Choice, names::NewName};
use crate::directory::editor::DirectoryEditor;
use crate::inode::edit::{EditInode, InodeFork};
use uxfs_volume::{
    error::{OperationError, Result},
    inode::FileType,
};

impl DirectoryEditor<'_, '_> {
    /// Whether a name that the directory does not have can be added without a new block. Nothing changes.
    ///
    /// # Errors
    /// Damage; the device.
    #[doc(alias = "xfs_dir_canenter")]
    pub fn name_fits(
        &mut self,
        directory: &mut EditInode,
        name: &[u8],
        inode: InodeNumber,
        file_type: FileType,
    ) -> Result<bool> {
        let entry = NewName { name, inode, file_type }.entry();
        if matches!(directory.data, InodeFork::Local(_)) {
            return self.change_directory(&mut directory.sketch(), |names| names.insert_shortform(&entry));
        }
        self.change_directory(directory, |names| names.fits(&entry))
    }

    /// Whether a name, which may be "..", can lead to another inode without a new block: a large number may be too much
    /// for a directory that lies in its inode. `sketch` is one of the directory, and changes where that is so.
    ///
    /// # Errors
    /// As [`replace_name`](Self::replace_name).
    pub fn replacement_fits(
        &mut self,
        sketch: &mut EditInode,
        name: &[u8],
        inode: InodeNumber,
        file_type: FileType,
    ) -> Result<bool> {
        if !matches!(sketch.data, InodeFork::Local(_)) {
            return Ok(true);
        }
        self.change_directory(sketch, |names| {
            let found = names.find(name)?.ok_or(OperationError::NotFound)?;
            names.replace_shortform(&found, inode, file_type.directory_code())
        })
    }
}

impl<'fs, S: DirectoryStore<'fs>> Directory<'_, S> {
    /// Whether [`insert`](Self::insert) would take no block, of a directory that has some. Nothing changes.
    pub(super) fn fits(&mut self, entry: &NewEntry<'_>) -> Result<bool> {
        let hash = self.rule.hash(entry.name);
        match self.form()? {
            Form::Shortform => Ok(false),
            Form::Block => {
                let buffer = self.store.edit(Structure::DirectoryBlock, FileBlock::new(0))?;
                let format = self.format;
                Ok(try_on(&buffer, |edit| BlockEdit::new(edit, format).insert(hash, entry).is_some()))
            }
            Form::Leaf => {
                let leaf = self.edit_leaf()?;
                let choice = self.choose_by_bests(&leaf, self.size_of(entry))?;
                let is_there = matches!(choice, Choice::Existing(..));
                Ok(is_there && try_on(&leaf, |edit| LeafEdit::new(edit).has_room(0)))
            }
            Form::Node => {
                if self.find_room(self.size_of(entry))?.is_none() {
                    return Ok(false);
                }
                let (_, leaf) = self.tree().find_leaf(hash)?;
                Ok(try_on(&leaf, |edit| LeafEdit::new(edit).has_room(0)))
            }
        }
    }
}

/// Tries a change on a copy.
fn try_on<T>(block: &[u8], change: impl FnOnce(Edit<'_>) -> T) -> T {
    let (mut copy, mut dirty) = (block.to_vec(), DirtyMap::clean());
    change(Edit::new(&mut copy, &mut dirty))
}
