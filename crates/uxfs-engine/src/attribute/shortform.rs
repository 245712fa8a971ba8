//! Attributes inside their inode.

use uxfs_format::{
    attribute::{
        flags::Namespace,
        leaf::{LeafBlock, LeafValue},
        shortform::Shortform,
        shortform_edit::{HEADER_BYTES, ShortformEdit, entry_bytes, may_hold},
    },
    geometry::Geometry,
};

use super::{SetMode, Target};
use crate::inode::edit::{EditInode, InodeFork};
use uxfs_volume::error::{OperationError, Result};

/// Most attributes in a list: the count is one byte.
const MAX_COUNT: u8 = u8::MAX;

/// The result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is in the list.
    Done,
    /// There is no room; nothing was changed. Whether the attribute exists has been compared with the mode.
    NoRoom,
}

/// The list of an inode whose attributes lie in it, `None` for other forms. An empty fork is an empty list.
pub(super) fn list_of(inode: &mut EditInode) -> Option<&mut Vec<u8>> {
    let fork = inode.attribute.as_mut()?;
    if let InodeFork::Extents(extents) = fork
        && extents.extents.is_empty()
    {
        *fork = InodeFork::Local(Vec::new());
    }
    match fork {
        InodeFork::Local(bytes) => Some(bytes),
        InodeFork::Device(_) | InodeFork::Extents(_) => None,
    }
}

/// Gives a list without attributes up again: the fork is there and empty.
pub(super) fn normalise(inode: &mut EditInode) {
    if let Some(fork @ InodeFork::Local(_)) = &mut inode.attribute
        && fork.used_bytes() <= HEADER_BYTES
    {
        *fork = InodeFork::empty();
    }
}

/// Sets an attribute in the list of an inode that has its attributes in it.
pub(super) fn set(
    inode: &mut EditInode,
    target: &Target<'_>,
    value: &[u8],
    mode: SetMode,
    geometry: &Geometry,
) -> Result<Outcome> {
    let Some(bytes) = list_of(inode) else { return Ok(Outcome::NoRoom) };
    let mut list = ShortformEdit::new(bytes);
    let found = list.find(target.namespace.flags(), target.name, target.value);
    let old = found.map(|found| (found.offset_bytes, entry_bytes(found.name, found.value.len())));
    mode.check(old.is_some())?;
    if let Some((offset, _)) = old
        && list.replace_in_place(offset, value)
    {
        return Ok(Outcome::Done);
    }
    if !may_hold(target.name, value.len()) || (old.is_none() && list.count() == MAX_COUNT) {
        return Ok(Outcome::NoRoom);
    }
    let old_bytes = old.map_or(0, |(_, bytes)| bytes);
    let total = list.total_bytes() - old_bytes + entry_bytes(target.name, value.len());
    let Some(offset_bytes) = inode.attribute_offset_for(total, geometry) else { return Ok(Outcome::NoRoom) };
    inode.attribute_offset_bytes = offset_bytes;
    let Some(bytes) = list_of(inode) else { return Ok(Outcome::NoRoom) };
    let mut list = ShortformEdit::new(bytes);
    if let Some((offset, _)) = old {
        list.remove(offset);
    }
    list.append(target.namespace.flags(), target.name, value);
    Ok(Outcome::Done)
}

/// Puts an attribute in the place of another in the list, unless there is no room.
pub(super) fn replace(
    inode: &mut EditInode,
    old: &Target<'_>,
    new: &Target<'_>,
    value: &[u8],
    geometry: &Geometry,
) -> Result<Outcome> {
    let Some(bytes) = list_of(inode) else { return Ok(Outcome::NoRoom) };
    let list = ShortformEdit::new(bytes);
    let find = |target: &Target<'_>| {
        let found = list.find(target.namespace.flags(), target.name, target.value)?;
        Some((found.offset_bytes, entry_bytes(found.name, found.value.len())))
    };
    let (offset, old_bytes) = find(old).ok_or(OperationError::NoSuchAttribute)?;
    if find(new).is_some() {
        return Err(OperationError::Exists.into());
    }
    if !may_hold(new.name, value.len()) {
        return Ok(Outcome::NoRoom);
    }
    let total = list.total_bytes() - old_bytes + entry_bytes(new.name, value.len());
    let Some(offset_bytes) = inode.attribute_offset_for(total, geometry) else { return Ok(Outcome::NoRoom) };
    inode.attribute_offset_bytes = offset_bytes;
    let Some(bytes) = list_of(inode) else { return Ok(Outcome::NoRoom) };
    let mut list = ShortformEdit::new(bytes);
    list.remove(offset);
    list.append(new.namespace.flags(), new.name, value);
    Ok(Outcome::Done)
}

/// Removes an attribute from the list.
pub(super) fn remove(inode: &mut EditInode, target: &Target<'_>) -> Result<()> {
    let missing = OperationError::NoSuchAttribute;
    let bytes = list_of(inode).ok_or(missing)?;
    let mut list = ShortformEdit::new(bytes);
    let found = list.find(target.namespace.flags(), target.name, target.value).ok_or(missing)?;
    let offset = found.offset_bytes;
    list.remove(offset);
    Ok(())
}

/// The value of an attribute in the list.
pub(super) fn get<'a>(fork: &'a [u8], target: &Target<'_>) -> Option<&'a [u8]> {
    let attributes = Shortform::parse(fork).ok()?.attributes();
    let is_it = |namespace: Option<Namespace>, name: &[u8], value: &[u8]| {
        namespace == Some(target.namespace)
            && name == target.name
            && target.value.is_none_or(|wanted| wanted == value)
    };
    attributes
        .map_while(std::result::Result::ok)
        .find(|attribute| is_it(attribute.flags.namespace(), attribute.name, attribute.value))
        .map(|attribute| attribute.value)
}

/// The attributes of a leaf as a list of at most `most_bytes`, `None` where they cannot lie in an inode.
pub(super) fn list_from_leaf(leaf: &LeafBlock<'_>, most_bytes: u32) -> Option<Vec<u8>> {
    // Names are rounded up by 3 bytes at most: a full leaf need not be looked at closer.
    let (used, count) = (u32::from(leaf.header.used_bytes.get()), u32::from(leaf.header.count.get()));
    if used.saturating_sub(count.saturating_mul(3)) > most_bytes || count > MAX_COUNT.into() {
        return None;
    }
    let mut total = HEADER_BYTES;
    for attribute in leaf.attributes() {
        let attribute = attribute.ok()?;
        let LeafValue::Local(value) = attribute.value else { return None };
        if !attribute.is_complete() || !may_hold(attribute.name, value.len()) {
            return None;
        }
        total = total.saturating_add(entry_bytes(attribute.name, value.len()));
    }
    if total > most_bytes {
        return None;
    }
    let mut bytes = Vec::with_capacity(total as usize);
    let mut list = ShortformEdit::new(&mut bytes);
    for attribute in leaf.attributes() {
        let attribute = attribute.ok()?;
        let LeafValue::Local(value) = attribute.value else { return None };
        if !list.append(attribute.flags.namespace()?.flags(), attribute.name, value) {
            return None;
        }
    }
    Some(bytes)
}
