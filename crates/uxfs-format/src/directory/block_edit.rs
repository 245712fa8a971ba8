//! Changing the one block of a small directory: records in front, their index and its tail at the end.

use zerocopy::{FromBytes, big_endian::U32};

use super::{
    DataPointer, EntryFormat,
    block::{BlockTail, MAGIC},
    data::{self, DirectoryDataFault},
    data_edit::{DataEdit, FreeRegion, NewEntry},
    index_edit,
    leaf::LeafEntry,
    length_of,
};
use crate::{
    convert::{low_u32, to_u64, to_usize},
    edit::Edit,
    field_table::OnDisk,
    name_tree::{entry_array::ENTRY_BYTES, header_edit::BlockIdentity},
    units::InodeNumber,
};

/// Bytes of an index entry; the tail has as many.
pub const INDEX_ENTRY_BYTES: u32 = 8;

/// A single-block directory that is being changed.
#[derive(Debug)]
pub struct BlockEdit<'a> {
    edit: Edit<'a>,
    format: EntryFormat,
}

/// A hash and where its entry lies.
pub type IndexEntry = (u32, DataPointer);

impl<'a> BlockEdit<'a> {
    /// A block that is one already.
    pub fn new(edit: Edit<'a>, format: EntryFormat) -> Self {
        Self { edit, format }
    }

    /// Makes the block one with `entries`, which lie at the given places, in order; "." and ".." are the first two.
    /// `index` has an entry for each, by rising hash. The caller knows that all fit.
    pub fn init<'n>(
        edit: Edit<'a>,
        identity: &BlockIdentity,
        format: EntryFormat,
        entries: impl Iterator<Item = (u32, NewEntry<'n>)>,
        index: &[IndexEntry],
    ) -> Self {
        let end_bytes = length_of(edit.bytes()).saturating_sub(index_bytes(index.len()));
        let mut data = DataEdit::init_up_to(edit, identity, MAGIC, end_bytes, format);
        data.lay_out(entries);
        let mut block = Self { edit: data.edit, format };
        block.put_index(index);
        block
    }

    /// Turns the first data block of a directory, the only one left, into the whole of it. `false` where there is no room
    /// for `index` behind the last record: then nothing has changed.
    pub fn from_data(edit: Edit<'a>, format: EntryFormat, index: &[IndexEntry]) -> bool {
        let mut data = DataEdit::new(edit, format);
        let needed = index_bytes(index.len());
        if data.last_free().is_none_or(|last| last.length_bytes < needed) {
            return false;
        }
        data.give_up_end(needed);
        let mut block = Self { edit: data.edit, format };
        block.edit.put_value(0, &U32::new(MAGIC));
        block.put_index(index);
        true
    }

    /// Turns the block into a data block: its index becomes free room.
    pub fn become_data(mut self) {
        let end_bytes = length_of(self.edit.bytes());
        self.data().take_end(end_bytes);
        self.edit.put_value(0, &U32::new(data::MAGIC));
    }

    fn tail(&self) -> (usize, usize) {
        BlockTail::ref_from_suffix(self.edit.bytes())
            .map_or((0, 0), |(_, tail)| (to_usize(tail.count.get()), to_usize(tail.stale.get())))
    }

    fn tail_offset(&self) -> usize {
        self.edit.len().saturating_sub(BlockTail::SIZE_BYTES)
    }

    fn set_tail(&mut self, count: usize, stale: usize) {
        let number = |number: usize| U32::new(low_u32(to_u64(number)));
        let tail = BlockTail { count: number(count), stale: number(stale) };
        self.edit.put_value(self.tail_offset(), &tail);
    }

    /// Where an index of `count` entries begins, and the records end.
    fn index_start(&self, count: usize) -> usize {
        self.tail_offset().saturating_sub(count.saturating_mul(ENTRY_BYTES))
    }

    fn data(&mut self) -> DataEdit<'_> {
        let (count, _) = self.tail();
        let end_bytes = low_u32(to_u64(self.index_start(count)));
        DataEdit::up_to(self.edit.reborrow(), end_bytes, self.format)
    }

    fn entries(&self) -> &[LeafEntry] {
        let (count, _) = self.tail();
        index_edit::entries(self.edit.bytes(), self.index_start(count), count)
    }

    fn put_index(&mut self, index: &[IndexEntry]) {
        self.set_tail(index.len(), 0);
        let start = self.index_start(index.len());
        for (number, entry) in index.iter().enumerate() {
            let offset = start.saturating_add(number.saturating_mul(ENTRY_BYTES));
            index_edit::put(&mut self.edit, offset, *entry);
        }
    }

    /// Adds an entry. Gives where it lies, or `None` where there is no room in the block.
    pub fn insert(&mut self, hash: u32, entry: &NewEntry<'_>) -> Option<u32> {
        let size_bytes = self.format.entry_size_bytes(super::data_edit::name_length(entry.name));
        if !self.has_room(size_bytes) {
            let (_, stale) = self.tail();
            if stale == 0 {
                return None;
            }
            self.squeeze();
            if !self.has_room(size_bytes) {
                return None;
            }
        }
        let (_, stale) = self.tail();
        let mut data = self.data();
        if stale == 0 {
            data.give_up_end(INDEX_ENTRY_BYTES);
        }
        let region = data.room_for(size_bytes)?;
        let offset_bytes = data.insert(region, entry);
        let pointer = DataPointer::of_byte(offset_bytes.into())?;
        self.insert_index((hash, pointer));
        Some(offset_bytes)
    }

    /// Whether an entry and, where no removed one leaves its place, its index entry fit.
    fn has_room(&mut self, size_bytes: u32) -> bool {
        let (_, stale) = self.tail();
        let data = self.data();
        if stale > 0 {
            return data.room_for(size_bytes).is_some();
        }
        let Some(last) = data.last_free().filter(|last| last.length_bytes >= INDEX_ENTRY_BYTES) else {
            return false;
        };
        data.best().into_iter().any(|region: FreeRegion| {
            let taken = if region == last { INDEX_ENTRY_BYTES } else { 0 };
            region.length_bytes.saturating_sub(taken) >= size_bytes
        })
    }

    /// Adds an index entry: over a removed one, or in bytes that the data gave up.
    fn insert_index(&mut self, entry: IndexEntry) {
        let (count, stale) = self.tail();
        let start = self.index_start(count);
        let place = index_edit::place_of(self.entries(), entry.0);
        if let Some(removed) = index_edit::nearest_removed(self.entries(), place, true) {
            index_edit::insert_over(&mut self.edit, start, place, removed, entry);
            return self.set_tail(count, stale.saturating_sub(1));
        }
        let new_start = start.saturating_sub(ENTRY_BYTES);
        let before = place.saturating_mul(ENTRY_BYTES);
        self.edit.copy_within(start, new_start, before);
        index_edit::put(&mut self.edit, new_start.saturating_add(before), entry);
        self.set_tail(count.saturating_add(1), 0);
    }

    /// Takes removed entries out of the index, whose bytes become free.
    fn squeeze(&mut self) {
        let (count, _) = self.tail();
        let start = self.index_start(count);
        let live = index_edit::squeeze(&mut self.edit, start, count);
        let new_start = self.index_start(live);
        self.edit.copy_within(start, new_start, live.saturating_mul(ENTRY_BYTES));
        self.data().take_end(low_u32(to_u64(new_start)));
        self.set_tail(live, 0);
    }

    /// Takes an entry out: the one at `offset_bytes`, which the index entry at `index` points to.
    ///
    /// # Errors
    /// There is no entry.
    pub fn remove(&mut self, index: usize, offset_bytes: u32) -> Result<(), DirectoryDataFault> {
        self.data().remove(offset_bytes)?;
        let (count, stale) = self.tail();
        let start = self.index_start(count);
        index_edit::mark_removed(&mut self.edit, start, index);
        self.set_tail(count, stale.saturating_add(1));
        Ok(())
    }

    /// Lets the entry at `offset_bytes` lead to another inode.
    ///
    /// # Errors
    /// There is no entry.
    pub fn replace(
        &mut self,
        offset_bytes: u32,
        inode: InodeNumber,
        file_type_code: u8,
    ) -> Result<(), DirectoryDataFault> {
        self.data().replace(offset_bytes, inode, file_type_code)
    }
}

/// Bytes of an index of `count` entries and of the tail.
pub fn index_bytes(count: usize) -> u32 {
    low_u32(to_u64(count)).saturating_add(1).saturating_mul(INDEX_ENTRY_BYTES)
}

#[cfg(test)]
#[path = "block_edit_tests.rs"]
mod tests;
