//! Adding names.

use uxfs_format::{
    directory::{
        DataPointer, NO_DATA_BLOCK,
        block_edit::BlockEdit,
        data_edit::NewEntry,
        leaf::{LeafBlock, NODE_MAGIC},
        leaf_edit::{Inserted, LeafEdit},
        shortform_edit::ShortformEdit,
    },
    fault::Structure,
    name_tree::header::magic_of,
    units::FileBlock,
};

use super::{Directory, DirectoryStore, Form, has_room};
use crate::name_tree::BlockBuffer;
use uxfs_volume::error::{OperationError, Result};

/// Room for an entry by the bests of the one leaf.
pub(super) enum Choice {
    /// This data block has room, says this best.
    Existing(u32, u16),
    /// A data block must be made in a hole.
    Hole(u32),
    /// A data block must be made behind all others.
    Behind(u32),
}

impl<'fs, S: DirectoryStore<'fs>> Directory<'_, S> {
    /// Adds a name that the directory does not have.
    pub fn insert(&mut self, entry: &NewEntry<'_>) -> Result<()> {
        let hash = self.rule.hash(entry.name);
        let mut form = self.form()?;
        // Each round leads to a larger form, and the largest takes every name.
        loop {
            form = match form {
                Form::Shortform => {
                    if self.insert_shortform(entry)? {
                        return Ok(());
                    }
                    self.shortform_to_block()?;
                    Form::Block
                }
                Form::Block => {
                    if self.insert_block(hash, entry)? {
                        return Ok(());
                    }
                    self.block_to_leaf()?;
                    Form::Leaf
                }
                Form::Leaf => {
                    if self.insert_leaf(hash, entry)? {
                        return Ok(());
                    }
                    self.leaf_to_node()?;
                    Form::Node
                }
                Form::Node => return self.insert_node(hash, entry),
            };
        }
    }

    pub(super) fn insert_shortform(&mut self, entry: &NewEntry<'_>) -> Result<bool> {
        let (geometry, room_bytes) = (self.geometry(), self.store.room_bytes());
        let bytes = self.store.local().ok_or(OperationError::NotADirectory)?;
        let inserted = ShortformEdit::new(bytes, geometry).insert(entry, room_bytes);
        let size_bytes = bytes.len() as u64;
        let inserted = inserted.map_err(|fault| self.damaged_shortform(fault))?;
        if inserted {
            self.store.set_size_bytes(size_bytes);
        }
        Ok(inserted)
    }

    fn insert_block(&mut self, hash: u32, entry: &NewEntry<'_>) -> Result<bool> {
        let mut buffer = self.store.edit(Structure::DirectoryBlock, FileBlock::new(0))?;
        Ok(BlockEdit::new(buffer.edit(), self.format).insert(hash, entry).is_some())
    }

    fn insert_leaf(&mut self, hash: u32, entry: &NewEntry<'_>) -> Result<bool> {
        let mut buffer = self.edit_leaf()?;
        let choice = self.choose_by_bests(&buffer, self.size_of(entry))?;
        let more_bests = usize::from(matches!(choice, Choice::Behind(_)));
        if !LeafEdit::new(buffer.edit()).has_room(more_bests) {
            return Ok(false);
        }
        let stored = match choice {
            Choice::Existing(data_block, best) => {
                self.store_entry(&[buffer.sector()], data_block, best, entry)?
            }
            Choice::Hole(data_block) | Choice::Behind(data_block) => {
                drop(buffer);
                let stored = self.store_in_new_block(data_block, entry)?;
                buffer = self.edit_leaf()?;
                stored
            }
        };
        let mut leaf = LeafEdit::new(buffer.edit());
        leaf.make_room(more_bests);
        match choice {
            Choice::Behind(_) => leaf.push_best(stored.best_bytes),
            _ => leaf.set_best(stored.data_block as usize, stored.best_bytes),
        }
        match leaf.insert(hash, stored.pointer) {
            Inserted::Done { .. } => Ok(true),
            Inserted::Full => Err(OperationError::NoSpace.into()),
        }
    }

    /// The data block that was used last, the last one, or the first with room.
    pub(super) fn choose_by_bests(&self, leaf: &[u8], size_bytes: u32) -> Result<Choice> {
        let view = LeafBlock::parse(leaf, self.geometry()).map_err(|fault| self.damaged_index(fault))?;
        let bests = view.bests().map_err(|fault| self.damaged_index(fault))?;
        let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        let best_of = |index: usize| bests.get(index).map(|best| best.get());
        let likely = [self.hint.data_block as usize, bests.len().saturating_sub(1)];
        let found =
            likely.into_iter().find(|index| best_of(*index).is_some_and(|best| has_room(best, size_bytes)));
        let found = found.or_else(|| bests.iter().position(|best| has_room(best.get(), size_bytes)));
        if let Some(index) = found {
            return Ok(Choice::Existing(number(index), best_of(index).unwrap_or(0)));
        }
        let hole = bests.iter().position(|best| best.get() == NO_DATA_BLOCK);
        Ok(hole.map_or(Choice::Behind(number(bests.len())), |index| Choice::Hole(number(index))))
    }

    fn insert_node(&mut self, hash: u32, entry: &NewEntry<'_>) -> Result<()> {
        let stored = match self.store_at_hint(entry)? {
            Some(stored) => stored,
            None => match self.find_room(self.size_of(entry))? {
                Some((data_block, best)) => self.store_entry(&[], data_block, best, entry)?,
                None => {
                    let hole = self.store.first_hole(FileBlock::new(0));
                    let data_block = u32::try_from(hole.get() >> self.geometry().directory_block_log);
                    self.store_in_new_block(data_block.map_err(|_| OperationError::NoSpace)?, entry)?
                }
            },
        };
        self.set_free_index(stored.data_block, stored.best_bytes)?;
        if self.insert_at_hint(hash, stored.pointer)? {
            return Ok(());
        }
        self.insert_index(hash, stored.pointer)
    }

    /// Adds an index entry to the leaf where it belongs.
    pub(super) fn insert_index(&mut self, hash: u32, pointer: DataPointer) -> Result<()> {
        let mut path = self.tree().find(hash)?;
        // A split makes room on the side where the entry belongs.
        for _ in 0..2 {
            let mut buffer = self.store.edit(Structure::DirectoryAnyIndex, path.leaf)?;
            let inserted = LeafEdit::new(buffer.edit()).insert(hash, pointer);
            drop(buffer);
            self.hint.leaf = path.leaf;
            match inserted {
                Inserted::Done { new_last: Some(last) } => return self.tree().update_hash(&path, last),
                Inserted::Done { new_last: None } => return Ok(()),
                Inserted::Full => self.tree().split_leaf(&mut path, hash)?,
            }
        }
        Err(OperationError::NoSpace.into())
    }

    /// Adds an index entry to the leaf that was used last, if it belongs between the entries there: then no node knows
    /// of it.
    fn insert_at_hint(&mut self, hash: u32, pointer: DataPointer) -> Result<bool> {
        let place = self.hint.leaf;
        if place < self.leaf_start() || !self.store.is_mapped(place) {
            return Ok(false);
        }
        let mut buffer = self.store.edit(Structure::DirectoryAnyIndex, place)?;
        if magic_of(&buffer) != Some(NODE_MAGIC) {
            return Ok(false);
        }
        Ok(LeafEdit::new(buffer.edit()).insert_between(hash, pointer))
    }
}
