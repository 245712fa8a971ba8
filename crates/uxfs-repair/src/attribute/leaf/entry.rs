//! One entry of a leaf: its fields, and whether they agree with the name to which it leads.

use uxfs_format::{
    attribute::{
        flags::AttributeFlags,
        is_valid_name,
        leaf::{LeafAttribute, LeafBlock, LeafEntry, LeafHeader, LeafValue},
        parent_pointer::{self, ParentRecord},
    },
    directory::name_hash::{self, NameRule},
    geometry::Geometry,
    units::FileBlock,
};
use zerocopy::FromBytes;

pub(super) const HEADER_BYTES: usize = 80;
pub(super) const ENTRY_BYTES: usize = 8;
/// Where the length of a value in blocks of its own lies in what an entry leads to.
const VALUE_LENGTH_BYTES: usize = 4;

pub(super) fn header(bytes: &mut [u8]) -> Option<&mut LeafHeader> {
    LeafHeader::mut_from_prefix(bytes).ok().map(|(header, _)| header)
}

pub(super) fn entry(bytes: &mut [u8], index: usize) -> Option<&mut LeafEntry> {
    let place = bytes.get_mut(HEADER_BYTES.checked_add(index.checked_mul(ENTRY_BYTES)?)?..)?;
    LeafEntry::mut_from_prefix(place).ok().map(|(entry, _)| entry)
}

/// Sets the length of a value in blocks of its own. Gives whether there is such a field.
pub(super) fn set_remote_length(bytes: &mut [u8], index: usize, length_bytes: u32) -> bool {
    let Some(start) = entry(bytes, index).map(|entry| usize::from(entry.name_offset.get())) else {
        return false;
    };
    let place = bytes.get_mut(start + VALUE_LENGTH_BYTES..).and_then(<[u8]>::first_chunk_mut);
    place.map(|place| *place = length_bytes.to_be_bytes()).is_some()
}

/// Sets the first block of a value in blocks of its own. Gives whether there is such a field.
pub(super) fn set_value_place(bytes: &mut [u8], index: usize, first_block: FileBlock) -> bool {
    let Ok(first_block) = u32::try_from(first_block.get()) else { return false };
    let Some(start) = entry(bytes, index).map(|entry| usize::from(entry.name_offset.get())) else {
        return false;
    };
    let place = bytes.get_mut(start..).and_then(<[u8]>::first_chunk_mut);
    place.map(|place| *place = first_block.to_be_bytes()).is_some()
}

/// Whether the hash of an entry that is marked as a parent pointer is that of the name alone: it is another attribute.
pub(super) fn is_marked_wrongly(bytes: &[u8], index: usize, geometry: &Geometry) -> bool {
    let leaf = LeafBlock::parse(bytes, geometry).ok();
    let attribute = leaf.and_then(|leaf| leaf.attribute(u32::try_from(index).ok()?));
    attribute.is_some_and(|attribute| {
        attribute.flags.contains(AttributeFlags::PARENT)
            && !attribute.name.is_empty()
            && name_hash::hash(attribute.name) == attribute.hash
    })
}

/// Takes flags from an entry. Gives whether there is one.
pub(super) fn clear_flags(bytes: &mut [u8], index: usize, flags: AttributeFlags) -> bool {
    entry(bytes, index).map(|entry| entry.flags &= !flags.bits()).is_some()
}

/// First block and length of a value in blocks of its own.
pub(super) fn remote_value(bytes: &[u8], index: usize, geometry: &Geometry) -> Option<(FileBlock, u32)> {
    let leaf = LeafBlock::parse(bytes, geometry).ok()?;
    match leaf.attribute(u32::try_from(index).ok()?)?.value {
        LeafValue::Remote { first_block, length_bytes } => Some((first_block, length_bytes)),
        LeafValue::Local(_) => None,
    }
}

/// Whether an entry has the form of a parent pointer.
pub(super) fn is_parent_pointer(bytes: &[u8], index: usize, geometry: &Geometry) -> bool {
    let leaf = LeafBlock::parse(bytes, geometry).ok();
    let attribute = leaf.and_then(|leaf| leaf.attribute(u32::try_from(index).ok()?));
    attribute.is_some_and(|attribute| {
        attribute.flags.contains(AttributeFlags::PARENT)
            && is_valid_name(attribute.flags, attribute.name)
            && matches!(attribute.value, LeafValue::Local(value) if value.len() == size_of::<ParentRecord>())
    })
}

pub(super) fn hash_of(attribute: &LeafAttribute<'_>, rule: NameRule) -> u32 {
    match attribute.value {
        LeafValue::Local(value) if attribute.flags.contains(AttributeFlags::PARENT) => {
            parent_pointer::hash_of(attribute.name, value, rule)
        }
        _ => name_hash::hash(attribute.name),
    }
}

/// Whether the name of an entry has its hash.
pub(super) fn is_right(bytes: &[u8], index: usize, geometry: &Geometry) -> bool {
    let Ok(leaf) = LeafBlock::parse(bytes, geometry) else { return false };
    let Some(attribute) = u32::try_from(index).ok().and_then(|index| leaf.attribute(index)) else {
        return false;
    };
    // Zero bytes have a hash of 0.
    let is_known = attribute.flags.namespace().is_some()
        && AttributeFlags::KNOWN.contains(attribute.flags)
        && !attribute.name.is_empty()
        && is_valid_name(attribute.flags, attribute.name);
    is_known && hash_of(&attribute, NameRule::of(geometry)) == attribute.hash
}

/// Whether name and value of an entry end before the next one begins.
pub(super) fn is_apart(bytes: &[u8], index: usize, geometry: &Geometry) -> bool {
    let Ok(leaf) = LeafBlock::parse(bytes, geometry) else { return false };
    let (Some(own), Some(attribute)) =
        (leaf.entries.get(index), u32::try_from(index).ok().and_then(|index| leaf.attribute(index)))
    else {
        return false;
    };
    let start = u32::from(own.name_offset.get());
    let end = start.saturating_add(attribute.stored_bytes());
    let mut others = leaf.entries.iter().map(|entry| u32::from(entry.name_offset.get()));
    end <= bytes.len() as u32 && !others.any(|other| (start + 1..end).contains(&other))
}

/// Whether no other entry has the name at this place.
pub(super) fn is_only_one_at(bytes: &mut [u8], index: usize, offset_bytes: u16) -> bool {
    let count = header(bytes).map_or(0, |header| usize::from(header.count.get()));
    let mut others = (0..count).filter(|other| *other != index);
    !others.any(|other| entry(bytes, other).is_some_and(|entry| entry.name_offset.get() == offset_bytes))
}

/// Takes an entry out. Its name stays as a hole.
pub(super) fn remove(bytes: &mut [u8], index: usize, geometry: &Geometry) -> bool {
    let Some(count) = header(bytes).map(|header| usize::from(header.count.get())) else { return false };
    if index >= count {
        return false;
    }
    let (start, end) = (HEADER_BYTES + index * ENTRY_BYTES, HEADER_BYTES + count * ENTRY_BYTES);
    if end > bytes.len() {
        return false;
    }
    bytes.copy_within(start + ENTRY_BYTES..end, start);
    if let Some(last) = bytes.get_mut(end - ENTRY_BYTES..end) {
        last.fill(0);
    }
    let Some(header) = self::header(bytes) else { return false };
    header.count.set((count - 1) as u16);
    header.has_holes = 1;
    // What it took is no part of another value.
    if let Some(used) = used_bytes(bytes, geometry)
        && let Some(header) = self::header(bytes)
    {
        header.used_bytes.set(used);
    }
    true
}

/// Bytes that names and values take; `None` where an entry cannot be read.
pub(super) fn used_bytes(bytes: &[u8], geometry: &Geometry) -> Option<u16> {
    let leaf = LeafBlock::parse(bytes, geometry).ok()?;
    let mut lengths =
        leaf.attributes().map(|attribute| attribute.ok().map(|attribute| attribute.stored_bytes()));
    let used = lengths.try_fold(0_u32, |sum, length| sum.checked_add(length?))?;
    u16::try_from(used).ok()
}
