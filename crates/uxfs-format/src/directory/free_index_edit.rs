//! Changing free index blocks.

use zerocopy::{
    FromBytes,
    big_endian::{U16, U32},
};

use super::{
    NO_DATA_BLOCK,
    free_index::{FreeIndexHeader, MAGIC},
    header::DirectoryBlockHeader,
};
use crate::{
    convert::{low_u32, to_u64, to_usize},
    edit::Edit,
    field_table::OnDisk,
    name_tree::header_edit::BlockIdentity,
};

/// Where the number of bests lies.
const VALID_OFFSET_BYTES: usize = 52;
/// Where the number of existing data blocks lies.
const USED_OFFSET_BYTES: usize = 56;
const BEST_BYTES: usize = size_of::<u16>();

/// A free index block that is being changed.
#[derive(Debug)]
pub struct FreeIndexEdit<'a> {
    edit: Edit<'a>,
}

impl<'a> FreeIndexEdit<'a> {
    /// A block that is one already.
    pub fn new(edit: Edit<'a>) -> Self {
        Self { edit }
    }

    /// Makes the block one without bests; the first will be about `first_data_block`.
    pub fn init(mut edit: Edit<'a>, identity: &BlockIdentity, first_data_block: u32) -> Self {
        let none = U32::new(0);
        let header = FreeIndexHeader {
            header: DirectoryBlockHeader::new(MAGIC, identity),
            first_data_block: U32::new(first_data_block),
            valid: none,
            used: none,
            padding: none,
        };
        edit.put_value(0, &header);
        Self { edit }
    }

    fn field(&self, offset_bytes: usize) -> usize {
        let bytes = self.edit.bytes().get(offset_bytes..).and_then(<[u8]>::first_chunk).copied();
        to_usize(u32::from_be_bytes(bytes.unwrap_or_default()))
    }

    fn set_field(&mut self, offset_bytes: usize, value: usize) {
        self.edit.put_value(offset_bytes, &U32::new(low_u32(to_u64(value))));
    }

    /// Bests in the block.
    pub fn valid(&self) -> usize {
        self.field(VALID_OFFSET_BYTES)
    }

    /// Bests of data blocks that exist.
    pub fn used(&self) -> usize {
        self.field(USED_OFFSET_BYTES)
    }

    fn best(&self, index: usize) -> u16 {
        let bytes = self.edit.bytes().get(offset_of(index)..).and_then(<[u8]>::first_chunk).copied();
        u16::from_be_bytes(bytes.unwrap_or([0xff; 2]))
    }

    /// Says how long the longest free region of a data block is, or [`NO_DATA_BLOCK`]. The index is one that fits the
    /// block; data blocks between the last one known and this do not exist.
    pub fn set_best(&mut self, index: usize, length_bytes: u16) {
        let valid = self.valid();
        if index >= valid {
            let holes = index.saturating_sub(valid).saturating_add(1).saturating_mul(BEST_BYTES);
            self.edit.range(offset_of(valid), holes).fill(0xff);
            self.set_field(VALID_OFFSET_BYTES, index.saturating_add(1));
        }
        let (old, used) = (self.best(index), self.used());
        match (old == NO_DATA_BLOCK, length_bytes == NO_DATA_BLOCK) {
            (true, false) => self.set_field(USED_OFFSET_BYTES, used.saturating_add(1)),
            (false, true) => self.set_field(USED_OFFSET_BYTES, used.saturating_sub(1)),
            _ => {}
        }
        self.edit.put_value(offset_of(index), &U16::new(length_bytes));
    }

    /// Adds bests of existing data blocks behind all others: as many as fit.
    pub fn extend(&mut self, bests: &[u16]) {
        let (valid, used) = (self.valid(), self.used());
        let slots = self.edit.range(offset_of(valid), bests.len().saturating_mul(BEST_BYTES));
        for (slot, best) in slots.chunks_exact_mut(BEST_BYTES).zip(bests) {
            slot.copy_from_slice(&best.to_be_bytes());
        }
        self.set_field(VALID_OFFSET_BYTES, valid.saturating_add(bests.len()));
        self.set_field(USED_OFFSET_BYTES, used.saturating_add(bests.len()));
    }

    /// Takes bests of data blocks that do not exist off the end.
    pub fn trim(&mut self) {
        let valid = self.valid();
        let bests = self.edit.bytes().get(offset_of(0)..offset_of(valid)).unwrap_or_default();
        let Ok(bests) = <[U16]>::ref_from_bytes(bests) else { return };
        let last = bests.iter().rposition(|best| best.get() != NO_DATA_BLOCK);
        let count = last.map_or(0, |last| last.saturating_add(1));
        if count < valid {
            self.edit.clear(offset_of(count), offset_of(valid).saturating_sub(offset_of(count)));
            self.set_field(VALID_OFFSET_BYTES, count);
        }
    }
}

fn offset_of(index: usize) -> usize {
    FreeIndexHeader::SIZE_BYTES.saturating_add(index.saturating_mul(BEST_BYTES))
}

#[cfg(test)]
#[path = "free_index_edit_tests.rs"]
mod tests;
