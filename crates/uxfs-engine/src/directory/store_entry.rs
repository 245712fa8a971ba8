//! Adding an entry to a data block.

use uxfs_format::{
    directory::{
        DataPointer, NO_DATA_BLOCK,
        data_edit::{DataEdit, NewEntry},
    },
    fault::Structure,
    units::Sector,
};

use super::{Directory, DirectoryHint, DirectoryStore, check_data_block};
use crate::name_tree::BlockBuffer;
use uxfs_volume::error::{OperationError, Result};

/// A new entry in its data block.
pub(super) struct Stored {
    pub(super) data_block: u32,
    pub(super) pointer: DataPointer,
    /// The data block's longest free region afterwards.
    pub(super) best_bytes: u16,
}

impl<'fs, S: DirectoryStore<'fs>> Directory<'_, S> {
    /// Adds an entry to a data block that has room according to its best. The caller holds the blocks at `held`.
    pub(super) fn store_entry(
        &mut self,
        held: &[Sector],
        data_block: u32,
        best_bytes: u16,
        entry: &NewEntry<'_>,
    ) -> Result<Stored> {
        let stored = self.try_to_store(held, data_block, entry)?;
        stored.ok_or_else(|| self.wrong_best(data_block, best_bytes))
    }

    /// Adds an entry to the data block that was used last, if that has room.
    pub(super) fn store_at_hint(&mut self, entry: &NewEntry<'_>) -> Result<Option<Stored>> {
        let DirectoryHint { data_block, best_bytes, .. } = *self.hint;
        let may_have = u32::from(best_bytes) >= self.size_of(entry);
        if !may_have || !self.store.is_mapped(self.data_start(data_block)) {
            return Ok(None);
        }
        self.try_to_store(&[], data_block, entry)
    }

    fn try_to_store(
        &mut self,
        held: &[Sector],
        data_block: u32,
        entry: &NewEntry<'_>,
    ) -> Result<Option<Stored>> {
        let (size_bytes, format) = (self.size_of(entry), self.format);
        let (structure, place) = (Structure::DirectoryData, self.data_start(data_block));
        let mut buffer = match held {
            [] => self.store.edit(structure, place)?,
            held => self.store.edit_beside(held, structure, place)?,
        };
        let mut data = DataEdit::new(buffer.edit(), format);
        let Some(region) = data.room_for(size_bytes) else { return Ok(None) };
        let offset_bytes = data.insert(region, entry);
        let best_bytes = data.longest_bytes();
        self.stored(data_block, offset_bytes, best_bytes).map(Some)
    }

    /// Adds an entry to a new data block.
    pub(super) fn store_in_new_block(&mut self, data_block: u32, entry: &NewEntry<'_>) -> Result<Stored> {
        check_data_block(self.geometry(), data_block)?;
        let place = self.data_start(data_block);
        if self.store.is_mapped(place) {
            return Err(self.wrong_best(data_block, NO_DATA_BLOCK));
        }
        let (size_bytes, format) = (self.size_of(entry), self.format);
        let mut buffer = self.store.create(Structure::DirectoryData, place)?;
        let identity = self.store.identity(buffer.sector());
        let mut data = DataEdit::init(buffer.edit(), &identity, format);
        let region = data.room_for(size_bytes).ok_or(OperationError::NameTooLong)?;
        let offset_bytes = data.insert(region, entry);
        let best_bytes = data.longest_bytes();
        drop(buffer);
        self.update_size();
        self.stored(data_block, offset_bytes, best_bytes)
    }

    fn stored(&mut self, data_block: u32, offset_bytes: u32, best_bytes: u16) -> Result<Stored> {
        let byte = (u64::from(data_block) * self.block_bytes()).saturating_add(offset_bytes.into());
        let pointer = DataPointer::of_byte(byte).ok_or(OperationError::NoSpace)?;
        self.hint.data_block = data_block;
        self.hint.best_bytes = best_bytes;
        Ok(Stored { data_block, pointer, best_bytes })
    }
}
