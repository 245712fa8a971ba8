//! Data blocks with room, as the bests of a leaf or the free index blocks know them.

use uxfs_format::{
    directory::{
        DataPointer, NO_DATA_BLOCK,
        data_edit::{DataEdit, NewEntry},
        free_index::FreeIndexBlock,
        free_index_edit::FreeIndexEdit,
    },
    fault::Structure,
    units::{FileBlock, Sector},
};

use super::{Directory, DirectoryHint, DirectoryStore, check_data_block, has_room};
use crate::name_tree::BlockBuffer;
use uxfs_volume::error::{OperationError, Result};

/// Where an entry was put.
pub(super) struct Stored {
    pub(super) data_block: u32,
    pub(super) pointer: DataPointer,
    /// The length of the data block's longest free region.
    pub(super) best_bytes: u16,
}

impl<'fs, S: DirectoryStore<'fs>> Directory<'_, S> {
    /// Puts an entry into a data block which an index says to have room. The caller holds the blocks at `held`.
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

    /// Puts an entry into the data block that was used last, if it has room.
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

    /// Puts an entry into a data block that does not exist yet.
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

    /// A data block of a node directory with room for `size_bytes`, and its best: the last one, or the first that the
    /// free index knows.
    pub(super) fn find_room(&mut self, size_bytes: u32) -> Result<Option<(u32, u16)>> {
        let blocks = u32::try_from(self.store.size_bytes() / self.block_bytes()).unwrap_or(u32::MAX);
        let last = blocks.saturating_sub(1);
        let best = self.best_of(last)?;
        if has_room(best, size_bytes) {
            return Ok(Some((last, best)));
        }
        // The last free index block ends before this one.
        let per_block = self.bests_per_block();
        for number in 0..=last / per_block {
            let (place, _) = self.free_index_of(number * per_block);
            if !self.store.is_mapped(place) {
                continue;
            }
            let buffer = self.store.edit(Structure::DirectoryFreeIndex, place)?;
            let found = self.bests_in(&buffer, place, |bests| {
                let index = bests.iter().position(|best| has_room(best.get(), size_bytes))?;
                Some((index, bests.get(index)?.get()))
            })?;
            if let Some((index, best)) = found {
                let index = u32::try_from(index).unwrap_or(u32::MAX);
                return Ok(Some(((number * per_block).saturating_add(index), best)));
            }
        }
        Ok(None)
    }

    fn bests_in<T>(
        &self,
        bytes: &[u8],
        place: FileBlock,
        use_bests: impl FnOnce(&[zerocopy::big_endian::U16]) -> T,
    ) -> Result<T> {
        let view = FreeIndexBlock::parse(bytes, self.geometry())
            .map_err(|fault| self.store.corruption(Structure::DirectoryFreeIndex, place, fault))?;
        Ok(use_bests(view.bests))
    }

    /// The entry of the free index for a data block.
    fn best_of(&mut self, data_block: u32) -> Result<u16> {
        let (place, index) = self.free_index_of(data_block);
        if !self.store.is_mapped(place) {
            return Ok(NO_DATA_BLOCK);
        }
        let buffer = self.store.edit(Structure::DirectoryFreeIndex, place)?;
        self.bests_in(&buffer, place, |bests| bests.get(index).map_or(NO_DATA_BLOCK, |best| best.get()))
    }

    /// Says in the free index what the longest free region of a data block is. Free index blocks come and go with the
    /// data blocks that they know.
    pub(super) fn set_free_index(&mut self, data_block: u32, best_bytes: u16) -> Result<()> {
        let (place, index) = self.free_index_of(data_block);
        let structure = Structure::DirectoryFreeIndex;
        if !self.store.is_mapped(place) {
            if best_bytes == NO_DATA_BLOCK {
                return Ok(());
            }
            let first = data_block - data_block % self.bests_per_block();
            let mut buffer = self.store.create(structure, place)?;
            let identity = self.store.identity(buffer.sector());
            FreeIndexEdit::init(buffer.edit(), &identity, first).set_best(index, best_bytes);
            return Ok(());
        }
        let mut buffer = self.store.edit(structure, place)?;
        let mut free = FreeIndexEdit::new(buffer.edit());
        free.set_best(index, best_bytes);
        if best_bytes != NO_DATA_BLOCK {
            return Ok(());
        }
        free.trim();
        let is_empty = free.used() == 0;
        drop(buffer);
        if is_empty {
            return self.store.free(place);
        }
        Ok(())
    }
}
