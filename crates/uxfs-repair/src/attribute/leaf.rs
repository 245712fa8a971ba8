//! An attribute leaf of which a field is wrong, as it lies in its block.
//!
//! What follows from the names is computed again; a name that has lost its place, length or flags is looked for by its hash. A hash that
//! is not that of its name is wrong where that of the name lies between its neighbours, else the name is. An entry whose name stays
//! wrong is taken out, and the others are kept.

use std::ops::RangeInclusive;

use uxfs_format::{
    attribute::{
        flags::AttributeFlags,
        is_valid_name,
        leaf::{AttributeLeafFault, FreeRegion, LeafAttribute, LeafBlock, LeafEntry, LeafHeader, LeafValue},
        parent_pointer::{self, ParentRecord},
    },
    checksum,
    directory::name_hash::{self, NameRule},
    field_table::OnDisk,
    geometry::Geometry,
    name_tree::header::CHECKSUM_OFFSET_BYTES,
    units::FileBlock,
    verify::VerifyContext,
};
use zerocopy::FromBytes;

use super::{stored_values::StoredValues, value_length};

/// Faults that are mended one after the other.
const MOST_FAULTS: u32 = 64;
const HEADER_BYTES: usize = 80;
const ENTRY_BYTES: usize = 8;
/// Where the length of a value in blocks of its own lies in what an entry leads to.
const VALUE_LENGTH_BYTES: usize = 4;
/// What the flags of a finished entry may be.
const FLAGS: [u8; 7] = [0, 1, 2, 3, 4, 5, 9];
const INCOMPLETE: u8 = AttributeFlags::INCOMPLETE.bits();
/// A name lies at a multiple of this.
const ALIGNMENT_BYTES: usize = 4;

/// What the rest of an attribute fork says of a leaf.
pub(crate) struct LeafWitnesses<'w> {
    /// `None` where the extents cannot be read.
    pub values: Option<&'w StoredValues<'w>>,
    /// The least and the greatest hash that may be here, between those of the neighbours.
    pub hashes: RangeInclusive<u32>,
}

impl<'w> LeafWitnesses<'w> {
    /// Of the leaf in these bytes.
    pub fn new(values: Option<&'w StoredValues<'w>>, bytes: &[u8]) -> Self {
        let header = LeafHeader::prefix_of(bytes).map(|header| &header.info);
        let neighbour = |block: Option<u32>| {
            let block = block.filter(|block| *block != 0)?;
            values?.leaf_at(FileBlock::new(block.into()))
        };
        let hash_of = |bytes: Option<Vec<u8>>, is_first: bool| {
            let bytes = bytes?;
            let count = usize::from(LeafHeader::prefix_of(&bytes)?.count.get());
            let index = if is_first { 0 } else { count.checked_sub(1)? };
            let place = bytes.get(HEADER_BYTES + index * ENTRY_BYTES..)?;
            Some(LeafEntry::prefix_of(place)?.hash.get())
        };
        let least = hash_of(neighbour(header.map(|header| header.backward.get())), false);
        let greatest = hash_of(neighbour(header.map(|header| header.forward.get())), true);
        Self { values, hashes: least.unwrap_or(0)..=greatest.unwrap_or(u32::MAX) }
    }
}

/// What was done to a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Done {
    /// Entries that were taken out.
    pub removed: u32,
    /// Values whose length is a guess.
    pub guessed: u32,
}

/// Mends a leaf whose header says rightly what it is. `None` where it stays damaged.
pub(crate) fn mend(
    bytes: &mut [u8],
    context: &VerifyContext<'_>,
    witnesses: &LeafWitnesses<'_>,
) -> Option<Done> {
    let mut done = Done::default();
    if count_again(bytes, context) {
        return Some(done);
    }
    for _ in 0..MOST_FAULTS {
        let fault = match LeafBlock::verify(bytes, context) {
            Ok(()) => break,
            Err(fault) => fault,
        };
        match mend_one(bytes, &fault, context.geometry, witnesses) {
            Outcome::Mended => {}
            Outcome::Guessed => done.guessed += 1,
            Outcome::Removed => done.removed += 1,
            Outcome::Nothing => return None,
        }
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
    (is_sound && (done.removed == 0 || count > 0)).then_some(done)
}

/// Takes the attributes of the system out of a sound leaf. Gives how many there were; `None` where its free regions are wrong, or nothing
/// else is left.
pub(crate) fn keep_those_of_users(bytes: &mut [u8], geometry: &Geometry) -> Option<u32> {
    let leaf = LeafBlock::parse(bytes, geometry).ok()?;
    verify_free_regions(&leaf).ok()?;
    let is_of_system =
        |entry: &LeafEntry| entry.flags().intersects(AttributeFlags::ROOT | AttributeFlags::SECURE);
    let of_system = leaf.entries.iter().enumerate().filter(|(_, entry)| is_of_system(entry));
    let of_system: Vec<usize> = of_system.map(|(index, _)| index).collect();
    if of_system.len() == leaf.entries.len() {
        return None;
    }
    if of_system.is_empty() {
        return Some(0);
    }
    // Later ones first: the others keep their places.
    if !of_system.iter().rev().all(|index| remove(bytes, *index, geometry)) {
        return None;
    }
    checksum::seal(bytes, CHECKSUM_OFFSET_BYTES);
    u32::try_from(of_system.len()).ok()
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

pub(super) fn header(bytes: &mut [u8]) -> Option<&mut LeafHeader> {
    LeafHeader::mut_from_prefix(bytes).ok().map(|(header, _)| header)
}

pub(super) fn entry(bytes: &mut [u8], index: usize) -> Option<&mut LeafEntry> {
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

/// What became of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Mended,
    /// The length of a value is a guess.
    Guessed,
    /// An entry was taken out.
    Removed,
    Nothing,
}

fn mended(done: Option<()>) -> Outcome {
    done.map_or(Outcome::Nothing, |()| Outcome::Mended)
}

/// Mends what a fault names.
fn mend_one(
    bytes: &mut [u8],
    fault: &AttributeLeafFault,
    geometry: &Geometry,
    witnesses: &LeafWitnesses<'_>,
) -> Outcome {
    use AttributeLeafFault as F;
    match *fault {
        F::FirstUsed { .. } => mended(lower_first_used(bytes, geometry)),
        F::UsedBytes { found, .. } => match value_length::wrong(bytes, geometry) {
            Some(index) => match value_length::fit(bytes, index, geometry) {
                Some(true) => Outcome::Guessed,
                Some(false) => Outcome::Mended,
                None => Outcome::Nothing,
            },
            None => mended(header(bytes).map(|header| header.used_bytes.set((found & 0xffff) as u16))),
        },
        F::FreeRegion { .. } => mended(free_nothing(bytes)),
        F::HashOrder { .. } | F::NameHash { .. } => mend_hashes(bytes, geometry, &witnesses.hashes),
        F::NameOffset { index, .. }
        | F::NamePastEnd { index, .. }
        | F::NameLength { index }
        | F::NameCharacter { index }
        | F::Flags { index, .. }
        | F::Overlap { index }
        | F::RemoteLength { index, .. }
        | F::RemoteBlock { index } => mend_entry(bytes, index as usize, fault, geometry, witnesses),
        _ => Outcome::Nothing,
    }
}

/// Mends an entry, or takes it out.
fn mend_entry(
    bytes: &mut [u8],
    index: usize,
    fault: &AttributeLeafFault,
    geometry: &Geometry,
    witnesses: &LeafWitnesses<'_>,
) -> Outcome {
    use AttributeLeafFault as F;
    let is_told = match fault {
        // An aligned name behind the entries: the header is wrong.
        F::NameOffset { offset_bytes, .. } if offset_bytes & 3 == 0 && is_right(bytes, index, geometry) => {
            lower_first_used(bytes, geometry)
        }
        F::RemoteLength { .. } => set_told_length(bytes, index, geometry, witnesses),
        F::RemoteBlock { .. } => set_told_place(bytes, index, geometry, witnesses),
        _ => None,
    };
    if is_told.is_some() {
        return Outcome::Mended;
    }
    // The first one that reaches into another may be any.
    let index = match fault {
        F::Overlap { .. } => overlapping(bytes, geometry).unwrap_or(index),
        _ => index,
    };
    if find_name(bytes, index, geometry) {
        return Outcome::Mended;
    }
    let is_parent = entry(bytes, index).is_some_and(|entry| entry.flags().contains(AttributeFlags::PARENT));
    match value_length::fit(bytes, index, geometry) {
        Some(true) => Outcome::Guessed,
        Some(false) => Outcome::Mended,
        None if !remove(bytes, index, geometry) => Outcome::Nothing,
        // Parent pointers come back from entries.
        None if is_parent => Outcome::Mended,
        None => Outcome::Removed,
    }
}

/// An entry whose name or value reaches into another one.
fn overlapping(bytes: &[u8], geometry: &Geometry) -> Option<usize> {
    let leaf = LeafBlock::parse(bytes, geometry).ok()?;
    let mut starts: Vec<u32> = leaf.entries.iter().map(|entry| entry.name_offset.get().into()).collect();
    starts.sort_unstable();
    leaf.entries.iter().zip(leaf.attributes()).position(|(entry, attribute)| {
        let start = u32::from(entry.name_offset.get());
        let end = attribute.map_or(u32::MAX, |attribute| start.saturating_add(attribute.stored_bytes()));
        let next = starts.get(starts.partition_point(|other| *other <= start));
        next.is_some_and(|next| *next < end)
    })
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
fn set_told_length(
    bytes: &mut [u8],
    index: usize,
    geometry: &Geometry,
    witnesses: &LeafWitnesses<'_>,
) -> Option<()> {
    let (first_block, _) = remote_value(bytes, index, geometry)?;
    let length = witnesses.values?.length_at(first_block)?;
    set_remote_length(bytes, index, length).then_some(())
}

/// Sets the length of a value in blocks of its own. Gives whether there is such a field.
pub(super) fn set_remote_length(bytes: &mut [u8], index: usize, length_bytes: u32) -> bool {
    let Some(start) = entry(bytes, index).map(|entry| usize::from(entry.name_offset.get())) else {
        return false;
    };
    let place = bytes.get_mut(start + VALUE_LENGTH_BYTES..).and_then(<[u8]>::first_chunk_mut);
    place.map(|place| *place = length_bytes.to_be_bytes()).is_some()
}

/// Sets the place of a value, where one alone can be meant.
fn set_told_place(
    bytes: &mut [u8],
    index: usize,
    geometry: &Geometry,
    witnesses: &LeafWitnesses<'_>,
) -> Option<()> {
    let (_, length_bytes) = remote_value(bytes, index, geometry)?;
    let place = witnesses.values?.lost_value(length_bytes)?;
    set_value_place(bytes, index, place).then_some(())
}

/// First block and length of a value in blocks of its own.
fn remote_value(bytes: &[u8], index: usize, geometry: &Geometry) -> Option<(FileBlock, u32)> {
    let leaf = LeafBlock::parse(bytes, geometry).ok()?;
    match leaf.attribute(u32::try_from(index).ok()?)?.value {
        LeafValue::Remote { first_block, length_bytes } => Some((first_block, length_bytes)),
        LeafValue::Local(_) => None,
    }
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

/// Takes flags from an entry. Gives whether there is one.
pub(super) fn clear_flags(bytes: &mut [u8], index: usize, flags: AttributeFlags) -> bool {
    entry(bytes, index).map(|entry| entry.flags &= !flags.bits()).is_some()
}

fn hash_of(attribute: &LeafAttribute<'_>, rule: NameRule) -> u32 {
    match attribute.value {
        LeafValue::Local(value) if attribute.flags.contains(AttributeFlags::PARENT) => {
            parent_pointer::hash_of(attribute.name, value, rule)
        }
        _ => name_hash::hash(attribute.name),
    }
}

/// The first entry whose hash is not that of its name. Its hash is wrong only where that of the name lies between those of its
/// neighbours, which may be in other leaves.
fn mend_hashes(bytes: &mut [u8], geometry: &Geometry, may_be: &RangeInclusive<u32>) -> Outcome {
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
    if is_parent_pointer(bytes, index, geometry) {
        // Its value may be wrong as well, and it comes back from the entry.
        return if remove(bytes, index, geometry) { Outcome::Mended } else { Outcome::Nothing };
    }
    if find_name(bytes, index, geometry) {
        return Outcome::Mended;
    }
    if let Some(computed) = computed.filter(|computed| (before..=after).contains(computed)) {
        return mended(entry(bytes, index).map(|entry| entry.hash.set(computed)));
    }
    if remove(bytes, index, geometry) { Outcome::Removed } else { Outcome::Nothing }
}

/// Changes place, flags or length of a name such that its hash is that of the entry.
fn find_name(bytes: &mut [u8], index: usize, geometry: &Geometry) -> bool {
    let Some(found) = entry(bytes, index).copied() else { return false };
    if is_right(bytes, index, geometry) {
        // Something else is wrong.
        return false;
    }
    let sound = bytes.to_vec();
    // The hash does not depend on the namespace: the fewest bits that have changed.
    let base = likely_flags(found.flags());
    let mut flags: Vec<u8> = FLAGS.iter().map(|flags| flags | base & INCOMPLETE).collect();
    flags.sort_by_key(|flags| (flags ^ base).count_ones());
    for flags in flags.into_iter().filter(|flags| *flags != found.flags) {
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

/// Whether an entry has the form of a parent pointer.
fn is_parent_pointer(bytes: &[u8], index: usize, geometry: &Geometry) -> bool {
    let leaf = LeafBlock::parse(bytes, geometry).ok();
    let attribute = leaf.and_then(|leaf| leaf.attribute(u32::try_from(index).ok()?));
    attribute.is_some_and(|attribute| {
        attribute.flags.contains(AttributeFlags::PARENT)
            && is_valid_name(attribute.flags, attribute.name)
            && matches!(attribute.value, LeafValue::Local(value) if value.len() == size_of::<ParentRecord>())
    })
}

/// What is left of flags of which some mean nothing: none of the others can be relied on, and an attribute of a user gives no access.
fn likely_flags(found: AttributeFlags) -> u8 {
    let is_known = AttributeFlags::KNOWN.contains(found);
    let mut flags =
        if is_known { found } else { found.intersection(AttributeFlags::KNOWN) - AttributeFlags::INCOMPLETE };
    if flags.contains(AttributeFlags::NAMESPACES) {
        flags -= AttributeFlags::NAMESPACES;
    }
    flags.bits()
}

/// Whether no other entry has the name at this place.
fn is_only_one_at(bytes: &mut [u8], index: usize, offset_bytes: u16) -> bool {
    let count = header(bytes).map_or(0, |header| usize::from(header.count.get()));
    let mut others = (0..count).filter(|other| *other != index);
    !others.any(|other| entry(bytes, other).is_some_and(|entry| entry.name_offset.get() == offset_bytes))
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

/// Takes an entry out. Its name stays as a hole.
fn remove(bytes: &mut [u8], index: usize, geometry: &Geometry) -> bool {
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
    // What it took is no part of another value.
    if let Some(used) = used_bytes(bytes, geometry)
        && let Some(header) = self::header(bytes)
    {
        header.used_bytes.set(used);
    }
    true
}

/// Bytes that names and values take; `None` where an entry cannot be read.
fn used_bytes(bytes: &[u8], geometry: &Geometry) -> Option<u16> {
    let leaf = LeafBlock::parse(bytes, geometry).ok()?;
    let mut lengths =
        leaf.attributes().map(|attribute| attribute.ok().map(|attribute| attribute.stored_bytes()));
    let used = lengths.try_fold(0_u32, |sum, length| sum.checked_add(length?))?;
    u16::try_from(used).ok()
}
