//! The one block of a small directory: data records from the front, their index and a tail at the end.

use thiserror::Error;
use zerocopy::{FromBytes, big_endian::U32};

use super::{
    DATA_HEADER_BYTES, DataPointer, EntryFormat,
    data::{DataEntry, DataHeader, DataRecords, DirectoryDataFault, entry_at, verify_records},
    leaf::LeafEntry,
    length_of,
    name_hash::NameRule,
};
use crate::{
    convert::{low_u32, to_u64, to_usize},
    field_table::OnDisk,
    geometry::Geometry,
    header_fault::HeaderFault,
    name_tree::header::{too_short, whole_block},
    on_disk,
    verify_context::VerifyContext,
};

/// "XDB3".
#[doc(alias = "XFS_DIR3_BLOCK_MAGIC")]
pub const MAGIC: u32 = 0x5844_4233;

on_disk! {
    /// The end of the block.
    #[doc(alias = "xfs_dir2_block_tail")]
    pub struct BlockTail {
        /// Index entries, removed ones included.
        pub count: U32 => "count" Decimal,
        /// Removed entries.
        pub stale: U32 => "stale" Decimal,
    }
}

/// Faults of the index of a single-block directory. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DirectoryBlockFault {
    /// The header, which has the form of every header.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// The records before the index, which are those of any data block.
    #[error(transparent)]
    Data(#[from] DirectoryDataFault),
    /// More entries than fit.
    #[error("{count} index entries where {most} fit")]
    EntryCount {
        /// On disk.
        count: u32,
        /// That fit.
        most: u32,
    },
    /// Removed entries miscounted.
    #[error("{stale} index entries are said to be removed, {found} are")]
    StaleCount {
        /// On disk.
        stale: u32,
        /// Counted.
        found: u32,
    },
    /// Index and data disagree.
    #[error("the index has {indexed} entries, the data {found}")]
    LiveCount {
        /// In the index.
        indexed: u32,
        /// In the data.
        found: u32,
    },
    /// Hashes fall.
    #[error("hash {hash:#x} of index entry {index} is smaller than the one before")]
    HashOrder {
        /// Which entry.
        index: u32,
        /// Its hash.
        hash: u32,
    },
    /// No entry begins there, or another index entry points to it already.
    #[error("index entry {index} points to {address:#x}, where no entry begins that is not indexed yet")]
    Address {
        /// Which entry.
        index: u32,
        /// On disk.
        address: u32,
    },
    /// Not the hash of the name it points to.
    #[error("index entry {index} has the hash {hash:#x}, its name {computed:#x}")]
    NameHash {
        /// Which entry.
        index: u32,
        /// On disk.
        hash: u32,
        /// Of the name.
        computed: u32,
    },
}

/// A single-block directory.
#[derive(Debug, Clone, Copy)]
pub struct SingleBlock<'a> {
    /// Its fixed part.
    pub header: &'a DataHeader,
    /// Its end.
    pub tail: &'a BlockTail,
    /// The index, by rising hash, removed entries included.
    pub entries: &'a [LeafEntry],
    block: &'a [u8],
    data_end_bytes: u32,
    format: EntryFormat,
}

impl<'a> SingleBlock<'a> {
    /// Bytes only: finds the index that the tail claims.
    ///
    /// # Errors
    /// Too few bytes, or more index entries than fit.
    pub fn parse(bytes: &'a [u8], geometry: &Geometry) -> Result<Self, DirectoryBlockFault> {
        let block = whole_block(bytes, geometry.directory_block_size_bytes)?;
        let header =
            DataHeader::prefix_of(block).ok_or_else(|| too_short(block, to_u64(DataHeader::SIZE_BYTES)))?;
        let (before_tail, tail) =
            BlockTail::ref_from_suffix(block).map_err(|_| too_short(block, to_u64(BlockTail::SIZE_BYTES)))?;
        let count = tail.count.get();
        let most = length_of(before_tail).saturating_sub(DATA_HEADER_BYTES).wrapping_shr(3);
        let fault = DirectoryBlockFault::EntryCount { count, most };
        if count > most {
            return Err(fault);
        }
        let (data, entries) =
            <[LeafEntry]>::ref_from_suffix_with_elems(before_tail, to_usize(count)).map_err(|_| fault)?;
        let data_end_bytes = length_of(data);
        Ok(Self { header, tail, entries, block, data_end_bytes, format: EntryFormat::of(geometry) })
    }

    /// Verifies a single-block directory.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), DirectoryBlockFault> {
        let geometry = context.geometry;
        let block = whole_block(bytes, geometry.directory_block_size_bytes)?;
        let header =
            DataHeader::prefix_of(block).ok_or_else(|| too_short(block, to_u64(DataHeader::SIZE_BYTES)))?;
        header.header.verify(block, MAGIC, context)?;
        let single = SingleBlock::parse(block, geometry)?;
        let mut starts = EntryStarts::new();
        verify_records(block, single.data_end_bytes, geometry, |entry| starts.insert(entry.offset_bytes))?;
        single.verify_index(starts, NameRule::of(geometry))
    }

    fn verify_index(&self, mut starts: EntryStarts, rule: NameRule) -> Result<(), DirectoryBlockFault> {
        let (mut last, mut removed) = (0, 0u32);
        let found = starts.count;
        for (index, leaf_entry) in (0u32..).zip(self.entries) {
            let hash = leaf_entry.hash.get();
            if hash < last {
                return Err(DirectoryBlockFault::HashOrder { index, hash });
            }
            last = hash;
            let Some(pointer) = leaf_entry.pointer() else {
                removed = removed.saturating_add(1);
                continue;
            };
            let fault = DirectoryBlockFault::Address { index, address: pointer.get() };
            let offset_bytes = u32::try_from(pointer.byte()).map_err(|_| fault)?;
            if !starts.remove(offset_bytes) {
                return Err(fault);
            }
            let entry = self.entry_at(offset_bytes).map_err(|_| fault)?;
            let computed = rule.hash(entry.name);
            if hash != computed {
                return Err(DirectoryBlockFault::NameHash { index, hash, computed });
            }
        }
        let stale = self.tail.stale.get();
        if stale != removed {
            return Err(DirectoryBlockFault::StaleCount { stale, found: removed });
        }
        let indexed = low_u32(to_u64(self.entries.len())).saturating_sub(removed);
        if indexed != found {
            return Err(DirectoryBlockFault::LiveCount { indexed, found });
        }
        Ok(())
    }

    /// Entries and free regions in order.
    pub fn records(&self) -> DataRecords<'a> {
        DataRecords::new(self.block, self.data_end_bytes, self.format)
    }

    /// Where the records end and the index begins.
    pub fn data_end_bytes(&self) -> u32 {
        self.data_end_bytes
    }

    /// The entry at `offset_bytes`.
    ///
    /// # Errors
    /// There is none.
    pub fn entry_at(&self, offset_bytes: u32) -> Result<DataEntry<'a>, DirectoryDataFault> {
        entry_at(self.block, offset_bytes, self.data_end_bytes, self.format)
    }

    /// Index entries with exactly this hash, removed ones left out.
    pub fn pointers_of(&self, hash: u32) -> impl Iterator<Item = DataPointer> + use<'a> {
        let first = self.entries.partition_point(|entry| entry.hash.get() < hash);
        let from = self.entries.get(first..).unwrap_or_default();
        from.iter().take_while(move |entry| entry.hash.get() == hash).filter_map(LeafEntry::pointer)
    }
}

/// Where entries begin, one bit for each 8 bytes of the largest directory block.
struct EntryStarts {
    bits: [u64; 128],
    count: u32,
}

impl EntryStarts {
    fn new() -> Self {
        Self { bits: [0; 128], count: 0 }
    }

    fn slot(&mut self, offset_bytes: u32) -> Option<(&mut u64, u64)> {
        if offset_bytes & 7 != 0 {
            return None;
        }
        let unit = offset_bytes.wrapping_shr(3);
        let word = self.bits.get_mut(to_usize(unit.wrapping_shr(6)))?;
        Some((word, 1u64.wrapping_shl(unit & 63)))
    }

    fn insert(&mut self, offset_bytes: u32) {
        if let Some((word, bit)) = self.slot(offset_bytes) {
            *word |= bit;
        }
        self.count = self.count.saturating_add(1);
    }

    /// Whether it was there.
    fn remove(&mut self, offset_bytes: u32) -> bool {
        let Some((word, bit)) = self.slot(offset_bytes) else { return false };
        let was_there = *word & bit != 0;
        *word &= !bit;
        was_there
    }
}

#[cfg(test)]
#[path = "block_tests.rs"]
mod tests;
