//! The free index of a node directory: the longest free region of each data block.

use uxfs_format::{
    directory::{NO_DATA_BLOCK, free_index::FreeIndexBlock, free_index_edit::FreeIndexEdit},
    fault::Structure,
    units::FileBlock,
};

use super::{Directory, DirectoryStore, has_room};
use crate::name_tree::BlockBuffer;
use uxfs_volume::error::Result;

impl<'fs, S: DirectoryStore<'fs>> Directory<'_, S> {
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

    /// The best of a data block in the free index.
    fn best_of(&mut self, data_block: u32) -> Result<u16> {
        let (place, index) = self.free_index_of(data_block);
        if !self.store.is_mapped(place) {
            return Ok(NO_DATA_BLOCK);
        }
        let buffer = self.store.edit(Structure::DirectoryFreeIndex, place)?;
        self.bests_in(&buffer, place, |bests| bests.get(index).map_or(NO_DATA_BLOCK, |best| best.get()))
    }

    /// Records the longest free region of a data block in the free index. A free index block exists as long as one of its data
    /// blocks does.
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
