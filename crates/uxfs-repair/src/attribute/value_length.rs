//! The length of a value inside a leaf, where the one that an entry says cannot be.
//!
//! The header counts the bytes that all names and values take, each rounded up to four. What the other entries leave belongs to this one.
//! Up to three bytes of it may be padding: zeros at the end are taken for that, and the length is a guess then.

use uxfs_format::{
    attribute::{
        flags::AttributeFlags,
        leaf::{LeafBlock, LeafValue},
    },
    geometry::Geometry,
};

use super::leaf::{entry, header, is_apart, is_right};

/// Lengths of value and name before a name.
const HEAD_BYTES: usize = 3;
const ALIGNMENT_BYTES: usize = 4;

/// Sets the length of a value inside a leaf. Gives whether it is a guess; `None` where none fits.
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
    let length = u16::try_from(most.saturating_sub(zeros)).ok()?;
    let before = *bytes.get(start..)?.first_chunk::<2>()?;
    *bytes.get_mut(start..)?.first_chunk_mut()? = length.to_be_bytes();
    if is_right(bytes, index, geometry) && is_apart(bytes, index, geometry) {
        return Some(zeros > 0);
    }
    *bytes.get_mut(start..)?.first_chunk_mut()? = before;
    None
}

/// Bytes that the header counts and no other entry takes.
fn left_by_others(bytes: &mut [u8], index: usize, geometry: &Geometry) -> Option<usize> {
    let used_bytes = usize::from(header(bytes)?.used_bytes.get());
    let leaf = LeafBlock::parse(bytes, geometry).ok()?;
    let mut others = 0_usize;
    for other in (0..leaf.entries.len()).filter(|other| *other != index) {
        let attribute = leaf.attribute(u32::try_from(other).ok()?)?;
        let is_long = matches!(attribute.value, LeafValue::Local(value) if value.len() > bytes.len());
        others = others.checked_add(attribute.stored_bytes() as usize).filter(|_| !is_long)?;
    }
    used_bytes.checked_sub(others)
}
