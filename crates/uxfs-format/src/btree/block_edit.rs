//! Views of btree blocks that are being changed.
//!
//! Each method leaves the header's count in step with the contents and marks exactly the bytes that it changes.
//! Positions outside the contents, or more entries than fit, change nothing: callers have compared them before, and a
//! mistake must not become a panic.

use std::marker::PhantomData;

use super::{
    BtreeKind,
    block::{BtreeBlock, Pointer},
    block_header::{BlockHeader, BlockIdentity},
};
use crate::{
    convert::{low_u16, low_u32, to_u64, to_usize},
    edit::Edit,
    field_table::OnDisk,
};

/// One block of a tree, to be changed.
#[derive(Debug)]
pub struct BlockEdit<'a, K: BtreeKind> {
    edit: Edit<'a>,
    kind: PhantomData<K>,
}

/// One of the arrays in a block: where it begins and how large an element is.
#[derive(Debug, Clone, Copy)]
struct Array {
    offset_bytes: usize,
    element_bytes: usize,
}

impl Array {
    fn at(self, index: usize) -> usize {
        self.offset_bytes.saturating_add(index.saturating_mul(self.element_bytes))
    }

    fn bytes(self, count: usize) -> usize {
        count.saturating_mul(self.element_bytes)
    }
}

impl<'a, K: BtreeKind> BlockEdit<'a, K> {
    /// Changes the block that `edit` is of.
    #[inline]
    pub fn new(edit: Edit<'a>) -> Self {
        Self { edit, kind: PhantomData }
    }

    /// Makes the bytes a block of `level` without contents or siblings.
    pub fn format(&mut self, level: u16, place: BlockIdentity) {
        self.edit.put_value(0, &K::Header::of_new_block(K::MAGIC, level, place));
    }

    /// The block as it is now; `None` where the bytes are too few for a header.
    #[inline]
    pub fn view(&self) -> Option<BtreeBlock<'_, K>> {
        BtreeBlock::parse(self.edit.bytes()).ok()
    }

    /// Records or entries.
    pub fn len(&self) -> usize {
        self.view().map_or(0, |view| view.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn capacity(&self) -> usize {
        self.view().map_or(0, |view| to_usize(view.capacity()))
    }

    fn level(&self) -> u16 {
        self.view().map_or(0, |view| view.level())
    }

    fn records() -> Array {
        Array { offset_bytes: K::Header::SIZE_BYTES, element_bytes: K::Record::SIZE_BYTES }
    }

    fn keys() -> Array {
        Array { offset_bytes: K::Header::SIZE_BYTES, element_bytes: K::Key::SIZE_BYTES }
    }

    fn pointers(&self) -> Array {
        let block_size_bytes = low_u32(to_u64(self.edit.len()));
        let entries = to_usize(K::max_node_entries(block_size_bytes));
        Array { offset_bytes: Self::keys().at(entries), element_bytes: size_of::<Pointer<K>>() }
    }

    /// The arrays of a block of this level: records, or keys and pointers.
    fn arrays(&self) -> [Option<Array>; 2] {
        match self.level() {
            0 => [Some(Self::records()), None],
            _ => [Some(Self::keys()), Some(self.pointers())],
        }
    }

    fn header(&mut self, change: impl FnOnce(&mut K::Header)) {
        if let Some(header) = self.edit.value::<K::Header>(0) {
            change(header);
        }
    }

    fn set_len(&mut self, count: usize) {
        self.header(|header| header.set_record_count(low_u16(to_u64(count))));
    }

    /// Sets the previous block of the level.
    pub fn set_left_sibling(&mut self, pointer: Pointer<K>) {
        self.header(|header| header.set_left_sibling(pointer));
    }

    /// Sets the next block of the level.
    pub fn set_right_sibling(&mut self, pointer: Pointer<K>) {
        self.header(|header| header.set_right_sibling(pointer));
    }

    /// Puts a record before the one at `index`, or behind the last.
    pub fn insert_record(&mut self, index: usize, record: &K::Record) {
        if self.level() == 0 && self.open(index) {
            self.edit.put_value(Self::records().at(index), record);
        }
    }

    /// Puts an entry before the one at `index`, or behind the last.
    pub fn insert_entry(&mut self, index: usize, key: &K::Key, pointer: &Pointer<K>) {
        if self.level() > 0 && self.open(index) {
            let pointers = self.pointers();
            self.edit.put_value(Self::keys().at(index), key);
            self.edit.put_value(pointers.at(index), pointer);
        }
    }

    /// Makes room for one more at `index`.
    fn open(&mut self, index: usize) -> bool {
        let count = self.len();
        if index > count || count >= self.capacity() {
            return false;
        }
        for array in self.arrays().into_iter().flatten() {
            let moved = array.bytes(count.saturating_sub(index));
            self.edit.copy_within(array.at(index), array.at(index.saturating_add(1)), moved);
        }
        self.set_len(count.saturating_add(1));
        true
    }

    /// Takes the record or entry at `index` out.
    pub fn remove(&mut self, index: usize) {
        self.remove_range(index, 1);
    }

    /// Takes the first `count` out.
    pub fn drop_front(&mut self, count: usize) {
        self.remove_range(0, count);
    }

    fn remove_range(&mut self, index: usize, removed: usize) {
        let count = self.len();
        let behind = index.saturating_add(removed);
        if behind > count {
            return;
        }
        for array in self.arrays().into_iter().flatten() {
            let moved = array.bytes(count.saturating_sub(behind));
            self.edit.copy_within(array.at(behind), array.at(index), moved);
        }
        self.set_len(count.saturating_sub(removed));
    }

    /// Keeps only the first `count`.
    pub fn truncate(&mut self, count: usize) {
        if count < self.len() {
            self.set_len(count);
        }
    }

    /// Replaces the record at `index`.
    pub fn set_record(&mut self, index: usize, record: &K::Record) {
        if self.level() == 0 && index < self.len() {
            self.edit.put_value(Self::records().at(index), record);
        }
    }

    /// Replaces the key at `index`.
    pub fn set_key(&mut self, index: usize, key: &K::Key) {
        if self.level() > 0 && index < self.len() {
            self.edit.put_value(Self::keys().at(index), key);
        }
    }

    /// Adds `count` records or entries of a block of the same level, from the one at `first` on, behind the last.
    pub fn append(&mut self, source: &BtreeBlock<'_, K>, first: usize, count: usize) {
        self.insert_from(self.len(), source, first, count);
    }

    /// Adds `count` records or entries of a block of the same level, from the one at `first` on, before the first.
    pub fn prepend(&mut self, source: &BtreeBlock<'_, K>, first: usize, count: usize) {
        self.insert_from(0, source, first, count);
    }

    fn insert_from(&mut self, index: usize, source: &BtreeBlock<'_, K>, first: usize, count: usize) {
        let (length, end) = (self.len(), first.saturating_add(count));
        let fits = length.saturating_add(count) <= self.capacity();
        if source.level() != self.level() || end > source.len() || !fits {
            return;
        }
        for array in self.arrays().into_iter().flatten() {
            let moved = array.bytes(length.saturating_sub(index));
            self.edit.copy_within(array.at(index), array.at(index.saturating_add(count)), moved);
        }
        if self.level() == 0 {
            put_all(&mut self.edit, Self::records().at(index), source.records().get(first..end));
        } else {
            let pointers = self.pointers();
            put_all(&mut self.edit, Self::keys().at(index), source.keys().get(first..end));
            put_all(&mut self.edit, pointers.at(index), source.pointers().get(first..end));
        }
        self.set_len(length.saturating_add(count));
    }

    /// Puts records behind the last, as many as fit; gives how many.
    pub fn append_records(&mut self, records: &[K::Record]) -> usize {
        let length = self.len();
        let count = records.len().min(self.capacity().saturating_sub(length));
        if self.level() > 0 {
            return 0;
        }
        put_all(&mut self.edit, Self::records().at(length), records.get(..count));
        self.set_len(length.saturating_add(count));
        count
    }
}

fn put_all<T: zerocopy::IntoBytes + zerocopy::Immutable>(
    edit: &mut Edit<'_>,
    offset_bytes: usize,
    values: Option<&[T]>,
) {
    edit.put(offset_bytes, zerocopy::IntoBytes::as_bytes(values.unwrap_or_default()));
}

/// The key of a node entry whose child is this block: where it begins, and in trees of overlapping extents how far
/// anything in it reaches. `None` for an empty block.
pub fn key_of_block<K: BtreeKind>(block: &BtreeBlock<'_, K>) -> Option<K::Key> {
    if block.is_leaf() {
        let (first, rest) = block.records().split_first()?;
        let mut key = K::key_of_record(first);
        if K::HAS_HIGH_KEYS {
            rest.iter().for_each(|record| K::widen_key(&mut key, &K::key_of_record(record)));
        }
        return Some(key);
    }
    let (first, rest) = block.keys().split_first()?;
    let mut key = *first;
    if K::HAS_HIGH_KEYS {
        rest.iter().for_each(|other| K::widen_key(&mut key, other));
    }
    Some(key)
}

#[cfg(test)]
#[path = "block_edit_tests.rs"]
mod tests;
