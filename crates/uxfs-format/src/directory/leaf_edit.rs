//! Changing the leaves of directories, of both kinds.

use zerocopy::{
    FromBytes,
    big_endian::{U16, U32},
};

use super::{
    DataPointer, NO_DATA_BLOCK, index_edit,
    leaf::{LeafBlock, LeafEntry, LeafHeader, LeafTail, NODE_MAGIC, SINGLE_MAGIC},
};
use crate::{
    convert::{low_u16, low_u32, to_u64, to_usize},
    edit::Edit,
    field_table::OnDisk,
    name_tree::{
        entry_array::{self, ENTRIES_OFFSET_BYTES, ENTRY_BYTES, MoveSide},
        header::{BlockHeader, magic_of},
        header_edit::BlockIdentity,
    },
};

/// Where the magic number lies.
const MAGIC_OFFSET_BYTES: usize = 8;
/// Where the number of removed entries lies.
const STALE_OFFSET_BYTES: usize = 58;
/// Bytes of a best.
const BEST_BYTES: usize = size_of::<u16>();

/// A leaf that is being changed.
#[derive(Debug)]
pub struct LeafEdit<'a> {
    edit: Edit<'a>,
}

/// The result of an insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    /// The entry is there.
    Done {
        /// The largest hash, where it is another one now: of the new entry, or because a removed one made place for it.
        new_last: Option<u32>,
    },
    /// There is no room.
    Full,
}

impl<'a> LeafEdit<'a> {
    /// A block that is a leaf already.
    pub fn new(edit: Edit<'a>) -> Self {
        Self { edit }
    }

    /// Makes the block the one leaf of a leaf directory, without entries and bests.
    pub fn init_single(edit: Edit<'a>, identity: &BlockIdentity) -> Self {
        let mut leaf = Self::init(edit, identity, SINGLE_MAGIC);
        leaf.set_best_count(0);
        leaf
    }

    /// Makes the block a leaf of a node directory, without entries.
    pub fn init_node(edit: Edit<'a>, identity: &BlockIdentity) -> Self {
        Self::init(edit, identity, NODE_MAGIC)
    }

    fn init(mut edit: Edit<'a>, identity: &BlockIdentity, magic: u16) -> Self {
        let info = BlockHeader::new(magic, identity);
        let none = U16::new(0);
        edit.put_value(0, &LeafHeader { info, count: none, stale: none, padding: U32::new(0) });
        Self { edit }
    }

    fn is_single(&self) -> bool {
        magic_of(self.edit.bytes()) == Some(SINGLE_MAGIC)
    }

    fn count(&self) -> usize {
        entry_array::count(self.edit.bytes())
    }

    fn stale(&self) -> usize {
        stale_of(self.edit.bytes())
    }

    fn set_stale(&mut self, stale: usize) {
        self.edit.put_value(STALE_OFFSET_BYTES, &U16::new(low_u16(to_u64(stale))));
    }

    fn entries(&self) -> &[LeafEntry] {
        index_edit::entries(self.edit.bytes(), ENTRIES_OFFSET_BYTES, self.count())
    }

    /// Entries that fit beside as many bests as there are and `more_bests`.
    fn most_entries(&self, more_bests: usize) -> usize {
        if !self.is_single() {
            return entry_array::most(self.edit.len());
        }
        let bests = self.best_count().saturating_add(more_bests).saturating_mul(BEST_BYTES);
        let taken = ENTRIES_OFFSET_BYTES.saturating_add(LeafTail::SIZE_BYTES).saturating_add(bests);
        self.edit.len().saturating_sub(taken) / ENTRY_BYTES
    }

    /// Whether the one leaf has room for an entry and `more_bests` more bests, with removed entries squeezed out if need
    /// be.
    pub fn has_room(&self, more_bests: usize) -> bool {
        self.count().saturating_sub(self.stale()) < self.most_entries(more_bests)
    }

    /// Makes room for `more_bests` bests and an entry, where [`has_room`](Self::has_room) says that there is.
    pub fn make_room(&mut self, more_bests: usize) {
        let most = self.most_entries(more_bests);
        let needed = if self.stale() == 0 { self.count().saturating_add(1) } else { self.count() };
        if needed > most {
            self.squeeze();
        }
    }

    /// Adds an entry behind those of the same hash.
    #[inline]
    pub fn insert(&mut self, hash: u32, pointer: DataPointer) -> Inserted {
        let (count, before) = (self.count(), self.last_hash());
        let place = index_edit::place_of(self.entries(), hash);
        let has_room = count < self.most_entries(0);
        if self.stale() > 0
            && let Some(removed) = index_edit::nearest_removed(self.entries(), place, !has_room)
        {
            let base = ENTRIES_OFFSET_BYTES;
            index_edit::insert_over(&mut self.edit, base, place, removed, (hash, pointer));
            self.set_stale(self.stale().saturating_sub(1));
            return Inserted::Done { new_last: self.last_hash().filter(|last| Some(*last) != before) };
        }
        if !has_room {
            return Inserted::Full;
        }
        entry_array::insert(&mut self.edit, place, entry_array::pair(hash, pointer.get()));
        Inserted::Done { new_last: (before != Some(hash) && place == count).then_some(hash) }
    }

    /// Adds an entry if its hash lies between those of others and there is room, and no removed entry that would be used
    /// first. The largest hash stays what it is.
    #[inline]
    pub fn insert_between(&mut self, hash: u32, pointer: DataPointer) -> bool {
        let entries = self.entries();
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return false };
        let is_between = first.hash.get() <= hash && hash <= last.hash.get();
        if !is_between || self.stale() > 0 || self.count() >= self.most_entries(0) {
            return false;
        }
        let place = index_edit::place_of(entries, hash);
        entry_array::insert(&mut self.edit, place, entry_array::pair(hash, pointer.get()));
        true
    }

    /// Adds an entry behind all others; its hash is not smaller than theirs. `false` where there is no room.
    pub fn push(&mut self, hash: u32, pointer: DataPointer) -> bool {
        let count = self.count();
        if count >= self.most_entries(0) {
            return false;
        }
        entry_array::insert(&mut self.edit, count, entry_array::pair(hash, pointer.get()));
        true
    }

    /// Adds entries behind all others, as [`push`](Self::push) would, at once.
    pub fn extend(&mut self, index: &[(u32, DataPointer)]) -> bool {
        let count = self.count();
        let all = count.saturating_add(index.len());
        if all > self.most_entries(0) {
            return false;
        }
        let length = index.len().saturating_mul(ENTRY_BYTES);
        let slots = self.edit.range(entry_array::offset_of(count), length).chunks_exact_mut(ENTRY_BYTES);
        for (slot, (hash, pointer)) in slots.zip(index) {
            slot.copy_from_slice(&entry_array::pair(*hash, pointer.get()));
        }
        entry_array::set_count(&mut self.edit, all);
        true
    }

    /// The largest hash, removed entries included.
    pub fn last_hash(&self) -> Option<u32> {
        last_hash(self.edit.bytes())
    }

    /// Takes an entry out, so that its place can be used again.
    pub fn remove(&mut self, index: usize) {
        index_edit::mark_removed(&mut self.edit, ENTRIES_OFFSET_BYTES, index);
        self.set_stale(self.stale().saturating_add(1));
    }

    /// Takes removed entries out for good.
    pub fn squeeze(&mut self) {
        if self.stale() == 0 {
            return;
        }
        let count = self.count();
        let live = index_edit::squeeze(&mut self.edit, ENTRIES_OFFSET_BYTES, count);
        entry_array::set_count(&mut self.edit, live);
        self.set_stale(0);
    }

    /// Moves the later half of the entries into `right`, which has none.
    pub fn split_off(&mut self, right: &mut LeafEdit<'_>) {
        self.squeeze();
        let (count, middle) = (self.count(), self.count() / 2);
        let moved = entry_array::bytes_of(self.edit.bytes(), middle, count);
        entry_array::add(&mut right.edit, moved, MoveSide::Back);
        entry_array::set_count(&mut self.edit, middle);
    }

    /// Takes in all entries of a neighbour, `other`, that are not removed; its own removed ones go as well.
    pub fn take_all(&mut self, other: &[u8], place: MoveSide) {
        self.squeeze();
        let entries = index_edit::entries(other, ENTRIES_OFFSET_BYTES, entry_array::count(other));
        let live = entries.iter().filter(|entry| entry.pointer().is_some());
        let added = live.clone().count();
        let count = self.count();
        let mut at = match place {
            MoveSide::Front => {
                entry_array::shift(&mut self.edit, 0, count, added);
                0
            }
            MoveSide::Back => count,
        };
        for entry in live {
            let bytes = entry_array::pair(entry.hash.get(), entry.address.get());
            self.edit.put(entry_array::offset_of(at), &bytes);
            at = at.saturating_add(1);
        }
        entry_array::set_count(&mut self.edit, count.saturating_add(added));
    }

    /// Turns the one leaf into a leaf of a node directory.
    pub fn become_node(&mut self) {
        self.edit.put_value(MAGIC_OFFSET_BYTES, &U16::new(NODE_MAGIC));
        let end = entry_array::offset_of(self.count());
        self.edit.clear(end, self.edit.len().saturating_sub(end));
    }

    /// Turns the only leaf of a node directory into that of a leaf directory. `false` where entries and bests do not
    /// fit: then nothing has changed, but for removed entries that are gone.
    pub fn become_single(&mut self, bests: &[U16]) -> bool {
        self.squeeze();
        let end = entry_array::offset_of(self.count());
        let taken = bests.len().saturating_mul(BEST_BYTES).saturating_add(LeafTail::SIZE_BYTES);
        let Some(start) = self.edit.len().checked_sub(taken).filter(|start| *start >= end) else {
            return false;
        };
        self.edit.put_value(MAGIC_OFFSET_BYTES, &U16::new(SINGLE_MAGIC));
        self.edit.clear(end, start.saturating_sub(end));
        self.set_best_count(bests.len());
        for (index, best) in bests.iter().enumerate() {
            self.edit.put_value(start.saturating_add(index.saturating_mul(BEST_BYTES)), best);
        }
        true
    }

    fn tail_offset(&self) -> usize {
        self.edit.len().saturating_sub(LeafTail::SIZE_BYTES)
    }

    /// Data blocks that the one leaf knows.
    pub fn best_count(&self) -> usize {
        LeafTail::ref_from_suffix(self.edit.bytes()).map_or(0, |(_, tail)| to_usize(tail.best_count.get()))
    }

    fn set_best_count(&mut self, count: usize) {
        let best_count = U32::new(low_u32(to_u64(count)));
        self.edit.put_value(self.tail_offset(), &LeafTail { best_count });
    }

    fn best_offset(&self, index: usize, count: usize) -> usize {
        let behind = count.saturating_sub(index).saturating_mul(BEST_BYTES);
        self.tail_offset().saturating_sub(behind)
    }

    /// Says how long the longest free region of a data block is.
    pub fn set_best(&mut self, index: usize, length_bytes: u16) {
        let offset = self.best_offset(index, self.best_count());
        self.edit.put_value(offset, &U16::new(length_bytes));
    }

    /// Adds a best behind all others: room has been made for it.
    pub fn push_best(&mut self, length_bytes: u16) {
        let count = self.best_count();
        let (from, to) = (self.best_offset(0, count), self.best_offset(0, count.saturating_add(1)));
        self.edit.copy_within(from, to, count.saturating_mul(BEST_BYTES));
        self.set_best_count(count.saturating_add(1));
        self.set_best(count, length_bytes);
    }

    /// Takes bests of data blocks that do not exist off the end.
    pub fn trim_bests(&mut self) {
        let old = self.best_count();
        let from = self.best_offset(0, old);
        let bests = self.edit.bytes().get(from..self.tail_offset()).unwrap_or_default();
        let Ok(bests) = <[U16]>::ref_from_bytes(bests) else { return };
        let last = bests.iter().rposition(|best| best.get() != NO_DATA_BLOCK);
        let count = last.map_or(0, |last| last.saturating_add(1));
        if count == old {
            return;
        }
        let to = self.best_offset(0, count);
        self.edit.copy_within(from, to, count.saturating_mul(BEST_BYTES));
        self.edit.clear(from, to.saturating_sub(from));
        self.set_best_count(count);
    }
}

fn stale_of(bytes: &[u8]) -> usize {
    let stale = bytes.get(STALE_OFFSET_BYTES..).and_then(<[u8]>::first_chunk).copied();
    u16::from_be_bytes(stale.unwrap_or_default()).into()
}

/// Entries of a leaf that are not removed, and how many fit into one without bests.
pub fn fill(leaf: &[u8]) -> (usize, usize) {
    let live = entry_array::count(leaf).saturating_sub(stale_of(leaf));
    (live, entry_array::most(leaf.len()))
}

/// The largest hash of a leaf, removed entries included.
pub fn last_hash(leaf: &[u8]) -> Option<u32> {
    let last = entry_array::count(leaf).checked_sub(1)?;
    let entry = leaf.get(entry_array::offset_of(last)..)?;
    LeafEntry::prefix_of(entry).map(|entry| entry.hash.get())
}

impl LeafBlock<'_> {
    /// Entries with exactly this hash that are not removed, with their indexes.
    pub fn matches(&self, hash: u32) -> impl Iterator<Item = (usize, DataPointer)> + '_ {
        let first = self.first_at_or_after(hash);
        let from = self.entries.get(first..).unwrap_or_default();
        let same = from.iter().take_while(move |entry| entry.hash.get() == hash);
        (first..).zip(same).filter_map(|(index, entry)| Some((index, entry.pointer()?)))
    }
}

#[cfg(test)]
#[path = "leaf_edit_tests.rs"]
mod tests;
