//! The length of a value inside a leaf, where the one that an entry says cannot be.
//!
//! The header counts the bytes that all names and values take, each rounded up to four. What the other entries leave belongs to this one.
//! Up to three bytes of it may be padding: zeros at the end are taken for that, and the length is a guess then.

use uxfs_format::{
    attribute::{flags::AttributeFlags, leaf::LeafBlock, parent_pointer::ParentRecord},
    geometry::Geometry,
};

use super::entry::{entry, header, is_apart, is_right};
use crate::attribute::access_list::is_list;

/// Lengths of value and name before a name.
const HEAD_BYTES: usize = 3;
const ALIGNMENT_BYTES: usize = 4;
/// Of an access control list: its count, and each entry.
const LIST_HEAD_BYTES: usize = 4;
const LIST_ENTRY_BYTES: usize = 12;
/// Of file capabilities, version 2 and 3.
const CAPABILITY_BYTES: [usize; 2] = [20, 24];

/// Sets the length of a value inside a leaf. Gives whether it is a guess; `None` where no other one fits.
pub(super) fn fit(bytes: &mut [u8], index: usize, geometry: &Geometry) -> Option<bool> {
    let found = *entry(bytes, index)?;
    if !found.flags().contains(AttributeFlags::LOCAL) {
        return None;
    }
    let start = usize::from(found.name_offset.get());
    let name_bytes = usize::from(*bytes.get(start + 2)?);
    let stored_bytes = left_by_others(bytes, index, geometry)?;
    let most = stored_bytes.checked_sub(HEAD_BYTES + name_bytes)?;
    let value_at = start + HEAD_BYTES + name_bytes;
    let value = bytes.get(value_at..value_at + most)?;
    let zeros = value.iter().rev().take(ALIGNMENT_BYTES - 1).take_while(|byte| **byte == 0).count();
    let name = bytes.get(start + HEAD_BYTES..value_at)?;
    let known = (most.saturating_sub(ALIGNMENT_BYTES - 1)..=most)
        .rev()
        .find(|length| has_known_length(found.flags(), name, *length));
    let length = u16::try_from(known.unwrap_or(most.saturating_sub(zeros))).ok()?;
    let before = *bytes.get(start..)?.first_chunk::<2>()?;
    if before == length.to_be_bytes() {
        return None;
    }
    *bytes.get_mut(start..)?.first_chunk_mut()? = length.to_be_bytes();
    if is_right(bytes, index, geometry) && is_apart(bytes, index, geometry) {
        return Some(zeros > 0 && known.is_none());
    }
    *bytes.get_mut(start..)?.first_chunk_mut()? = before;
    None
}

/// Whether values of this name have lengths of their own, and this is one.
fn has_known_length(flags: AttributeFlags, name: &[u8], length_bytes: usize) -> bool {
    if flags.contains(AttributeFlags::PARENT) {
        return length_bytes == size_of::<ParentRecord>();
    }
    if flags.contains(AttributeFlags::ROOT) && is_list(name) {
        return length_bytes >= LIST_HEAD_BYTES
            && (length_bytes - LIST_HEAD_BYTES).is_multiple_of(LIST_ENTRY_BYTES);
    }
    flags.contains(AttributeFlags::SECURE)
        && name == b"capability"
        && CAPABILITY_BYTES.contains(&length_bytes)
}

/// The one entry whose value is longer or shorter than it says, where the header counts other bytes than the entries take: what follows the
/// value is not empty, or what it has is free. A header without holes whose numbers agree is right.
pub(super) fn wrong(bytes: &mut [u8], geometry: &Geometry) -> Option<usize> {
    let used_bytes = usize::from(header(bytes)?.used_bytes.get());
    let leaf = LeafBlock::parse(bytes, geometry).ok()?;
    let lengths: Vec<usize> =
        (0..leaf.entries.len()).map(|index| stored_bytes(&leaf, index)).collect::<Option<_>>()?;
    let all_bytes: usize = lengths.iter().sum();
    let mut starts: Vec<usize> = leaf.entries.iter().map(|entry| entry.name_offset.get().into()).collect();
    starts.sort_unstable();
    let names_bytes = bytes.len().checked_sub(leaf.first_used() as usize)?;
    let is_sure = leaf.header.has_holes == 0 && names_bytes == used_bytes;
    let is_wrong = |(index, found): &(usize, &usize)| {
        let own = leaf.entries.get(*index).filter(|own| own.flags().contains(AttributeFlags::LOCAL))?;
        let start = usize::from(own.name_offset.get());
        let end = start.checked_add(used_bytes.checked_add(**found)?.checked_sub(all_bytes)?)?;
        let found_end = start.checked_add(**found)?;
        if found_end < end {
            let next = starts.get(starts.partition_point(|other| *other <= start));
            let is_free = next.is_none_or(|next| *next >= end);
            let has_data = bytes.get(found_end..end)?.iter().any(|byte| *byte != 0);
            // Without holes the next name begins where this one ends.
            let is_gap = is_sure && next.copied().unwrap_or(bytes.len()) == end;
            return Some(is_free && (has_data || is_gap));
        }
        let mut free = leaf.header.free_map.iter().map(|region| {
            let base_bytes = usize::from(region.base_bytes.get());
            base_bytes..base_bytes + usize::from(region.size_bytes.get())
        });
        Some(end > start && free.any(|region| region.start < found_end && end < region.end))
    };
    let mut wrong = lengths.iter().enumerate().filter(|entry| is_wrong(entry).unwrap_or(false));
    let (index, _) = wrong.next()?;
    wrong.next().is_none().then_some(index)
}

/// Bytes that the header counts and no other entry takes.
fn left_by_others(bytes: &mut [u8], index: usize, geometry: &Geometry) -> Option<usize> {
    let used_bytes = usize::from(header(bytes)?.used_bytes.get());
    let leaf = LeafBlock::parse(bytes, geometry).ok()?;
    let others = (0..leaf.entries.len()).filter(|other| *other != index);
    let others = others
        .map(|other| stored_bytes(&leaf, other))
        .try_fold(0_usize, |sum, length| sum.checked_add(length?))?;
    used_bytes.checked_sub(others)
}

/// Bytes that name and value of an entry take.
fn stored_bytes(leaf: &LeafBlock<'_>, index: usize) -> Option<usize> {
    Some(leaf.attribute(u32::try_from(index).ok()?)?.stored_bytes() as usize)
}
