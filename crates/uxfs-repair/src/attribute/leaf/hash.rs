//! Hashes of a leaf that are not those of their names.

use std::ops::RangeInclusive;

use uxfs_format::{
    attribute::{flags::AttributeFlags, leaf::LeafBlock},
    directory::name_hash::NameRule,
    geometry::Geometry,
};

use super::{
    Outcome,
    entry::{clear_flags, entry, hash_of, is_marked_wrongly, is_parent_pointer, remove},
    mended, name,
};

/// The first entry whose hash is not that of its name. Its hash is wrong only where that of the name lies between those of its
/// neighbours, which may be in other leaves.
pub(super) fn mend(bytes: &mut [u8], geometry: &Geometry, may_be: &RangeInclusive<u32>) -> Outcome {
    let rule = NameRule::of(geometry);
    let Ok(leaf) = LeafBlock::parse(bytes, geometry) else { return Outcome::Nothing };
    let hashes: Vec<(u32, Option<u32>)> = leaf
        .entries
        .iter()
        .zip(leaf.attributes())
        .map(|(entry, attribute)| {
            (entry.hash.get(), attribute.ok().map(|attribute| hash_of(&attribute, rule)))
        })
        .collect();
    let Some(index) = hashes.iter().position(|(found, computed)| Some(*found) != *computed) else {
        return Outcome::Nothing;
    };
    let known = |index: Option<usize>| index.and_then(|index| hashes.get(index)).map(|(hash, _)| *hash);
    let before = known(index.checked_sub(1)).unwrap_or(*may_be.start());
    let after = known(index.checked_add(1)).unwrap_or(*may_be.end());
    let computed = hashes.get(index).and_then(|(_, computed)| *computed);
    if is_marked_wrongly(bytes, index, geometry) && clear_flags(bytes, index, AttributeFlags::PARENT) {
        return Outcome::Mended;
    }
    if is_parent_pointer(bytes, index, geometry) {
        // Its value may be wrong as well, and it comes back from the entry.
        return if remove(bytes, index, geometry) { Outcome::ParentRemoved } else { Outcome::Nothing };
    }
    if let Some(is_guess) = name::find(bytes, index, geometry) {
        return Outcome::of(is_guess);
    }
    if let Some(computed) = computed.filter(|computed| (before..=after).contains(computed)) {
        return mended(entry(bytes, index).map(|entry| entry.hash.set(computed)));
    }
    if remove(bytes, index, geometry) { Outcome::Removed } else { Outcome::Nothing }
}
