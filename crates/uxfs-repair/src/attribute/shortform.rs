//! A list of attributes inside an inode of which a single field is wrong, or which has parent pointers where the file system has none.
//!
//! The lengths of all names and values, the number of attributes and the size of the list add up: so a wrong one follows from the others.
//! Where both lengths of an attribute could be the wrong one, the one is changed that leaves a name of letters, and else that of the
//! name: nothing else says where a name ends. A parent pointer has a value of one length.

use uxfs_format::{
    attribute::{
        flags::AttributeFlags,
        parent_pointer::ParentRecord,
        shortform::{Shortform, ShortformHeader},
    },
    field_table::OnDisk,
    geometry::Geometry,
};

/// Number of attributes, in the header.
const COUNT_BYTE: usize = 2;
/// Lengths and flags before a name.
const HEAD_BYTES: usize = 3;
const FLAGS: [u8; 4] =
    [0, AttributeFlags::ROOT.bits(), AttributeFlags::SECURE.bits(), AttributeFlags::PARENT.bits()];

/// A field with its right value. The list is the better, the smaller the rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    rank: u32,
    offset_bytes: usize,
    value: u8,
}

/// Corrects the field. Gives whether the list is sound with it.
pub(crate) fn mend(fork: &mut [u8], geometry: &Geometry) -> bool {
    if Shortform::verify(fork).is_ok() {
        return !geometry.features.has_parent_pointers() && clear_marks(fork);
    }
    let Some(header) = ShortformHeader::prefix_of(fork) else { return false };
    let (total, count) = (usize::from(header.total_size_bytes.get()), usize::from(header.count));
    // The size of the list is wrong where attributes are counted that lie behind the end, or where zeros follow the last one.
    let are_zeros = |bytes: Option<&[u8]>| bytes.is_none_or(|bytes| bytes.iter().all(|byte| *byte == 0));
    let is_size_wrong = |end: usize| match end > total {
        true => !are_zeros(fork.get(total..end)),
        false => are_zeros(fork.get(end..total)),
    };
    if end_of(fork, count, geometry).filter(|_| count > 0).is_some_and(is_size_wrong) {
        return shorten(fork, count, geometry);
    }
    let list = fork.get(..total);
    let change = list.and_then(|list| changes(list, count, geometry).into_iter().min());
    let Some(change) = change else { return shorten(fork, count, geometry) };
    let Some(place) = fork.get_mut(change.offset_bytes) else { return false };
    let before = std::mem::replace(place, change.value);
    if Shortform::verify(fork).is_ok() {
        return true;
    }
    if let Some(place) = fork.get_mut(change.offset_bytes) {
        *place = before;
    }
    false
}

/// Clears the parent flag of every attribute in a sound list; returns whether any was set.
fn clear_marks(fork: &mut [u8]) -> bool {
    let count = ShortformHeader::prefix_of(fork).map_or(0, |header| header.count);
    let (mut start, mut is_changed) = (ShortformHeader::SIZE_BYTES, false);
    for _ in 0..count {
        let Some([name_length, value_length, flags]) =
            fork.get_mut(start..).and_then(<[u8]>::first_chunk_mut)
        else {
            break;
        };
        start += HEAD_BYTES + usize::from(*name_length) + usize::from(*value_length);
        is_changed |= *flags & AttributeFlags::PARENT.bits() != 0;
        *flags &= !AttributeFlags::PARENT.bits();
    }
    is_changed
}

/// Ends the list behind the attributes that are counted.
fn shorten(fork: &mut [u8], count: usize, geometry: &Geometry) -> bool {
    let end = end_of(fork, count, geometry).and_then(|end| u16::try_from(end).ok());
    let (Some(end), Some(header)) = (end, ShortformHeader::prefix_of_mut(fork)) else { return false };
    header.total_size_bytes.set(end);
    Shortform::verify(fork).is_ok()
}

/// An attribute that may lie at a place.
#[derive(Debug, Clone, Copy)]
struct Attribute<'f> {
    name: &'f [u8],
    value: &'f [u8],
    flags: u8,
}

/// The attribute at a place with these lengths; `None` where there can be none.
fn attribute(list: &[u8], start: usize, name_length: u8, value_length: u8) -> Option<Attribute<'_>> {
    let flags = *list.get(start + 2)?;
    let (name, rest) = list.get(start + HEAD_BYTES..)?.split_at_checked(name_length.into())?;
    let value = rest.get(..value_length.into())?;
    (!name.is_empty() && !name.contains(&0)).then_some(Attribute { name, value, flags })
}

fn is_sound(attribute: &Attribute<'_>, flags: u8, geometry: &Geometry) -> bool {
    if flags != AttributeFlags::PARENT.bits() {
        return FLAGS.contains(&flags);
    }
    geometry.features.has_parent_pointers()
        && !attribute.name.contains(&b'/')
        && ParentRecord::verify(attribute.value, geometry).is_ok()
}

/// The attribute at a place, if it is sound, and where the next one begins.
fn sound_at<'f>(list: &'f [u8], start: usize, geometry: &Geometry) -> Option<(Attribute<'f>, usize)> {
    let (name_length, value_length) = (*list.get(start)?, *list.get(start + 1)?);
    let found = attribute(list, start, name_length, value_length)?;
    let next = start + HEAD_BYTES + usize::from(name_length) + usize::from(value_length);
    is_sound(&found, found.flags, geometry).then_some((found, next))
}

/// Where so many sound attributes end; `None` where there are fewer.
fn end_of(fork: &[u8], count: usize, geometry: &Geometry) -> Option<usize> {
    let mut start = ShortformHeader::SIZE_BYTES;
    for _ in 0..count {
        (_, start) = sound_at(fork, start, geometry)?;
    }
    Some(start)
}

/// Of each place: how many sound attributes lie from there to the end of the list exactly.
fn counts_to_end(list: &[u8], geometry: &Geometry) -> Vec<Option<usize>> {
    let mut counts = vec![None; list.len() + 1];
    if let Some(end) = counts.last_mut() {
        *end = Some(0);
    }
    for start in (ShortformHeader::SIZE_BYTES..list.len()).rev() {
        let next = sound_at(list, start, geometry).and_then(|(_, next)| counts.get(next).copied().flatten());
        if let Some(place) = counts.get_mut(start) {
            *place = next.map(|count| count + 1);
        }
    }
    counts
}

/// All changes of one field with which the list is sound.
fn changes(list: &[u8], count: usize, geometry: &Geometry) -> Vec<Change> {
    let to_end = counts_to_end(list, geometry);
    let counted = |next: usize| to_end.get(next).copied().flatten();
    let mut start = ShortformHeader::SIZE_BYTES;
    let mut changes = Vec::new();
    if let Some(found) = counted(start)
        && let Ok(value) = u8::try_from(found)
    {
        // A value that swallows attributes leaves fewer; more than are counted are no chance.
        let change = Change { rank: u32::from(found < count), offset_bytes: COUNT_BYTE, value };
        if found > count {
            return vec![change];
        }
        changes.push(change);
    }
    for index in 0..count {
        let left = count - index - 1;
        let (Some(name_length), Some(value_length)) =
            (list.get(start).copied(), list.get(start + 1).copied())
        else {
            break;
        };
        let mut try_lengths = |name_length: u8, value_length: u8, offset_bytes: usize, value: u8| {
            let next = start + HEAD_BYTES + usize::from(name_length) + usize::from(value_length);
            let found = attribute(list, start, name_length, value_length);
            let found = found.filter(|found| is_sound(found, found.flags, geometry));
            if let (Some(found), true) = (found, counted(next) == Some(left)) {
                changes.push(Change { rank: rank(&found), offset_bytes, value });
            }
        };
        for length in 0..=u8::MAX {
            try_lengths(length, value_length, start, length);
            try_lengths(name_length, length, start + 1, length);
        }
        let next = start + HEAD_BYTES + usize::from(name_length) + usize::from(value_length);
        let found = attribute(list, start, name_length, value_length);
        if let (Some(found), true) = (found, counted(next) == Some(left)) {
            let fitting = FLAGS.into_iter().filter(|flags| is_sound(&found, *flags, geometry));
            changes.extend(fitting.map(|flags| Change {
                // The fewest bits that have changed.
                rank: (flags ^ found.flags).count_ones(),
                offset_bytes: start + 2,
                value: flags,
            }));
        }
        match sound_at(list, start, geometry) {
            Some((_, next)) => start = next,
            None => break,
        }
    }
    changes
}

/// How strange a name is.
fn rank(attribute: &Attribute<'_>) -> u32 {
    if attribute.flags == AttributeFlags::PARENT.bits() {
        return 0;
    }
    let strange = attribute.name.iter().filter(|byte| !byte.is_ascii_graphic()).count();
    u32::try_from(strange).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "shortform_tests.rs"]
mod tests;
