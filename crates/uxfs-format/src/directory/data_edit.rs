//! Changing the records of data blocks, and of the data part of single-block directories.
//!
//! Every change keeps what [`verify_records`](super::data) checks: records without gaps, neighbouring free regions as
//! one, and exactly the three longest of them in the header. The block is walked only where the header's list cannot
//! say which region is the next longest.

use zerocopy::big_endian::{U16, U32, U64};

use super::{
    DATA_HEADER_BYTES, EntryFormat,
    data::{
        BestFree, DataHeader, DataRecord, DataRecords, DirectoryDataFault, EntryHead, FREE_TAG, FreeHead,
        entry_at,
    },
    header::DirectoryBlockHeader,
    length_of, slice_at,
};
use crate::{
    checksum::Checksum,
    convert::{low_u16, low_u32, to_u64, to_usize},
    edit::Edit,
    field_table::OnDisk,
    name_tree::header_edit::BlockIdentity,
    units::InodeNumber,
};

/// Where the list of longest free regions lies.
const BEST_FREE_OFFSET_BYTES: usize = 48;
/// Bytes of the tag at the end of each record.
const TAG_BYTES: u32 = 2;

/// A free region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FreeRegion {
    /// Where it lies in the block.
    pub offset_bytes: u32,
    /// A multiple of 8; 0 for none.
    pub length_bytes: u32,
}

impl FreeRegion {
    fn end(self) -> u32 {
        self.offset_bytes.saturating_add(self.length_bytes)
    }
}

/// The fields of an entry to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewEntry<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// The inode.
    pub inode: InodeNumber,
    /// The code of its file type; not stored where the file system keeps none.
    pub file_type_code: u8,
}

impl DirectoryBlockHeader {
    /// The header of a new block.
    pub fn new(magic: u32, identity: &BlockIdentity) -> Self {
        Self {
            magic: U32::new(magic),
            checksum: Checksum::default(),
            sector: U64::new(identity.sector.get()),
            lsn: U64::new(0),
            uuid: identity.uuid,
            owner: U64::new(identity.owner.get()),
        }
    }
}

/// The records of a block that is being changed.
#[derive(Debug)]
pub struct DataEdit<'a> {
    pub(super) edit: Edit<'a>,
    end_bytes: u32,
    format: EntryFormat,
}

impl<'a> DataEdit<'a> {
    /// A data block.
    pub fn new(edit: Edit<'a>, format: EntryFormat) -> Self {
        let end_bytes = length_of(edit.bytes());
        Self { edit, end_bytes, format }
    }

    /// A block whose records end at `end_bytes`.
    pub(super) fn up_to(edit: Edit<'a>, end_bytes: u32, format: EntryFormat) -> Self {
        Self { edit, end_bytes, format }
    }

    /// Makes the block a data block without entries.
    pub fn init(edit: Edit<'a>, identity: &BlockIdentity, format: EntryFormat) -> Self {
        let end_bytes = length_of(edit.bytes());
        Self::init_up_to(edit, identity, super::data::MAGIC, end_bytes, format)
    }

    /// Makes the block a data block with entries at the given places, in order.
    pub fn init_with<'n>(
        edit: Edit<'a>,
        identity: &BlockIdentity,
        format: EntryFormat,
        entries: impl Iterator<Item = (u32, NewEntry<'n>)>,
    ) -> Self {
        let mut data = Self::init(edit, identity, format);
        data.lay_out(entries);
        data
    }

    pub(super) fn init_up_to(
        mut edit: Edit<'a>,
        identity: &BlockIdentity,
        magic: u32,
        end_bytes: u32,
        format: EntryFormat,
    ) -> Self {
        let none = BestFree { offset_bytes: U16::new(0), length_bytes: U16::new(0) };
        let header = DataHeader {
            header: DirectoryBlockHeader::new(magic, identity),
            best_free: [none; 3],
            padding: U32::new(0),
        };
        edit.put_value(0, &header);
        let mut data = Self { edit, end_bytes, format };
        data.make_free(DATA_HEADER_BYTES, end_bytes.saturating_sub(DATA_HEADER_BYTES));
        data
    }

    /// The longest free region's length.
    #[inline]
    pub fn longest_bytes(&self) -> u16 {
        longest_free_bytes(self.edit.bytes())
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        is_empty(self.edit.bytes(), self.end_bytes)
    }

    /// A free region for an entry of `size_bytes`: the shortest of those in the header that are long enough.
    #[inline]
    pub fn room_for(&self, size_bytes: u32) -> Option<FreeRegion> {
        self.best().into_iter().rev().find(|region| region.length_bytes >= size_bytes)
    }

    /// Puts an entry at the start of a free region that is long enough. Gives where it lies.
    #[inline]
    pub fn insert(&mut self, region: FreeRegion, entry: &NewEntry<'_>) -> u32 {
        let size_bytes = self.put_entry(region.offset_bytes, entry);
        let rest = FreeRegion {
            offset_bytes: region.offset_bytes.saturating_add(size_bytes),
            length_bytes: region.length_bytes.saturating_sub(size_bytes),
        };
        self.put_free(rest);
        self.update_best(&[region], rest);
        region.offset_bytes
    }

    /// Takes the entry at `offset_bytes` out.
    ///
    /// # Errors
    /// There is none.
    pub fn remove(&mut self, offset_bytes: u32) -> Result<(), DirectoryDataFault> {
        let entry = entry_at(self.edit.bytes(), offset_bytes, self.end_bytes, self.format)?;
        let size_bytes = self.format.entry_size_bytes(name_length(entry.name));
        self.make_free(offset_bytes, size_bytes);
        Ok(())
    }

    /// Lets the entry at `offset_bytes` lead to another inode.
    ///
    /// # Errors
    /// There is none.
    pub fn replace(
        &mut self,
        offset_bytes: u32,
        inode: InodeNumber,
        file_type_code: u8,
    ) -> Result<(), DirectoryDataFault> {
        let entry = entry_at(self.edit.bytes(), offset_bytes, self.end_bytes, self.format)?;
        let at = to_usize(offset_bytes);
        let type_at = at.saturating_add(EntryHead::SIZE_BYTES).saturating_add(entry.name.len());
        self.edit.put_value(at, &U64::new(inode.get()));
        if self.format.has_file_type {
            self.edit.put(type_at, &[file_type_code]);
        }
        Ok(())
    }

    /// Puts entries at the given places, in order, into a block that has none; what lies between is free.
    pub(super) fn lay_out<'n>(&mut self, entries: impl Iterator<Item = (u32, NewEntry<'n>)>) {
        let mut next = DATA_HEADER_BYTES;
        let between =
            |from: u32, to: u32| FreeRegion { offset_bytes: from, length_bytes: to.saturating_sub(from) };
        for (offset_bytes, entry) in entries {
            self.put_free(between(next, offset_bytes));
            next = offset_bytes.saturating_add(self.put_entry(offset_bytes, &entry));
        }
        self.put_free(between(next, self.end_bytes));
        let list = self.walk_free();
        self.edit.put_value(BEST_FREE_OFFSET_BYTES, &list.regions.map(stored));
    }

    /// Writes an entry with its tag; gives what it takes.
    fn put_entry(&mut self, offset_bytes: u32, entry: &NewEntry<'_>) -> u32 {
        let name_length = name_length(entry.name);
        let size_bytes = self.format.entry_size_bytes(name_length);
        let target = self.edit.range(to_usize(offset_bytes), to_usize(size_bytes));
        let Some((head, rest)) = target.split_first_chunk_mut::<9>() else { return size_bytes };
        let [inode @ .., length] = head;
        *inode = entry.inode.get().to_be_bytes();
        *length = name_length;
        let Some((name, rest)) = rest.split_at_mut_checked(entry.name.len()) else { return size_bytes };
        name.copy_from_slice(entry.name);
        let Some((padding, tag)) = rest.split_last_chunk_mut::<2>() else { return size_bytes };
        padding.fill(0);
        if self.format.has_file_type
            && let Some(code) = padding.first_mut()
        {
            *code = entry.file_type_code;
        }
        *tag = low_u16(offset_bytes.into()).to_be_bytes();
        size_bytes
    }

    /// Writes head and tag of a free region, if it has a length.
    fn put_free(&mut self, region: FreeRegion) {
        if region.length_bytes == 0 {
            return;
        }
        let head = FreeHead {
            free_tag: U16::new(FREE_TAG),
            length_bytes: U16::new(low_u16(region.length_bytes.into())),
        };
        self.edit.put_value(to_usize(region.offset_bytes), &head);
        let tag = U16::new(low_u16(region.offset_bytes.into()));
        self.edit.put_value(to_usize(region.end().saturating_sub(TAG_BYTES)), &tag);
    }

    /// Makes bytes that nothing uses any more a free region, one with those beside it.
    fn make_free(&mut self, offset_bytes: u32, length_bytes: u32) {
        let mut region = FreeRegion { offset_bytes, length_bytes };
        let before = self.free_before(offset_bytes);
        let after = self.free_at(region.end());
        if let Some(before) = before {
            region.offset_bytes = before.offset_bytes;
            region.length_bytes = region.length_bytes.saturating_add(before.length_bytes);
        }
        if let Some(after) = after {
            region.length_bytes = region.length_bytes.saturating_add(after.length_bytes);
        }
        self.put_free(region);
        self.update_best(&[before.unwrap_or_default(), after.unwrap_or_default()], region);
    }

    /// The free region that ends at `offset_bytes`, if one does: found by its tag.
    pub(super) fn free_before(&self, offset_bytes: u32) -> Option<FreeRegion> {
        let tag = slice_at(self.edit.bytes(), offset_bytes.checked_sub(TAG_BYTES)?, TAG_BYTES)?;
        let start = u32::from(u16::from_be_bytes(*tag.first_chunk()?));
        if start < DATA_HEADER_BYTES || start & 7 != 0 {
            return None;
        }
        self.free_at(start).filter(|region| region.end() == offset_bytes)
    }

    /// The free region that begins at `offset_bytes`, if one does.
    fn free_at(&self, offset_bytes: u32) -> Option<FreeRegion> {
        if offset_bytes >= self.end_bytes {
            return None;
        }
        let head = FreeHead::prefix_of(self.edit.bytes().get(to_usize(offset_bytes)..)?)?;
        let is_free = head.free_tag.get() == FREE_TAG;
        is_free.then(|| FreeRegion { offset_bytes, length_bytes: head.length_bytes.get().into() })
    }

    /// The free region at the end of the records, if there is one.
    pub(super) fn last_free(&self) -> Option<FreeRegion> {
        self.free_before(self.end_bytes)
    }

    /// Takes `length_bytes` off the end of the last record, which is free and long enough.
    pub(super) fn give_up_end(&mut self, length_bytes: u32) {
        let last = self.last_free().unwrap_or_default();
        self.end_bytes = self.end_bytes.saturating_sub(length_bytes);
        let rest = FreeRegion { length_bytes: last.length_bytes.saturating_sub(length_bytes), ..last };
        self.put_free(rest);
        self.update_best(&[last], rest);
    }

    /// Adds the bytes up to `end_bytes` to the records, as free.
    pub(super) fn take_end(&mut self, end_bytes: u32) {
        let from = self.end_bytes;
        self.end_bytes = end_bytes;
        self.make_free_at_end(from, end_bytes.saturating_sub(from));
    }

    /// The bytes behind the end were no records: only those before it count.
    fn make_free_at_end(&mut self, offset_bytes: u32, length_bytes: u32) {
        if length_bytes == 0 {
            return;
        }
        let before = self.free_before(offset_bytes).unwrap_or_default();
        let start = if before.length_bytes == 0 { offset_bytes } else { before.offset_bytes };
        let region = FreeRegion {
            offset_bytes: start,
            length_bytes: length_bytes.saturating_add(before.length_bytes),
        };
        self.put_free(region);
        self.update_best(&[before], region);
    }

    pub(super) fn best(&self) -> [FreeRegion; 3] {
        best_of(self.edit.bytes())
    }

    /// Brings the list up to date after `removed` regions went and `added` came (no length: none). Where the list was
    /// full, a region that is not in it may be as long as the last one that is: then the block is walked.
    fn update_best(&mut self, removed: &[FreeRegion], added: FreeRegion) {
        let old = self.best();
        let [_, _, shortest] = old;
        let mut list = BestList::default();
        for region in old {
            if !removed.contains(&region) {
                list.offer(region);
            }
        }
        let is_certain = shortest.length_bytes == 0
            || list.is_full()
            || (added.length_bytes >= shortest.length_bytes && list.has_two());
        list.offer(added);
        if !is_certain {
            list = self.walk_free();
        }
        self.edit.put_value(BEST_FREE_OFFSET_BYTES, &list.regions.map(stored));
    }

    /// The three longest free regions, from the records themselves.
    fn walk_free(&self) -> BestList {
        let mut list = BestList::default();
        for record in DataRecords::new(self.edit.bytes(), self.end_bytes, self.format).flatten() {
            if let DataRecord::Free { offset_bytes, length_bytes } = record {
                list.offer(FreeRegion { offset_bytes, length_bytes: length_bytes.into() });
            }
        }
        list
    }
}

/// The three longest regions that it was offered, longest first.
#[derive(Debug, Clone, Copy, Default)]
struct BestList {
    regions: [FreeRegion; 3],
}

impl BestList {
    fn offer(&mut self, mut region: FreeRegion) {
        for slot in &mut self.regions {
            if region.length_bytes > slot.length_bytes {
                std::mem::swap(slot, &mut region);
            }
        }
    }

    fn is_full(&self) -> bool {
        let [_, _, third] = self.regions;
        third.length_bytes != 0
    }

    fn has_two(&self) -> bool {
        let [_, second, _] = self.regions;
        second.length_bytes != 0
    }
}

fn stored(region: FreeRegion) -> BestFree {
    BestFree {
        offset_bytes: U16::new(low_u16(region.offset_bytes.into())),
        length_bytes: U16::new(low_u16(region.length_bytes.into())),
    }
}

fn best_of(bytes: &[u8]) -> [FreeRegion; 3] {
    let Some(header) = DataHeader::prefix_of(bytes) else { return [FreeRegion::default(); 3] };
    header.best_free.map(|best| FreeRegion {
        offset_bytes: best.offset_bytes.get().into(),
        length_bytes: best.length_bytes.get().into(),
    })
}

/// The length of the longest free region of a data block: what bests and free indexes keep.
#[inline]
pub fn longest_free_bytes(bytes: &[u8]) -> u16 {
    DataHeader::prefix_of(bytes).map_or(0, |header| {
        let [longest, ..] = header.best_free;
        longest.length_bytes.get()
    })
}

/// The value of [`longest_free_bytes`] for a data block without entries.
#[inline]
pub fn empty_block_bytes(directory_block_size_bytes: u32) -> u16 {
    low_u16(directory_block_size_bytes.saturating_sub(DATA_HEADER_BYTES).into())
}

fn is_empty(bytes: &[u8], end_bytes: u32) -> bool {
    let [longest, ..] = best_of(bytes);
    longest.offset_bytes == DATA_HEADER_BYTES && longest.end() == end_bytes
}

/// The length of a name, which has at most 255 bytes.
#[inline]
pub(super) fn name_length(name: &[u8]) -> u8 {
    u8::try_from(low_u32(to_u64(name.len()))).unwrap_or(u8::MAX)
}

#[cfg(test)]
#[path = "data_edit_tests.rs"]
mod tests;
