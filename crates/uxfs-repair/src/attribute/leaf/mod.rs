//! An attribute leaf of which a field is wrong, as it lies in its block.
//!
//! What follows from the names is computed again; a name that has lost its place, length or flags is looked for by its hash. A hash that
//! is not that of its name is wrong where that of the name lies between its neighbours, else the name is. An entry whose name stays
//! wrong is taken out, and the others are kept.

pub(crate) mod contradicted;
mod entry;
mod hash;
mod name;
mod value_length;

use std::ops::RangeInclusive;

use uxfs_format::{
    attribute::{
        flags::AttributeFlags,
        leaf::{AttributeLeafFault, FreeRegion, LeafBlock, LeafEntry, LeafHeader},
    },
    checksum,
    field_table::OnDisk,
    geometry::Geometry,
    name_tree::header::CHECKSUM_OFFSET_BYTES,
    units::FileBlock,
    verify::VerifyContext,
};

use self::entry::{
    ENTRY_BYTES, HEADER_BYTES, entry, header, is_right, remote_value, remove, set_remote_length,
    set_value_place,
};
use super::stored_values::StoredValues;

/// Faults that are mended one after the other.
const MOST_FAULTS: u32 = 64;

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

impl LeafWitnesses<'_> {
    /// Parent pointers that the inode should have, less the sound ones that it has, those in this leaf included.
    fn missing_parents(&self, bytes: &[u8], geometry: &Geometry) -> u64 {
        let of_leaf = sound_parents(bytes, geometry);
        self.values.map_or(u64::MAX, |values| values.missing_parents(of_leaf))
    }
}

/// The sound parent pointers of a leaf, whose other entries may be damaged.
pub(super) fn sound_parents(bytes: &[u8], geometry: &Geometry) -> u64 {
    let Ok(leaf) = LeafBlock::parse(bytes, geometry) else { return 0 };
    let is_sound = |index: &usize| {
        entry::is_parent_pointer(bytes, *index, geometry) && is_right(bytes, *index, geometry)
    };
    (0..leaf.entries.len()).filter(is_sound).count() as u64
}

/// What was done to a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Done {
    /// Entries that were taken out.
    pub removed: u32,
    /// Values whose length is a guess, and names whose namespace is one.
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
    let mut parents_left = witnesses.missing_parents(bytes, context.geometry);
    for _ in 0..MOST_FAULTS {
        let fault = match LeafBlock::verify(bytes, context) {
            Ok(()) => break,
            Err(fault) => fault,
        };
        match mend_one(bytes, &fault, context.geometry, witnesses) {
            Outcome::Mended => {}
            Outcome::Guessed => done.guessed += 1,
            Outcome::Removed => done.removed += 1,
            // It comes back from the entry of a directory, if it was one.
            Outcome::ParentRemoved if parents_left > 0 => parents_left -= 1,
            Outcome::ParentRemoved => done.removed += 1,
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
    /// The length of a value, or the namespace of a name, is a guess.
    Guessed,
    /// An entry was taken out.
    Removed,
    /// An entry was taken out that was marked as a parent pointer.
    ParentRemoved,
    Nothing,
}

impl Outcome {
    fn of(is_guess: bool) -> Self {
        if is_guess { Self::Guessed } else { Self::Mended }
    }
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
                Some(is_guess) => Outcome::of(is_guess),
                None => Outcome::Nothing,
            },
            None => mended(header(bytes).map(|header| header.used_bytes.set((found & 0xffff) as u16))),
        },
        F::FreeRegion { .. } => mended(free_nothing(bytes)),
        F::HashOrder { .. } | F::NameHash { .. } => hash::mend(bytes, geometry, &witnesses.hashes),
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
    if let Some(is_guess) = name::find(bytes, index, geometry) {
        return Outcome::of(is_guess);
    }
    let is_parent = entry(bytes, index).is_some_and(|entry| entry.flags().contains(AttributeFlags::PARENT));
    match value_length::fit(bytes, index, geometry) {
        Some(is_guess) => Outcome::of(is_guess),
        None if !remove(bytes, index, geometry) => Outcome::Nothing,
        None if is_parent => Outcome::ParentRemoved,
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
