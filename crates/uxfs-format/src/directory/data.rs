//! Data blocks of directories: entries and free regions, one after the other without gaps.
//!
//! Every record ends in a tag that repeats where it begins. The header knows the three longest free regions, so that
//! an insertion need not walk.

use thiserror::Error;
use zerocopy::{
    FromBytes,
    big_endian::{U16, U64},
};

use super::{
    DATA_HEADER_BYTES, EntryFormat,
    file_type::{FileType, is_known_code},
    header::DirectoryBlockHeader,
    is_plausible_inode, is_valid_name, length_of, slice_at,
};
use crate::{
    convert::{to_u64, to_usize},
    field_table::{
        Field,
        FieldFormat::{Checksum, Decimal, Hexadecimal, Padding, Uuid},
        OnDisk,
    },
    geometry::Geometry,
    header_fault::HeaderFault,
    name_tree::header::{too_short, whole_block},
    on_disk,
    units::InodeNumber,
    verify_context::VerifyContext,
};

/// "XDD3": a data block of a directory with leaves.
#[doc(alias = "XFS_DIR3_DATA_MAGIC")]
pub const MAGIC: u32 = 0x5844_4433;
/// Where an entry has its inode number's top bits, a free region has this.
#[doc(alias = "XFS_DIR2_DATA_FREE_TAG")]
pub const FREE_TAG: u16 = 0xffff;

on_disk! {
    /// One of the longest free regions.
    #[doc(alias = "xfs_dir2_data_free")]
    pub struct BestFree {
        /// Where it lies in the block.
        pub offset_bytes: U16 => "offset" Hexadecimal,
        /// Its length; 0 where there is no such region.
        pub length_bytes: U16 => "length" Hexadecimal,
    }
    /// The fixed start of an entry. Name, file type, padding and tag follow.
    #[doc(alias = "xfs_dir2_data_entry")]
    pub struct EntryHead {
        /// The inode.
        pub inode: U64 => "inumber" Decimal,
        /// Bytes in the name.
        pub name_length: u8 => "namelen" Decimal,
    }
    /// The fixed start of a free region. Its last two bytes are its tag.
    #[doc(alias = "xfs_dir2_data_unused")]
    pub struct FreeHead {
        /// [`FREE_TAG`].
        pub free_tag: U16 => "freetag" Hexadecimal,
        /// Bytes in the region.
        pub length_bytes: U16 => "length" Hexadecimal,
    }
}

/// Fixed part of a data block, also of the one block of a small directory.
#[doc(alias = "xfs_dir3_data_hdr")]
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::KnownLayout,
    zerocopy::Immutable,
    zerocopy::Unaligned,
)]
#[repr(C)]
pub struct DataHeader {
    /// Common to directory blocks.
    pub header: DirectoryBlockHeader,
    /// The longest free regions, longest first.
    pub best_free: [BestFree; 3],
    /// Zero.
    pub padding: zerocopy::big_endian::U32,
}

impl OnDisk for DataHeader {
    const FIELDS: &'static [Field] = crate::directory_block_fields![
        Field::bytes("bestfree[0].offset", 48, 2, Hexadecimal),
        Field::bytes("bestfree[0].length", 50, 2, Hexadecimal),
        Field::bytes("bestfree[1].offset", 52, 2, Hexadecimal),
        Field::bytes("bestfree[1].length", 54, 2, Hexadecimal),
        Field::bytes("bestfree[2].offset", 56, 2, Hexadecimal),
        Field::bytes("bestfree[2].length", 58, 2, Hexadecimal),
        Field::bytes("pad", 60, 4, Padding),
    ];
}

/// Faults of the records of a data block. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DirectoryDataFault {
    /// The header, which has the form of every header.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// A record runs past the end of the data.
    #[error("record at {offset_bytes:#x} of {length_bytes} bytes runs past the end at {end_bytes:#x}")]
    RecordPastEnd {
        /// Where it lies.
        offset_bytes: u32,
        /// Its length.
        length_bytes: u32,
        /// End of the data.
        end_bytes: u32,
    },
    /// A free region of an impossible length.
    #[error("free region at {offset_bytes:#x} is {length_bytes} bytes long, not a multiple of 8")]
    FreeLength {
        /// Where it lies.
        offset_bytes: u32,
        /// On disk.
        length_bytes: u16,
    },
    /// Neighbouring free regions must be one.
    #[error("free region at {offset_bytes:#x} follows another without an entry between")]
    AdjacentFree {
        /// The second one.
        offset_bytes: u32,
    },
    /// The tag at a record's end must repeat where it begins.
    #[error("record at {offset_bytes:#x} is tagged {tag:#x}")]
    Tag {
        /// Where it lies.
        offset_bytes: u32,
        /// On disk.
        tag: u16,
    },
    /// An empty name.
    #[error("entry at {offset_bytes:#x} has no name")]
    NameLength {
        /// Where it lies.
        offset_bytes: u32,
    },
    /// A slash or a zero byte.
    #[error("name of the entry at {offset_bytes:#x} has a slash or a zero byte")]
    NameCharacter {
        /// Where it lies.
        offset_bytes: u32,
    },
    /// A file type that is not.
    #[error("entry at {offset_bytes:#x} has the unknown file type {value}")]
    FileType {
        /// Where it lies.
        offset_bytes: u32,
        /// On disk.
        value: u8,
    },
    /// No inode can have this number.
    #[error("entry at {offset_bytes:#x} has the inode number {inode}, which none can have")]
    InodeNumber {
        /// Where it lies.
        offset_bytes: u32,
        /// On disk.
        inode: InodeNumber,
    },
    /// The list of longest free regions does not fit the regions.
    #[error(
        "longest free region {index} is said to be {length_bytes} bytes at {offset_bytes:#x}, which is not so"
    )]
    BestFree {
        /// Which of the three.
        index: u32,
        /// On disk.
        offset_bytes: u16,
        /// On disk.
        length_bytes: u16,
    },
    /// A free region longer than the shortest of the three is missing there.
    #[error(
        "free region at {offset_bytes:#x} of {length_bytes} bytes is not among the longest, but should be"
    )]
    BestFreeMissing {
        /// Where it lies.
        offset_bytes: u32,
        /// On disk.
        length_bytes: u16,
    },
}

/// One entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataEntry<'a> {
    /// Where it lies in the block.
    pub offset_bytes: u32,
    /// The inode.
    pub inode: InodeNumber,
    /// Its name there.
    pub name: &'a [u8],
    /// The code of its file type; 0 where the file system keeps none.
    pub file_type_code: u8,
    /// The tag at its end: a right one repeats `offset_bytes`.
    pub tag: u16,
}

impl DataEntry<'_> {
    /// The type of the inode, if the entry has it.
    pub fn file_type(&self) -> Option<FileType> {
        FileType::from_directory_code(self.file_type_code)
    }
}

/// One record of a data block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataRecord<'a> {
    /// A name.
    Entry(DataEntry<'a>),
    /// Room.
    Free {
        /// Where it lies in the block.
        offset_bytes: u32,
        /// How long it is, a multiple of 8.
        length_bytes: u16,
    },
}

/// Reads the record at `offset_bytes`; records end before `end_bytes`. Gives it and where the next one begins.
///
/// # Errors
/// It does not fit.
pub fn record_at(
    block: &[u8],
    offset_bytes: u32,
    end_bytes: u32,
    format: EntryFormat,
) -> Result<(DataRecord<'_>, u32), DirectoryDataFault> {
    let past_end = |length_bytes| DirectoryDataFault::RecordPastEnd { offset_bytes, length_bytes, end_bytes };
    let room_bytes = end_bytes.saturating_sub(offset_bytes);
    let room = slice_at(block, offset_bytes, room_bytes).ok_or_else(|| past_end(room_bytes))?;
    let free = FreeHead::prefix_of(room).ok_or_else(|| past_end(4))?;
    if free.free_tag.get() == FREE_TAG {
        let length_bytes = free.length_bytes.get();
        if length_bytes == 0 || length_bytes & 7 != 0 {
            return Err(DirectoryDataFault::FreeLength { offset_bytes, length_bytes });
        }
        let next = offset_bytes.saturating_add(length_bytes.into());
        if next > end_bytes {
            return Err(past_end(length_bytes.into()));
        }
        return Ok((DataRecord::Free { offset_bytes, length_bytes }, next));
    }
    let (head, rest) = EntryHead::ref_from_prefix(room).map_err(|_| past_end(9))?;
    let length_bytes = format.entry_size_bytes(head.name_length);
    if length_bytes > room_bytes {
        return Err(past_end(length_bytes));
    }
    let name_length = usize::from(head.name_length);
    let (name, rest) = rest.split_at_checked(name_length).ok_or_else(|| past_end(length_bytes))?;
    let file_type_code = if format.has_file_type { rest.first().copied().unwrap_or(0) } else { 0 };
    let tag = tag_at(room, length_bytes).ok_or_else(|| past_end(length_bytes))?;
    let inode = InodeNumber::new(head.inode.get());
    let entry = DataEntry { offset_bytes, inode, name, file_type_code, tag };
    Ok((DataRecord::Entry(entry), offset_bytes.saturating_add(length_bytes)))
}

/// The last two bytes of a record of `length_bytes`.
fn tag_at(room: &[u8], length_bytes: u32) -> Option<u16> {
    let bytes = slice_at(room, length_bytes.checked_sub(2)?, 2)?;
    U16::ref_from_bytes(bytes).ok().map(|tag| tag.get())
}

/// The tag of the record that lies at `offset_bytes` and has `length_bytes`.
pub(super) fn record_tag(block: &[u8], offset_bytes: u32, length_bytes: u32) -> Option<u16> {
    tag_at(block.get(to_usize(offset_bytes)..)?, length_bytes)
}

/// The entry at `offset_bytes`, as an index points to it.
///
/// # Errors
/// There is none: nothing that fits, a free region, or a tag that says otherwise.
pub fn entry_at(
    block: &[u8],
    offset_bytes: u32,
    end_bytes: u32,
    format: EntryFormat,
) -> Result<DataEntry<'_>, DirectoryDataFault> {
    match record_at(block, offset_bytes, end_bytes, format)? {
        (DataRecord::Entry(entry), _) if u32::from(entry.tag) == offset_bytes => Ok(entry),
        (DataRecord::Entry(entry), _) => Err(DirectoryDataFault::Tag { offset_bytes, tag: entry.tag }),
        (DataRecord::Free { .. }, _) => Err(DirectoryDataFault::Tag { offset_bytes, tag: FREE_TAG }),
    }
}

/// The records of a block in order. Ends after the first error.
#[derive(Debug, Clone)]
pub struct DataRecords<'a> {
    block: &'a [u8],
    format: EntryFormat,
    next_bytes: u32,
    end_bytes: u32,
}

impl<'a> DataRecords<'a> {
    /// The records from the block's first up to `end_bytes`.
    pub fn new(block: &'a [u8], end_bytes: u32, format: EntryFormat) -> Self {
        Self { block, format, next_bytes: DATA_HEADER_BYTES, end_bytes }
    }
}

impl<'a> Iterator for DataRecords<'a> {
    type Item = Result<DataRecord<'a>, DirectoryDataFault>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.next_bytes >= self.end_bytes {
            return None;
        }
        match record_at(self.block, self.next_bytes, self.end_bytes, self.format) {
            Ok((record, next_bytes)) => {
                self.next_bytes = next_bytes;
                Some(Ok(record))
            }
            Err(fault) => {
                self.next_bytes = self.end_bytes;
                Some(Err(fault))
            }
        }
    }
}

/// A data block with leaves elsewhere.
#[derive(Debug, Clone, Copy)]
pub struct DataBlock<'a> {
    /// Its fixed part.
    pub header: &'a DataHeader,
    block: &'a [u8],
    format: EntryFormat,
}

impl<'a> DataBlock<'a> {
    /// Bytes only.
    ///
    /// # Errors
    /// Fewer bytes than a directory block.
    pub fn parse(bytes: &'a [u8], geometry: &Geometry) -> Result<Self, DirectoryDataFault> {
        let block = whole_block(bytes, geometry.directory_block_size_bytes)?;
        let header =
            DataHeader::prefix_of(block).ok_or_else(|| too_short(block, to_u64(DataHeader::SIZE_BYTES)))?;
        Ok(Self { header, block, format: EntryFormat::of(geometry) })
    }

    /// Verifies a data block ("XDD3").
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), DirectoryDataFault> {
        let data = DataBlock::parse(bytes, context.geometry)?;
        data.header.header.verify(data.block, MAGIC, context)?;
        verify_records(data.block, length_of(data.block), context.geometry, |_| ())?;
        Ok(())
    }

    /// Entries and free regions in order.
    pub fn records(&self) -> DataRecords<'a> {
        DataRecords::new(self.block, length_of(self.block), self.format)
    }

    /// The entry at `offset_bytes`.
    ///
    /// # Errors
    /// There is none.
    pub fn entry_at(&self, offset_bytes: u32) -> Result<DataEntry<'a>, DirectoryDataFault> {
        entry_at(self.block, offset_bytes, length_of(self.block), self.format)
    }
}

/// Checks all records up to `end_bytes` and the list of longest free regions. Calls `each_entry` in order.
pub(crate) fn verify_records(
    block: &[u8],
    end_bytes: u32,
    geometry: &Geometry,
    mut each_entry: impl FnMut(&DataEntry<'_>),
) -> Result<(), DirectoryDataFault> {
    let header =
        DataHeader::prefix_of(block).ok_or_else(|| too_short(block, to_u64(DataHeader::SIZE_BYTES)))?;
    let mut best = BestFreeCheck::new(&header.best_free);
    let mut after_free = false;
    for record in DataRecords::new(block, end_bytes, EntryFormat::of(geometry)) {
        match record? {
            DataRecord::Entry(entry) => {
                verify_entry(&entry, geometry)?;
                each_entry(&entry);
                after_free = false;
            }
            DataRecord::Free { offset_bytes, length_bytes } => {
                let tag = record_tag(block, offset_bytes, length_bytes.into()).unwrap_or(0);
                if u32::from(tag) != offset_bytes {
                    return Err(DirectoryDataFault::Tag { offset_bytes, tag });
                }
                if after_free {
                    return Err(DirectoryDataFault::AdjacentFree { offset_bytes });
                }
                best.see(offset_bytes, length_bytes)?;
                after_free = true;
            }
        }
    }
    best.finish()?;
    Ok(())
}

pub(super) fn verify_entry(entry: &DataEntry<'_>, geometry: &Geometry) -> Result<(), DirectoryDataFault> {
    let offset_bytes = entry.offset_bytes;
    if u32::from(entry.tag) != offset_bytes {
        return Err(DirectoryDataFault::Tag { offset_bytes, tag: entry.tag });
    }
    if entry.name.is_empty() {
        return Err(DirectoryDataFault::NameLength { offset_bytes });
    }
    if !is_valid_name(entry.name) {
        return Err(DirectoryDataFault::NameCharacter { offset_bytes });
    }
    if !is_known_code(entry.file_type_code) {
        return Err(DirectoryDataFault::FileType { offset_bytes, value: entry.file_type_code });
    }
    if !is_plausible_inode(geometry, entry.inode) {
        return Err(DirectoryDataFault::InodeNumber { offset_bytes, inode: entry.inode });
    }
    Ok(())
}

/// Compares the three regions in the header with those that the walk meets.
struct BestFreeCheck<'a> {
    best: &'a [BestFree; 3],
    seen: [bool; 3],
}

impl<'a> BestFreeCheck<'a> {
    fn new(best: &'a [BestFree; 3]) -> Self {
        Self { best, seen: [false; 3] }
    }

    fn see(&mut self, offset_bytes: u32, length_bytes: u16) -> Result<(), DirectoryDataFault> {
        for ((index, best), seen) in (0u32..).zip(self.best).zip(&mut self.seen) {
            if u32::from(best.offset_bytes.get()) == offset_bytes && !*seen {
                if best.length_bytes.get() != length_bytes {
                    return Err(best_free_fault(index, best));
                }
                *seen = true;
                return Ok(());
            }
        }
        let [_, _, shortest] = self.best;
        if length_bytes > shortest.length_bytes.get() {
            return Err(DirectoryDataFault::BestFreeMissing { offset_bytes, length_bytes });
        }
        Ok(())
    }

    fn finish(self) -> Result<(), DirectoryDataFault> {
        let mut longest = u16::MAX;
        for ((index, best), seen) in (0u32..).zip(self.best).zip(self.seen) {
            let (offset, length) = (best.offset_bytes.get(), best.length_bytes.get());
            let unused = offset == 0 && length == 0;
            if (!seen && !unused) || length > longest {
                return Err(best_free_fault(index, best));
            }
            longest = length;
        }
        Ok(())
    }
}

fn best_free_fault(index: u32, best: &BestFree) -> DirectoryDataFault {
    DirectoryDataFault::BestFree {
        index,
        offset_bytes: best.offset_bytes.get(),
        length_bytes: best.length_bytes.get(),
    }
}

#[cfg(test)]
#[path = "data_tests.rs"]
mod tests;
