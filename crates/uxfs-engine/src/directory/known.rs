//! Removing a name from where a lookup has just seen it.
//!
//! An operation looks a name up before it begins to change anything, and the lookup leaves a hint. Where the hint still
//! leads to the name, and no block has to be joined with another, three blocks are changed and no other is fetched.

use uxfs_format::{
    directory::{
        DataPointer, NO_DATA_BLOCK,
        data::DataBlock,
        data_edit::DataEdit,
        leaf::{LeafBlock, NODE_MAGIC, SINGLE_MAGIC},
        leaf_edit::{self, LeafEdit},
    },
    fault::Structure,
    name_tree::{header::magic_of, node_edit::wants_join},
    units::FileBlock,
};

use super::{
    Directory, DirectoryStore, Form,
    find::{EntryPosition, StoredName},
    names::NameTarget,
};
use crate::name_tree::BlockBuffer;
use uxfs_volume::{error::Result, inode::FileType};

impl<'fs, S: DirectoryStore<'fs>> Directory<'_, S> {
    /// Removes a name that lies where the hint says, and gives what it led to. `None`, with nothing changed, where the
    /// hint is of no use.
    pub fn remove_at_hint(&mut self, name: &[u8]) -> Result<Option<NameTarget>> {
        let form = self.form()?;
        let Some(place) = self.hinted_leaf(form) else { return Ok(None) };
        let (pointer, hash) = (self.hint.entry, self.rule.hash(name));
        let (data_block, offset_bytes) = pointer.split(self.geometry());
        let data_place = self.data_start(data_block);
        if !self.store.is_mapped(data_place) {
            return Ok(None);
        }
        let mut leaf = self.store.edit(Structure::DirectoryAnyIndex, place)?;
        let Some(index) = self.index_in(&leaf, form, hash, pointer) else { return Ok(None) };
        let mut buffer = self.store.edit_beside(&[leaf.sector()], Structure::DirectoryData, data_place)?;
        let target = match DataBlock::parse(&buffer, self.geometry()).map(|data| data.entry_at(offset_bytes))
        {
            Ok(Ok(entry)) if entry.name == name => NameTarget {
                inode: entry.inode,
                file_type: FileType::from_directory_code(entry.file_type_code),
            },
            _ => return Ok(None),
        };
        let mut data = DataEdit::new(buffer.edit(), self.format);
        data.remove(offset_bytes).map_err(|fault| self.damaged_data(data_block, fault))?;
        let best = if data.is_empty() { NO_DATA_BLOCK } else { data.longest_bytes() };
        let mut index_edit = LeafEdit::new(leaf.edit());
        index_edit.remove(index);
        if form == Form::Leaf {
            index_edit.set_best(data_block as usize, best);
            if best == NO_DATA_BLOCK {
                index_edit.trim_bests();
            }
        }
        drop((leaf, buffer));
        if best == NO_DATA_BLOCK {
            self.store.free(data_place)?;
            self.update_size();
        }
        match form {
            Form::Leaf => self.leaf_to_block()?,
            _ => self.set_free_index(data_block, best)?,
        }
        Ok(Some(target))
    }

    /// The leaf of the hint, if the directory has one there.
    fn hinted_leaf(&self, form: Form) -> Option<FileBlock> {
        let leaf_start = self.leaf_start();
        let place = match form {
            Form::Leaf => leaf_start,
            // Where the root is the only leaf, the directory may be about to become a smaller form.
            Form::Node if self.hint.leaf > leaf_start => self.hint.leaf,
            _ => return None,
        };
        (self.hint.entry != DataPointer::NULL && self.store.is_mapped(place)).then_some(place)
    }

    /// Finds a name where the hint says, whatever its leaf has to be joined with. `None` where the hint is of no use.
    pub(super) fn find_at_hint(&mut self, name: &[u8]) -> Result<Option<StoredName>> {
        if self.form()? != Form::Node {
            return Ok(None);
        }
        let Some(place) = self.hinted_leaf(Form::Node) else { return Ok(None) };
        let (pointer, hash) = (self.hint.entry, self.rule.hash(name));
        let (data_block, offset_bytes) = pointer.split(self.geometry());
        let data_place = self.data_start(data_block);
        if !self.store.is_mapped(data_place) {
            return Ok(None);
        }
        let leaf = self.store.edit(Structure::DirectoryAnyIndex, place)?;
        if magic_of(&leaf) != Some(NODE_MAGIC) {
            return Ok(None);
        }
        let Some(index) = self.index_of(&leaf, hash, pointer) else { return Ok(None) };
        let buffer = self.store.edit_beside(&[leaf.sector()], Structure::DirectoryData, data_place)?;
        let (inode, file_type_code) =
            match DataBlock::parse(&buffer, self.geometry()).map(|data| data.entry_at(offset_bytes)) {
                Ok(Ok(entry)) if entry.name == name => (entry.inode, entry.file_type_code),
                _ => return Ok(None),
            };
        drop((leaf, buffer));
        let path = self.tree().path_to(hash, place)?;
        Ok(path.map(|path| StoredName {
            inode,
            file_type_code,
            place: EntryPosition::Node { path, index, pointer },
        }))
    }

    /// Where an entry is in a leaf from which it can be taken without more.
    fn index_in(&self, leaf: &[u8], form: Form, hash: u32, pointer: DataPointer) -> Option<usize> {
        let magic = if form == Form::Leaf { SINGLE_MAGIC } else { NODE_MAGIC };
        if magic_of(leaf) != Some(magic) {
            return None;
        }
        if form == Form::Node {
            let (used, most) = leaf_edit::fill(leaf);
            // The largest hash stays, so that no node has to know: removed entries count as long as they lie there.
            if used <= 1 || wants_join(used.saturating_sub(1), most) {
                return None;
            }
        }
        self.index_of(leaf, hash, pointer)
    }

    fn index_of(&self, leaf: &[u8], hash: u32, pointer: DataPointer) -> Option<usize> {
        let view = LeafBlock::parse(leaf, self.geometry()).ok()?;
        view.matches(hash).find(|(_, found)| *found == pointer).map(|(index, _)| index)
    }
}
