//! Index entries by rising hash, some of them removed: what leaves and single-block directories share.
//!
//! A removed entry keeps its hash and its place until a new one near it takes the place, or all are squeezed out.

use zerocopy::FromBytes;

use super::{DataPointer, leaf::LeafEntry};
use crate::{
    edit::Edit,
    name_tree::entry_array::{ENTRY_BYTES, pair},
};

/// How far from its place a new entry looks for a removed one, as long as there is room without.
const NEAR_ENTRIES: usize = 64;

/// The entries that begin at `base_bytes`.
pub(super) fn entries(bytes: &[u8], base_bytes: usize, count: usize) -> &[LeafEntry] {
    let from = bytes.get(base_bytes..).unwrap_or_default();
    <[LeafEntry]>::ref_from_prefix_with_elems(from, count).map_or(&[], |(entries, _)| entries)
}

/// Behind which entries one with `hash` belongs.
#[inline]
pub(super) fn place_of(entries: &[LeafEntry], hash: u32) -> usize {
    entries.partition_point(|entry| entry.hash.get() <= hash)
}

/// The removed entry that is nearest to `place`; one that is far away only if `is_needed`.
pub(super) fn nearest_removed(entries: &[LeafEntry], place: usize, is_needed: bool) -> Option<usize> {
    let (before, after) = entries.split_at_checked(place)?;
    let is_removed = |entry: &LeafEntry| entry.pointer().is_none();
    let limit = if is_needed { usize::MAX } else { NEAR_ENTRIES };
    let below = before.iter().rev().take(limit).position(is_removed);
    let limit = below.map_or(limit, |distance| limit.min(distance));
    match (after.iter().take(limit).position(is_removed), below) {
        (Some(distance), _) => place.checked_add(distance),
        (None, Some(distance)) => place.checked_sub(distance)?.checked_sub(1),
        (None, None) => None,
    }
}

/// Puts an entry that belongs at `place` where the removed one at `removed` is; those between move.
pub(super) fn insert_over(
    edit: &mut Edit<'_>,
    base_bytes: usize,
    place: usize,
    removed: usize,
    entry: (u32, DataPointer),
) {
    let offset = |index: usize| base_bytes.saturating_add(index.saturating_mul(ENTRY_BYTES));
    let index = if removed < place {
        let last = place.saturating_sub(1);
        let length = last.saturating_sub(removed).saturating_mul(ENTRY_BYTES);
        edit.copy_within(offset(removed.saturating_add(1)), offset(removed), length);
        last
    } else {
        let length = removed.saturating_sub(place).saturating_mul(ENTRY_BYTES);
        edit.copy_within(offset(place), offset(place.saturating_add(1)), length);
        place
    };
    put(edit, offset(index), entry);
}

/// Writes an entry.
#[inline]
pub(super) fn put(edit: &mut Edit<'_>, offset_bytes: usize, (hash, pointer): (u32, DataPointer)) {
    edit.put(offset_bytes, &pair(hash, pointer.get()));
}

/// Marks an entry as removed.
pub(super) fn mark_removed(edit: &mut Edit<'_>, base_bytes: usize, index: usize) {
    let offset = base_bytes.saturating_add(index.saturating_mul(ENTRY_BYTES));
    let address = offset.saturating_add(size_of::<u32>());
    edit.put(address, &DataPointer::NULL.get().to_be_bytes());
}

/// Moves the entries that are not removed together, to the front. Gives how many there are.
pub(super) fn squeeze(edit: &mut Edit<'_>, base_bytes: usize, count: usize) -> usize {
    let range = edit.range(base_bytes, count.saturating_mul(ENTRY_BYTES));
    let Ok(entries) = <[LeafEntry]>::mut_from_bytes(range) else { return count };
    let mut live = 0_usize;
    for index in 0..entries.len() {
        let Some(entry) = entries.get(index).copied() else { break };
        if entry.pointer().is_some() {
            if let Some(slot) = entries.get_mut(live) {
                *slot = entry;
            }
            live = live.saturating_add(1);
        }
    }
    live
}
