//! The array of 8-byte entries that interior blocks and the leaves of directories share: a count behind the common
//! header, entries behind that.

use zerocopy::big_endian::U16;

use crate::{
    convert::{low_u16, to_u64, to_usize},
    edit::Edit,
};

/// Where the number of entries lies.
const COUNT_OFFSET_BYTES: usize = 56;
/// Where the first entry lies.
pub(crate) const ENTRIES_OFFSET_BYTES: usize = 64;
/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: usize = 8;

/// How many entries the block says to have, not more than fit.
#[inline]
pub(crate) fn count(bytes: &[u8]) -> usize {
    let count = bytes.get(COUNT_OFFSET_BYTES..).and_then(<[u8]>::first_chunk).copied();
    usize::from(u16::from_be_bytes(count.unwrap_or_default())).min(most(bytes.len()))
}

/// How many entries fit.
#[inline]
pub(crate) const fn most(block_size_bytes: usize) -> usize {
    block_size_bytes.saturating_sub(ENTRIES_OFFSET_BYTES) >> 3
}

/// Where an entry lies.
#[inline]
pub(crate) const fn offset_of(index: usize) -> usize {
    ENTRIES_OFFSET_BYTES.saturating_add(index.saturating_mul(ENTRY_BYTES))
}

/// Says how many entries there are.
#[inline]
pub(crate) fn set_count(edit: &mut Edit<'_>, count: usize) {
    edit.put_value(COUNT_OFFSET_BYTES, &U16::new(low_u16(to_u64(count))));
}

/// Moves the entries from `from` up to `end` so that they begin at `to`.
#[inline]
pub(crate) fn shift(edit: &mut Edit<'_>, from: usize, end: usize, to: usize) {
    let length_bytes = end.saturating_sub(from).saturating_mul(ENTRY_BYTES);
    edit.copy_within(offset_of(from), offset_of(to), length_bytes);
}

/// Puts an entry at `index`, those from there on move up by one.
#[inline]
pub(crate) fn insert(edit: &mut Edit<'_>, index: usize, entry: [u8; ENTRY_BYTES]) {
    let count = count(edit.bytes());
    shift(edit, index, count, index.saturating_add(1));
    edit.put(offset_of(index), &entry);
    set_count(edit, count.saturating_add(1));
}

/// Takes the entry at `index` out.
pub(crate) fn remove(edit: &mut Edit<'_>, index: usize) {
    let count = count(edit.bytes());
    shift(edit, index.saturating_add(1), count, index);
    set_count(edit, count.saturating_sub(1));
}

/// The bytes of the entries from `start` up to `end`.
pub(crate) fn bytes_of(bytes: &[u8], start: usize, end: usize) -> &[u8] {
    bytes.get(offset_of(start)..offset_of(end)).unwrap_or_default()
}

/// Puts entries of another block before those of this one, or behind them.
pub(crate) fn add(edit: &mut Edit<'_>, entries: &[u8], place: MoveSide) {
    let (before, more) = (count(edit.bytes()), entries.len() / ENTRY_BYTES);
    let at = match place {
        MoveSide::Front => {
            shift(edit, 0, before, more);
            0
        }
        MoveSide::Back => before,
    };
    edit.put(offset_of(at), entries);
    set_count(edit, before.saturating_add(more));
}

/// Keeps the first `count` entries only.
pub(crate) fn truncate(edit: &mut Edit<'_>, count: usize) {
    set_count(edit, count);
}

/// On which side of a block's own entries others are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveSide {
    /// Before its own.
    Front,
    /// Behind its own.
    Back,
}

/// A 32-bit pair as an entry.
#[inline]
pub(crate) const fn pair(first: u32, second: u32) -> [u8; ENTRY_BYTES] {
    let whole = to_u64(to_usize(first)).wrapping_shl(32) | to_u64(to_usize(second));
    whole.to_be_bytes()
}
