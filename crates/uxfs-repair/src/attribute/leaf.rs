//! An attribute leaf of which a field is wrong, as it lies in its block.
//!
//! What follows from the names is computed again; a name that has lost its place, length or flags is looked for by its hash. A hash that
//! is not that of its name is wrong where that of the name lies between its neighbours, else the name is. An entry whose name stays
//! wrong is taken out, and the others are kept.

use uxfs_format::{
    attribute::{
        flags::AttributeFlags,
        is_valid_name,
        leaf::{AttributeLeafFault, FreeRegion, LeafAttribute, LeafBlock, LeafEntry, LeafHeader, LeafValue},
        parent_pointer,
    },
    checksum,
    directory::name_hash::{self, NameRule},
    geometry::Geometry,
    name_tree::header::CHECKSUM_OFFSET_BYTES,
    units::FileBlock,
    verify::VerifyContext,
};
use zerocopy::FromBytes;

/// Faults that are mended one after the other.
const MOST_FAULTS: u32 = 64;
const HEADER_BYTES: usize = 80;
const ENTRY_BYTES: usize = 8;
/// Where the length of a value in blocks of its own lies in what an entry leads to.
const VALUE_LENGTH_BYTES: usize = 4;
/// A name lies at a multiple of this.
const ALIGNMENT_BYTES: usize = 4;

/// The length of the value that begins at this block, as its blocks tell.
pub(crate) type LengthOfValue<'v> = dyn Fn(FileBlock) -> Option<u32> + 'v;

/// Mends a leaf whose header says rightly what it is. Gives how many entries were taken out; `None` where it stays damaged.
pub(crate) fn mend(
    bytes: &mut [u8],
    context: &VerifyContext<'_>,
    length_of: &LengthOfValue<'_>,
) -> Option<u32> {
    let mut removed = 0;
    if count_again(bytes, context) {
        return Some(removed);
    }
    for _ in 0..MOST_FAULTS {
        let fault = match LeafBlock::verify(bytes, context) {
            Ok(()) => break,
            Err(fault) => fault,
        };
        let is_long = matches!(fault, AttributeLeafFault::RemoteLength { .. });
        let (is_mended, is_removed) =
            match is_long && mend_value_length(bytes, &fault, context.geometry, length_of) {
                true => (true, false),
                false => mend_one(bytes, &fault, context.geometry),
            };
        if !is_mended {
            return None;
        }
        removed += u32::from(is_removed);
        checksum::seal(bytes, CHECKSUM_OFFSET_BYTES);
    }
    let leaf = LeafBlock::parse(bytes, context.geometry).ok()?;
    if let Err(AttributeLeafFault::FirstName { found, .. }) = leaf.verify_first_name() {
        // A block of 64 KiB says 0 for its end.
        header(bytes)?.first_used.set((found & 0xffff) as u16);
        checksum::seal(bytes, CHECKSUM_OFFSET_BYTES);
    }
    if verify_free_regions(&LeafBlock::parse(bytes, context.geometry).ok()?).is_err() {
        free_nothing(bytes)?;
        checksum::seal(bytes, CHECKSUM_OFFSET_BYTES);
    }
    // Without any entry the attributes are gone: others may have what was in it.
    let is_sound = LeafBlock::verify(bytes, context).is_ok();
    let count = LeafBlock::parse(bytes, context.geometry).map_or(0, |leaf| leaf.entries.len());
    (is_sound && (removed == 0 || count > 0)).then_some(removed)
}

/// That no free region of a leaf overlaps entries, names or another region: what is added next would be written there. Linux before 7.0
/// does not look at it when it reads a leaf.
pub(crate) fn verify_free_regions(leaf: &LeafBlock<'_>) -> Result<(), AttributeLeafFault> {
    let range = |region: &FreeRegion| {
        let base_bytes = u32::from(region.base_bytes.get());
        (base_bytes, base_bytes.saturating_add(region.size_bytes.get().into()))
    };
    for (index, region) in (0_u32..).zip(&leaf.header.free_map) {
        let (start, end) = range(region);
        let overlaps = |(from, to): (u32, u32)| start < to && from < end && from < to;
        let mut others = leaf.header.free_map.iter().take(index as usize).map(range);
        let mut names = leaf.entries.iter().zip(leaf.attributes()).filter_map(|(entry, attribute)| {
            let from = u32::from(entry.name_offset.get());
            Some((from, from.saturating_add(attribute.ok()?.stored_bytes())))
        });
        let is_wrong = start < leaf.entries_end_bytes() || others.any(overlaps) || names.any(overlaps);
        if is_wrong && start < end {
            let (base_bytes, size_bytes) = (region.base_bytes.get(), region.size_bytes.get());
            return Err(AttributeLeafFault::FreeRegion { index, base_bytes, size_bytes });
        }
    }
    Ok(())
}

fn header(bytes: &mut [u8]) -> Option<&mut LeafHeader> {
    LeafHeader::mut_from_prefix(bytes).ok().map(|(header, _)| header)
}

fn entry(bytes: &mut [u8], index: usize) -> Option<&mut LeafEntry> {
    let place = bytes.get_mut(HEADER_BYTES.checked_add(index.checked_mul(ENTRY_BYTES)?)?..)?;
    LeafEntry::mut_from_prefix(place).ok().map(|(entry, _)| entry)
}

/// Another number of entries with which all is right, if there is one.
fn count_again(bytes: &mut [u8], context: &VerifyContext<'_>) -> bool {
    let most = bytes.len().saturating_sub(HEADER_BYTES) / ENTRY_BYTES;
    let Some(found) = header(bytes).map(|header| header.count.get()) else { return false };
    let sound = bytes.to_vec();
    for count in 1..=u16::try_from(most).unwrap_or(u16::MAX) {
        if count == found {
            continue;
        }
        let Some(header) = header(bytes) else { return false };
        header.count.set(count);
        // Reading all is the most work: the order of hashes tells most wrong numbers.
        let is_likely = is_ordered(bytes, context.geometry);
        if is_likely {
            checksum::seal(bytes, CHECKSUM_OFFSET_BYTES);
        }
        if is_likely && LeafBlock::verify(bytes, context).is_ok() {
            return true;
        }
    }
    bytes.copy_from_slice(&sound);
    false
}

fn is_ordered(bytes: &[u8], geometry: &Geometry) -> bool {
    let Ok(leaf) = LeafBlock::parse(bytes, geometry) else { return false };
    leaf.entries_end_bytes() <= leaf.first_used()
        && leaf.entries.is_sorted_by_key(|entry| entry.hash.get())
        && leaf.entries.iter().all(|entry| u32::from(entry.name_offset.get()) >= leaf.first_used())
}

/// Mends what a fault names. Gives whether something was done, and whether an entry was taken out.
fn mend_one(bytes: &mut [u8], fault: &AttributeLeafFault, geometry: &Geometry) -> (bool, bool) {
    use AttributeLeafFault as F;
    let done = match *fault {
        F::FirstUsed { .. } => lower_first_used(bytes, geometry),
        F::UsedBytes { found, .. } => {
            header(bytes).map(|header| header.used_bytes.set((found & 0xffff) as u16))
        }
        F::FreeRegion { .. } => free_nothing(bytes),
        F::HashOrder { .. } | F::NameHash { .. } => return mend_hashes(bytes, geometry),
        F::NameOffset { index, .. }
        | F::NamePastEnd { index, .. }
        | F::NameLength { index }
        | F::NameCharacter { index }
        | F::Flags { index, .. }
        | F::Overlap { index }
        | F::RemoteLength { index, .. }
        | F::RemoteBlock { index } => {
            let index = index as usize;
            if find_name(bytes, index, geometry) {
                return (true, false);
            }
            return (remove(bytes, index), true);
        }
        _ => None,
    };
    (done.is_some(), false)
}

fn lower_first_used(bytes: &mut [u8], geometry: &Geometry) -> Option<()> {
    let leaf = LeafBlock::parse(bytes, geometry).ok()?;
    let (end, names) = (leaf.entries_end_bytes(), leaf.entries.iter().map(|entry| entry.name_offset.get()));
    let first = names.min().filter(|first| u32::from(*first) >= end)?;
    header(bytes)?.first_used.set(first);
    Some(())
}

/// No free region, and holes: whatever adds a name next packs the leaf.
fn free_nothing(bytes: &mut [u8]) -> Option<()> {
    let header = header(bytes)?;
    for region in &mut header.free_map {
        region.base_bytes.set(0);
        region.size_bytes.set(0);
    }
    header.has_holes = 1;
    Some(())
}

/// Sets the length of a value in blocks of its own, as these say.
fn mend_value_length(
    bytes: &mut [u8],
    fault: &AttributeLeafFault,
    geometry: &Geometry,
    length_of: &LengthOfValue<'_>,
) -> bool {
    let AttributeLeafFault::RemoteLength { index, .. } = *fault else { return false };
    let first_block =
        LeafBlock::parse(bytes, geometry).ok().and_then(|leaf| match leaf.attribute(index)?.value {
            LeafValue::Remote { first_block, .. } => Some(first_block),
            LeafValue::Local(_) => None,
        });
    let Some(length) = first_block.and_then(length_of) else { return false };
    let Some(start) = entry(bytes, index as usize).map(|entry| usize::from(entry.name_offset.get())) else {
        return false;
    };
    let place = bytes.get_mut(start + VALUE_LENGTH_BYTES..).and_then(<[u8]>::first_chunk_mut);
    place.map(|place| *place = length.to_be_bytes()).is_some()
}

fn hash_of(attribute: &LeafAttribute<'_>, rule: NameRule) -> u32 {
    match attribute.value {
        LeafValue::Local(value) if attribute.flags.contains(AttributeFlags::PARENT) => {
            parent_pointer::hash_of(attribute.name, value, rule)
        }
        _ => name_hash::hash(attribute.name),
    }
}

/// The first entry whose hash is not that of its name.
fn mend_hashes(bytes: &mut [u8], geometry: &Geometry) -> (bool, bool) {
    let rule = NameRule::of(geometry);
    let Ok(leaf) = LeafBlock::parse(bytes, geometry) else { return (false, false) };
    let hashes: Vec<(u32, Option<u32>)> = leaf
        .entries
        .iter()
        .zip(leaf.attributes())
        .map(|(entry, attribute)| {
            (entry.hash.get(), attribute.ok().map(|attribute| hash_of(&attribute, rule)))
        })
        .collect();
    let Some(index) = hashes.iter().position(|(found, computed)| Some(*found) != *computed) else {
        return (false, false);
    };
    let before = index.checked_sub(1).and_then(|index| hashes.get(index)).map_or(0, |(hash, _)| *hash);
    let after = hashes.get(index + 1).map_or(u32::MAX, |(hash, _)| *hash);
    let computed = hashes.get(index).and_then(|(_, computed)| *computed);
    if find_name(bytes, index, geometry) {
        return (true, false);
    }
    if let Some(computed) = computed.filter(|computed| (before..=after).contains(computed)) {
        let is_set = entry(bytes, index).map(|entry| entry.hash.set(computed)).is_some();
        return (is_set, false);
    }
    (remove(bytes, index), true)
}

/// Changes place, flags or length of a name such that its hash is that of the entry.
fn find_name(bytes: &mut [u8], index: usize, geometry: &Geometry) -> bool {
    let Some(found) = entry(bytes, index).copied() else { return false };
    let sound = bytes.to_vec();
    let flags = [0, 1, 2, 3, 4, 5, 9].into_iter();
    for flags in flags.filter(|flags| *flags != found.flags) {
        let Some(place) = entry(bytes, index) else { return false };
        place.flags = flags;
        if is_right(bytes, index, geometry) {
            return true;
        }
    }
    bytes.copy_from_slice(&sound);
    let own = usize::from(found.name_offset.get());
    for offset_bytes in
        (HEADER_BYTES..bytes.len()).step_by(ALIGNMENT_BYTES).filter(|offset_bytes| *offset_bytes != own)
    {
        let (Some(place), Ok(offset)) = (entry(bytes, index), u16::try_from(offset_bytes)) else {
            return false;
        };
        place.name_offset.set(offset);
        if is_right(bytes, index, geometry) && is_only_one_at(bytes, index, offset) {
            return true;
        }
    }
    bytes.copy_from_slice(&sound);
    // The length lies behind that of the value; of a remote value, behind its block as well.
    let is_local = AttributeFlags::from_bits_retain(found.flags).contains(AttributeFlags::LOCAL);
    let length_at = usize::from(found.name_offset.get()) + if is_local { 2 } else { 8 };
    let own = bytes.get(length_at).copied();
    for length in (1..=u8::MAX).filter(|length| Some(*length) != own) {
        let Some(place) = bytes.get_mut(length_at) else { return false };
        *place = length;
        if is_right(bytes, index, geometry) && is_apart(bytes, index, geometry) {
            return true;
        }
    }
    bytes.copy_from_slice(&sound);
    false
}

/// Whether no other entry has the name at this place.
fn is_only_one_at(bytes: &mut [u8], index: usize, offset_bytes: u16) -> bool {
    let count = header(bytes).map_or(0, |header| usize::from(header.count.get()));
    let mut others = (0..count).filter(|other| *other != index);
    !others.any(|other| entry(bytes, other).is_some_and(|entry| entry.name_offset.get() == offset_bytes))
}

/// Whether the name of an entry has its hash.
fn is_right(bytes: &[u8], index: usize, geometry: &Geometry) -> bool {
    let Ok(leaf) = LeafBlock::parse(bytes, geometry) else { return false };
    let Some(attribute) = u32::try_from(index).ok().and_then(|index| leaf.attribute(index)) else {
        return false;
    };
    // Zero bytes have a hash of 0.
    let is_known = attribute.flags.namespace().is_some()
        && !attribute.name.is_empty()
        && is_valid_name(attribute.flags, attribute.name);
    is_known && hash_of(&attribute, NameRule::of(geometry)) == attribute.hash
}

/// Whether name and value of an entry end before the next one begins.
fn is_apart(bytes: &[u8], index: usize, geometry: &Geometry) -> bool {
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

/// Takes an entry out. Its name stays as a hole.
fn remove(bytes: &mut [u8], index: usize) -> bool {
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
    let Some(header) = header(bytes) else { return false };
    header.count.set((count - 1) as u16);
    header.has_holes = 1;
    true
}
