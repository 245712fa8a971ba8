//! Entries of a damaged directory block.
//!
//! Each record of a block ends in a tag that repeats where it begins, so that records can be found again behind a damaged region.
//! An entry passes the same checks as in a sound block. One more thing has to be told apart: bytes of a removed entry may lie
//! unchanged in a free region, and look like an entry once the head of that region is damaged. The index of the directory names the
//! entries that exist.

use super::{
    EntryFormat,
    block::SingleBlock,
    data::{DataEntry, DataRecord, FREE_TAG, record_at, record_tag, verify_entry},
    header::DirectoryBlockHeader,
    leaf::LeafEntry,
};
use crate::{
    convert::{low_u32, to_u64},
    field_table::OnDisk,
    geometry::Geometry,
    units::{InodeNumber, Sector},
};

/// Whether the header of a block says that it is the block at `sector` of this file system, and belongs to this directory.
pub fn is_block_of(block: &[u8], directory: InodeNumber, sector: Sector, geometry: &Geometry) -> bool {
    DirectoryBlockHeader::prefix_of(block).is_some_and(|header| {
        header.uuid == geometry.metadata_uuid
            && header.owner.get() == directory.get()
            && header.sector.get() == sector.get()
    })
}

/// An entry that passes all checks of an entry alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SalvagedEntry<'a> {
    /// The entry.
    pub entry: DataEntry<'a>,
    /// The records from the beginning of the block to this one are not all sound.
    pub is_behind_damage: bool,
}

/// The sound entries of a damaged block, in order.
#[derive(Debug, Clone)]
pub struct SalvagedEntries<'a> {
    block: &'a [u8],
    geometry: &'a Geometry,
    next_bytes: u32,
    end_bytes: u32,
    is_behind_damage: bool,
}

impl<'a> SalvagedEntries<'a> {
    /// The entries between the header of a block and `end_bytes`.
    pub fn new(block: &'a [u8], end_bytes: u32, geometry: &'a Geometry) -> Self {
        Self { block, geometry, next_bytes: super::DATA_HEADER_BYTES, end_bytes, is_behind_damage: false }
    }

    /// The record at hand if it is sound, and where the next one begins.
    fn sound_record(&self) -> Option<(DataRecord<'a>, u32)> {
        let format = EntryFormat::of(self.geometry);
        let (record, next) = record_at(self.block, self.next_bytes, self.end_bytes, format).ok()?;
        let is_sound = match record {
            DataRecord::Entry(entry) => verify_entry(&entry, self.geometry).is_ok(),
            DataRecord::Free { offset_bytes, length_bytes } => {
                let tag = record_tag(self.block, offset_bytes, length_bytes.into()).unwrap_or(FREE_TAG);
                u32::from(tag) == offset_bytes
            }
        };
        is_sound.then_some((record, next))
    }
}

impl<'a> Iterator for SalvagedEntries<'a> {
    type Item = SalvagedEntry<'a>;

    fn next(&mut self) -> Option<SalvagedEntry<'a>> {
        while self.next_bytes < self.end_bytes {
            match self.sound_record() {
                Some((record, next)) => {
                    self.next_bytes = next;
                    if let DataRecord::Entry(entry) = record {
                        return Some(SalvagedEntry { entry, is_behind_damage: self.is_behind_damage });
                    }
                }
                None => {
                    self.next_bytes = self.next_bytes.saturating_add(8);
                    self.is_behind_damage = true;
                }
            }
        }
        None
    }
}

/// The readable index at the end of a damaged single-block directory.
#[derive(Debug)]
pub struct SalvagedIndex {
    /// Where the records end.
    pub data_end_bytes: u32,
    /// Byte in the block and hash of each entry, by byte; `None` where the index itself is damaged.
    entries: Option<Vec<(u64, u32)>>,
}

impl SalvagedIndex {
    /// Of a single-block directory.
    pub fn new(block: &[u8], geometry: &Geometry) -> Self {
        let Ok(single) = SingleBlock::parse(block, geometry) else {
            return Self { data_end_bytes: low_u32(to_u64(block.len())), entries: None };
        };
        Self { data_end_bytes: single.data_end_bytes(), entries: sound_entries(&single) }
    }

    /// Whether an entry with this hash may begin at this byte. An index that is damaged itself does not contradict any entry, nor
    /// does a sound one contradict an entry that the sound records before it lead to, unless it has another hash there.
    pub fn allows(&self, salvaged: &SalvagedEntry<'_>, hash: u32) -> bool {
        let Some(entries) = &self.entries else { return true };
        let byte = u64::from(salvaged.entry.offset_bytes);
        match entries.binary_search_by_key(&byte, |(byte, _)| *byte).ok().and_then(|index| entries.get(index))
        {
            Some((_, indexed)) => *indexed == hash,
            None => !salvaged.is_behind_damage,
        }
    }
}

/// The entries of an index whose hashes rise and whose removed entries are counted rightly.
fn sound_entries(single: &SingleBlock<'_>) -> Option<Vec<(u64, u32)>> {
    let hashes = single.entries.iter().map(|entry| entry.hash.get());
    let live: Vec<(u64, u32)> = single.entries.iter().filter_map(byte_and_hash).collect();
    let stale = single.entries.len().saturating_sub(live.len());
    if !hashes.is_sorted() || to_u64(stale) != u64::from(single.tail.stale.get()) {
        return None;
    }
    let mut live = live;
    live.sort_unstable();
    Some(live)
}

fn byte_and_hash(entry: &LeafEntry) -> Option<(u64, u32)> {
    entry.pointer().map(|pointer| (pointer.byte(), entry.hash.get()))
}
