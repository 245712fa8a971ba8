//! Changing an attribute leaf.
//!
//! Entries grow from the front, names from the back. Between them lies the *gap*; names that were removed leave
//! *holes* behind it. The header's free map has room for three regions: the gap is always the first here, and the two
//! largest holes follow; others are forgotten. When neither gap nor a known hole suffices but the free bytes together
//! do, the names are moved to the end. The header also says whether there may be holes at all, in the map or not: Linux
//! moves whole leaves into the gap of one that says to have none.
//!
//! Invariant: the bytes after every function are a leaf that [`LeafBlock::verify`](super::leaf::LeafBlock::verify)
//! accepts once it is sealed.

use zerocopy::{
    FromBytes, IntoBytes,
    big_endian::{U16, U32},
};

use super::{
    flags::AttributeFlags,
    leaf::{
        self, FreeRegion, LeafAttribute, LeafBlock, LeafEntry, LeafHeader, LeafValue, LocalHead, RemoteHead,
    },
};
use crate::{
    convert::{low_u8, low_u16, low_u32, to_u64, to_usize},
    edit::Edit,
    field_table::OnDisk,
    name_tree::{entry_array::MoveSide, header::BlockHeader, header_edit::BlockIdentity},
};

const HEADER_BYTES: u32 = 80;
const ENTRY_BYTES: u32 = 8;
/// Where what changes with every name begins: count, used bytes, first name, holes, free map.
const SUMMARY_OFFSET_BYTES: usize = 56;

/// An attribute to be put into a leaf.
#[derive(Debug, Clone, Copy)]
pub struct NewAttribute<'a> {
    /// Hash of the name.
    pub hash: u32,
    /// Namespace, and [`AttributeFlags::INCOMPLETE`]; whether it is local its value says.
    pub flags: AttributeFlags,
    /// Its name.
    pub name: &'a [u8],
    /// Its value, or where that lies.
    pub value: LeafValue<'a>,
}

impl NewAttribute<'_> {
    /// Bytes that name and value take, without the entry.
    pub fn stored_bytes(&self) -> u32 {
        let name_length = low_u32(to_u64(self.name.len()));
        match self.value {
            LeafValue::Local(value) => leaf::local_size_bytes(name_length, low_u32(to_u64(value.len()))),
            LeafValue::Remote { .. } => leaf::remote_size_bytes(name_length),
        }
    }

    /// Bytes that it takes of a leaf, with its entry.
    pub fn whole_bytes(&self) -> u32 {
        self.stored_bytes().saturating_add(ENTRY_BYTES)
    }
}

/// Whether a value of this length lies beside its name: the two may take less than three quarters of a block.
#[doc(alias = "xfs_attr_leaf_entsize_local_max")]
pub const fn is_local(block_size_bytes: u32, name_length: u32, value_length: u32) -> bool {
    let most = (block_size_bytes >> 1).saturating_add(block_size_bytes >> 2);
    leaf::local_size_bytes(name_length, value_length) < most
}

/// How the entries of a full leaf and a new one are to be spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitPlan {
    /// Over two leaves: this many of the entries *with* the new one stay.
    Two {
        /// At least 1, and less than all.
        stay: u32,
    },
    /// Over three: what comes before the new one, the new one alone, what comes after.
    Three,
}

/// Which end of the tree a leaf is split at. Names that come in the order of their hashes fill the leaves behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitBias {
    /// As even as can be.
    Even,
    /// The new entry is the last of all: leave the old ones together.
    Last,
    /// The new entry is the first of all.
    First,
}

/// The fields of the header, in numbers.
#[derive(Debug, Clone, Copy)]
struct Summary {
    count: u32,
    used_bytes: u32,
    first_used: u32,
    has_holes: bool,
    holes: [Hole; 3],
}

/// A free region behind the first name; size 0 for none.
#[derive(Debug, Clone, Copy, Default)]
struct Hole {
    base: u32,
    size: u32,
}

/// A leaf to be changed. The bytes are those of one whole block.
#[derive(Debug)]
pub struct LeafEdit<'a> {
    edit: Edit<'a>,
}

impl<'a> LeafEdit<'a> {
    /// Of a block that has been verified as a leaf.
    #[inline]
    pub fn new(edit: Edit<'a>) -> Self {
        Self { edit }
    }

    /// Makes a block of zeros an empty leaf without neighbours.
    pub fn init(mut edit: Edit<'a>, identity: &BlockIdentity) -> Self {
        let info = BlockHeader::new(leaf::MAGIC, identity);
        edit.put_value(0, &info);
        let mut leaf = Self { edit };
        let first_used = leaf.size_bytes();
        leaf.store(&Summary {
            count: 0,
            used_bytes: 0,
            first_used,
            has_holes: false,
            holes: [Hole::default(); 3],
        });
        leaf
    }

    /// The leaf as it is now.
    #[inline]
    pub fn view(&self) -> Option<LeafBlock<'_>> {
        LeafBlock::of_block(self.edit.bytes())
    }

    fn size_bytes(&self) -> u32 {
        low_u32(to_u64(self.edit.len()))
    }

    /// Entries.
    pub fn count(&self) -> u32 {
        self.summary().count
    }

    /// Bytes that are free, wherever they lie.
    pub fn free_bytes(&self) -> u32 {
        self.free_of(&self.summary())
    }

    fn free_of(&self, summary: &Summary) -> u32 {
        self.size_bytes().saturating_sub(entries_end(summary.count)).saturating_sub(summary.used_bytes)
    }

    fn summary(&self) -> Summary {
        let Some(header) = LeafHeader::prefix_of(self.edit.bytes()) else {
            return Summary {
                count: 0,
                used_bytes: 0,
                first_used: self.size_bytes(),
                has_holes: false,
                holes: [Hole::default(); 3],
            };
        };
        let first_used = match header.first_used.get() {
            0 => 65536,
            first_used => u32::from(first_used),
        };
        // What the map says of the gap is not needed: it lies between the entries and the first name.
        let holes = header.free_map.map(|region| {
            let (base, size) = (u32::from(region.base_bytes.get()), u32::from(region.size_bytes.get()));
            if base < first_used { Hole::default() } else { Hole { base, size } }
        });
        Summary {
            count: header.count.get().into(),
            used_bytes: header.used_bytes.get().into(),
            first_used,
            has_holes: header.has_holes != 0,
            holes,
        }
    }

    /// Writes the header's counts and the free map: the gap, and the two largest holes.
    fn store(&mut self, summary: &Summary) {
        let mut holes = summary.holes;
        holes.sort_unstable_by_key(|hole| std::cmp::Reverse(hole.size));
        let [first, second, _] = holes;
        let region = |hole: Hole| FreeRegion {
            base_bytes: U16::new(low_u16(if hole.size == 0 { 0 } else { hole.base.into() })),
            size_bytes: U16::new(low_u16(hole.size.into())),
        };
        let end = entries_end(summary.count);
        let gap = FreeRegion {
            base_bytes: U16::new(low_u16(end.into())),
            size_bytes: U16::new(low_u16(summary.first_used.saturating_sub(end).into())),
        };
        let Some(header) = self.edit.value::<SummaryFields>(SUMMARY_OFFSET_BYTES) else { return };
        header.count = U16::new(low_u16(summary.count.into()));
        header.used_bytes = U16::new(low_u16(summary.used_bytes.into()));
        // 65536 wraps to the 0 that stands for it.
        header.first_used = U16::new(low_u16(summary.first_used.into()));
        header.has_holes = u8::from(summary.has_holes);
        header.free_map = [gap, region(first), region(second)];
    }

    fn entry(&self, index: u32) -> Option<LeafEntry> {
        entry_at(self.edit.bytes(), index)
    }

    /// Bytes that an entry's name and value take.
    fn stored_bytes(&self, entry: &LeafEntry) -> u32 {
        stored_bytes_in(self.edit.bytes(), entry)
    }

    /// The attribute at `index`.
    pub fn attribute(&self, index: u32) -> Option<LeafAttribute<'_>> {
        self.view()?.attribute(index)
    }

    /// Bytes that entries and names take, and how many they could.
    pub fn fill_bytes(leaf: &LeafBlock<'_>, block_size_bytes: u32) -> (u32, u32) {
        let entries = u32::from(leaf.header.count.get()).saturating_mul(ENTRY_BYTES);
        let used = entries.saturating_add(leaf.header.used_bytes.get().into());
        (used, block_size_bytes.saturating_sub(HEADER_BYTES))
    }

    /// Whether an attribute with `whole_bytes` (entry included) fits.
    pub fn has_room(&self, whole_bytes: u32) -> bool {
        self.free_bytes() >= whole_bytes
    }

    /// Puts an attribute at `index`, which must be where its hash belongs. `false`, and nothing done, without room.
    pub fn insert(&mut self, index: u32, new: &NewAttribute<'_>) -> bool {
        let size = new.stored_bytes();
        let mut summary = self.summary();
        if self.free_of(&summary) < size.saturating_add(ENTRY_BYTES) || index > summary.count {
            return false;
        }
        let offset = self.take_room(&mut summary, size);
        self.open_entries(&summary, index, 1);
        let mut flags = new.flags.difference(AttributeFlags::LOCAL);
        if matches!(new.value, LeafValue::Local(_)) {
            flags |= AttributeFlags::LOCAL;
        }
        let entry = LeafEntry {
            hash: U32::new(new.hash),
            name_offset: U16::new(low_u16(offset.into())),
            flags: flags.bits(),
            padding: 0,
        };
        self.edit.put_value(to_usize(entries_end(index)), &entry);
        write_name(self.edit.range(to_usize(offset), to_usize(size)), new);
        summary.count = summary.count.saturating_add(1);
        summary.used_bytes = summary.used_bytes.saturating_add(size);
        self.store(&summary);
        true
    }

    /// Finds a place for a name of `size` bytes while one more entry is to fit. The caller has counted that there is
    /// room.
    fn take_room(&mut self, summary: &mut Summary, size: u32) -> u32 {
        let gap = summary.first_used.saturating_sub(entries_end(summary.count));
        if gap >= ENTRY_BYTES {
            // The tightest hole, so that large ones stay.
            let fitting = summary.holes.iter_mut().filter(|hole| hole.size >= size && hole.size != 0);
            if let Some(hole) = fitting.min_by_key(|hole| hole.size) {
                hole.size = hole.size.saturating_sub(size);
                return hole.base.saturating_add(hole.size);
            }
        }
        if gap < size.saturating_add(ENTRY_BYTES) {
            self.compact(summary);
        }
        summary.first_used = summary.first_used.saturating_sub(size);
        summary.first_used
    }

    /// Moves entries from `index` on up by `added`.
    fn open_entries(&mut self, summary: &Summary, index: u32, added: u32) {
        let from = entries_end(index);
        let length = entries_end(summary.count).saturating_sub(from);
        let target = from.saturating_add(added.saturating_mul(ENTRY_BYTES));
        self.edit.copy_within(to_usize(from), to_usize(target), to_usize(length));
    }

    /// Moves all names to the end of the block, in the order of their entries.
    fn compact(&mut self, summary: &mut Summary) {
        let old = self.edit.bytes().to_vec();
        let mut end = self.size_bytes();
        for index in 0..summary.count {
            let Some(entry) = self.entry(index) else { break };
            let offset = entry.name_offset.get();
            let name = old.get(usize::from(offset)..).unwrap_or_default();
            let size = stored_bytes_at(&entry, name);
            let Some(name) = name.get(..to_usize(size)) else { break };
            end = end.saturating_sub(size);
            self.edit.put(to_usize(end), name);
            self.set_name_offset(index, end);
        }
        let entries_end = entries_end(summary.count);
        self.edit.clear(to_usize(entries_end), to_usize(end.saturating_sub(entries_end)));
        summary.first_used = end;
        summary.has_holes = false;
        summary.holes = [Hole::default(); 3];
    }

    fn set_name_offset(&mut self, index: u32, offset: u32) {
        let offset_bytes = U16::new(low_u16(offset.into()));
        self.edit.put_value(to_usize(entries_end(index).saturating_add(4)), &offset_bytes);
    }

    /// Removes the attribute at `index`.
    pub fn remove(&mut self, index: u32) {
        let mut summary = self.summary();
        let Some(entry) = self.entry(index).filter(|_| index < summary.count) else { return };
        let (offset, size) = (u32::from(entry.name_offset.get()), self.stored_bytes(&entry));
        self.edit.clear(to_usize(offset), to_usize(size));
        let behind = entries_end(index.saturating_add(1));
        let length = entries_end(summary.count).saturating_sub(behind);
        self.edit.copy_within(to_usize(behind), to_usize(entries_end(index)), to_usize(length));
        summary.count = summary.count.saturating_sub(1);
        self.edit.clear(to_usize(entries_end(summary.count)), to_usize(ENTRY_BYTES));
        summary.used_bytes = summary.used_bytes.saturating_sub(size);
        if offset == summary.first_used {
            summary.first_used = self.lowest_name(summary.count);
            for hole in &mut summary.holes {
                if hole.base < summary.first_used {
                    *hole = Hole::default();
                }
            }
        } else {
            summary.has_holes = true;
            summary.add_hole(Hole { base: offset, size });
        }
        if summary.count == 0 {
            // Linux does not update firstused after moving entries to another leaf.
            summary.first_used = self.size_bytes();
            summary.has_holes = false;
            summary.holes = [Hole::default(); 3];
        }
        self.store(&summary);
    }

    fn lowest_name(&self, count: u32) -> u32 {
        let bytes = self.edit.bytes().get(to_usize(HEADER_BYTES)..).unwrap_or_default();
        let entries = <[LeafEntry]>::ref_from_prefix_with_elems(bytes, to_usize(count));
        let entries = entries.map(|(entries, _)| entries).unwrap_or_default();
        let lowest = entries.iter().map(|entry| u32::from(entry.name_offset.get())).min();
        lowest.unwrap_or(self.size_bytes())
    }

    /// Replaces the value at `index` where the new one takes exactly as many bytes and lies in the same place, beside
    /// its name or elsewhere. `false`, and nothing done, where it does not.
    pub fn replace_in_place(&mut self, index: u32, new: &NewAttribute<'_>) -> bool {
        let Some(entry) = self.entry(index).filter(|_| index < self.count()) else { return false };
        let size = self.stored_bytes(&entry);
        let is_local = matches!(new.value, LeafValue::Local(_));
        if entry.flags().contains(AttributeFlags::LOCAL) != is_local || size != new.stored_bytes() {
            return false;
        }
        write_name(self.edit.range(usize::from(entry.name_offset.get()), to_usize(size)), new);
        true
    }

    /// Marks an attribute as half made, or as complete.
    pub fn set_incomplete(&mut self, index: u32, is_incomplete: bool) {
        let Some(entry) = self.entry(index).filter(|_| index < self.count()) else { return };
        let mut flags = entry.flags();
        flags.set(AttributeFlags::INCOMPLETE, is_incomplete);
        self.edit.put(to_usize(entries_end(index).saturating_add(6)), &[flags.bits()]);
    }

    /// Moves `length` entries from `first` on to `target_index` of another leaf, which has room for them.
    pub fn move_to(&mut self, first: u32, length: u32, target: &mut LeafEdit<'_>, target_index: u32) {
        let mut summary = self.summary();
        let end = first.saturating_add(length).min(summary.count);
        let length = end.saturating_sub(first);
        if length == 0 {
            return;
        }
        let mut moved_bytes = 0_u32;
        for index in first..end {
            let size = self.entry(index).map_or(0, |entry| self.stored_bytes(&entry));
            moved_bytes = moved_bytes.saturating_add(size);
        }
        target.take_entries(self.edit.bytes(), first..end, moved_bytes, target_index);
        let behind = entries_end(end);
        let rest = entries_end(summary.count).saturating_sub(behind);
        self.edit.copy_within(to_usize(behind), to_usize(entries_end(first)), to_usize(rest));
        summary.count = summary.count.saturating_sub(length);
        summary.used_bytes = summary.used_bytes.saturating_sub(moved_bytes);
        self.compact(&mut summary);
        self.store(&summary);
    }

    /// Puts all entries of another leaf, for which there is room, before those of this one or behind them. The other is
    /// given up.
    pub fn take_all(&mut self, other: &[u8], place: MoveSide) {
        let Some(leaf) = LeafBlock::of_block(other) else { return };
        let index = match place {
            MoveSide::Front => 0,
            MoveSide::Back => self.count(),
        };
        let count = leaf.header.count.get().into();
        self.take_entries(other, 0..count, leaf.header.used_bytes.get().into(), index);
    }

    /// The receiving half of [`move_to`](Self::move_to).
    fn take_entries(&mut self, source: &[u8], range: std::ops::Range<u32>, moved_bytes: u32, index: u32) {
        let mut summary = self.summary();
        let length = range.end.saturating_sub(range.start);
        let gap = summary.first_used.saturating_sub(entries_end(summary.count));
        if gap < moved_bytes.saturating_add(length.saturating_mul(ENTRY_BYTES)) {
            self.compact(&mut summary);
        }
        self.open_entries(&summary, index, length);
        for (place, from) in (index..).zip(range) {
            let Some(mut entry) = entry_at(source, from) else { break };
            let offset = usize::from(entry.name_offset.get());
            let size = stored_bytes_in(source, &entry);
            let name = source.get(offset..offset.saturating_add(to_usize(size)));
            summary.first_used = summary.first_used.saturating_sub(size);
            self.edit.put(to_usize(summary.first_used), name.unwrap_or_default());
            entry.name_offset = U16::new(low_u16(summary.first_used.into()));
            self.edit.put_value(to_usize(entries_end(place)), &entry);
        }
        summary.count = summary.count.saturating_add(length);
        summary.used_bytes = summary.used_bytes.saturating_add(moved_bytes);
        self.store(&summary);
    }

    /// How to spread the entries and a new one of `whole_bytes` (entry included) at `index`, for which there is no
    /// room.
    pub fn plan_split(&self, index: u32, whole_bytes: u32, bias: SplitBias) -> SplitPlan {
        let count = self.count();
        let capacity = self.size_bytes().saturating_sub(HEADER_BYTES);
        match bias {
            SplitBias::Last if index == count && count > 0 => return SplitPlan::Two { stay: count },
            SplitBias::First if index == 0 && count > 0 => return SplitPlan::Two { stay: 1 },
            _ => {}
        }
        let used = self.summary().used_bytes.saturating_add(count.saturating_mul(ENTRY_BYTES));
        let total = used.saturating_add(whole_bytes);
        let (mut left, mut best) = (0_u32, None);
        for stay in 1..=count {
            let place = stay.saturating_sub(1);
            left = left.saturating_add(match place.cmp(&index) {
                std::cmp::Ordering::Less => self.whole_bytes_of(place),
                std::cmp::Ordering::Equal => whole_bytes,
                std::cmp::Ordering::Greater => self.whole_bytes_of(place.saturating_sub(1)),
            });
            let right = total.saturating_sub(left);
            let uneven = left.abs_diff(right);
            if left <= capacity && right <= capacity && best.is_none_or(|(least, _)| uneven < least) {
                best = Some((uneven, stay));
            }
        }
        best.map_or(SplitPlan::Three, |(_, stay)| SplitPlan::Two { stay })
    }

    fn whole_bytes_of(&self, index: u32) -> u32 {
        let size = self.entry(index).map_or(0, |entry| self.stored_bytes(&entry));
        size.saturating_add(ENTRY_BYTES)
    }
}

impl Summary {
    /// Remembers a free region, as one with those that it touches. The smallest of too many is forgotten.
    fn add_hole(&mut self, new: Hole) {
        let mut new = new;
        for hole in &mut self.holes {
            if hole.size == 0 {
                continue;
            }
            let touches_below = hole.base.saturating_add(hole.size) == new.base;
            let touches_above = new.base.saturating_add(new.size) == hole.base;
            if touches_below || touches_above {
                new = Hole { base: hole.base.min(new.base), size: hole.size.saturating_add(new.size) };
                *hole = Hole::default();
            }
        }
        let Some(slot) = self.holes.iter_mut().min_by_key(|hole| hole.size) else { return };
        if slot.size < new.size {
            *slot = new;
        }
    }
}

/// The part of the header that changes with the entries.
#[derive(FromBytes, IntoBytes, zerocopy::KnownLayout, zerocopy::Immutable, zerocopy::Unaligned)]
#[repr(C)]
struct SummaryFields {
    count: U16,
    used_bytes: U16,
    first_used: U16,
    has_holes: u8,
    padding: u8,
    free_map: [FreeRegion; 3],
}

/// Where the entries end when there are `count`.
const fn entries_end(count: u32) -> u32 {
    HEADER_BYTES.saturating_add(count.saturating_mul(ENTRY_BYTES))
}

fn entry_at(block: &[u8], index: u32) -> Option<LeafEntry> {
    let bytes = block.get(to_usize(entries_end(index))..)?;
    LeafEntry::read_from_prefix(bytes).ok().map(|(entry, _)| entry)
}

fn stored_bytes_in(block: &[u8], entry: &LeafEntry) -> u32 {
    stored_bytes_at(entry, block.get(usize::from(entry.name_offset.get())..).unwrap_or_default())
}

/// Bytes of the name and value that begin `at`.
fn stored_bytes_at(entry: &LeafEntry, at: &[u8]) -> u32 {
    if entry.flags().contains(AttributeFlags::LOCAL) {
        LocalHead::prefix_of(at)
            .map_or(0, |head| leaf::local_size_bytes(head.name_length.into(), head.value_length.get().into()))
    } else {
        RemoteHead::prefix_of(at).map_or(0, |head| leaf::remote_size_bytes(head.name_length.into()))
    }
}

/// Writes name and value into exactly the bytes that they take.
fn write_name(target: &mut [u8], new: &NewAttribute<'_>) {
    let name_length = low_u8(to_u64(new.name.len()));
    let mut parts = Parts { rest: target };
    match new.value {
        LeafValue::Local(value) => {
            let value_length = U16::new(low_u16(to_u64(value.len())));
            parts.put(LocalHead { value_length, name_length }.as_bytes());
            parts.put(new.name);
            parts.put(value);
        }
        LeafValue::Remote { first_block, length_bytes } => {
            let value_block = U32::new(low_u32(first_block.get()));
            let value_length = U32::new(length_bytes);
            parts.put(RemoteHead { value_block, value_length, name_length }.as_bytes());
            parts.put(new.name);
        }
    }
    parts.rest.fill(0);
}

/// A place that is written from front to back.
struct Parts<'a> {
    rest: &'a mut [u8],
}

impl Parts<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let rest = std::mem::take(&mut self.rest);
        match rest.split_at_mut_checked(bytes.len()) {
            Some((target, rest)) => {
                target.copy_from_slice(bytes);
                self.rest = rest;
            }
            None => self.rest = &mut [],
        }
    }
}

#[cfg(test)]
#[path = "leaf_edit_tests.rs"]
mod tests;
