//! Directories inside their inode: a parent and a packed list of entries, without "." and "..".
//!
//! Inode numbers take 4 bytes each, or all 8 as soon as one of them (the parent's included) needs it.

use thiserror::Error;
use zerocopy::{
    FromBytes,
    big_endian::{U16, U32, U64},
};

use super::{
    DataPointer, EntryFormat,
    file_type::{FileType, is_known_code},
    is_plausible_inode, is_valid_name, length_of,
};
use crate::{
    convert::{low_u32, to_u64, to_usize},
    field_table::OnDisk,
    geometry::Geometry,
    header_fault::HeaderFault,
    name_tree::header::too_short,
    on_disk,
    units::InodeNumber,
};

/// The largest inode number that fits 4 bytes.
#[doc(alias = "XFS_DIR2_MAX_SHORT_INUM")]
pub const MAX_SHORT_INODE: u64 = 0xffff_ffff;
/// Bytes of an index entry, and of the tail, of the directory once it is a block.
const INDEX_ENTRY_BYTES: u32 = 8;

on_disk! {
    /// Fixed part where all inode numbers fit 4 bytes.
    #[doc(alias = "xfs_dir2_sf_hdr")]
    pub struct ShortformHeader {
        /// Entries.
        pub count: u8 => "count" Decimal,
        /// Inode numbers, the parent's included, that need 8 bytes: 0 here.
        pub large_count: u8 => "i8count" Decimal,
        /// The directory above.
        pub parent: U32 => "parent.i4" Decimal,
    }
    /// Fixed part where some inode number needs 8 bytes.
    pub struct ShortformLargeHeader {
        /// Entries.
        pub count: u8 => "count" Decimal,
        /// Inode numbers, the parent's included, that need 8 bytes: not 0 here.
        pub large_count: u8 => "i8count" Decimal,
        /// The directory above.
        pub parent: U64 => "parent.i8" Decimal,
    }
    /// The fixed start of an entry. Name, file type and inode number (4 or 8 bytes) follow without padding.
    #[doc(alias = "xfs_dir2_sf_entry")]
    pub struct ShortformEntryHead {
        /// Bytes in the name.
        pub name_length: u8 => "namelen" Decimal,
        /// Where the entry would lie in a single-block directory.
        pub data_offset: U16 => "offset" Hexadecimal,
    }
}

/// Faults of a directory inside its inode. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DirectoryShortformFault {
    /// The header, which has the form of every header.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// An entry runs past the end.
    #[error("entry {index} at byte {offset_bytes} runs past the end at {end_bytes}")]
    EntryPastEnd {
        /// Which entry.
        index: u32,
        /// Where it lies.
        offset_bytes: u32,
        /// Size of the directory.
        end_bytes: u32,
    },
    /// Bytes after the last entry.
    #[error("{count} entries end at byte {walked_bytes}, the directory at {end_bytes}")]
    TrailingBytes {
        /// On disk.
        count: u8,
        /// End of the last entry.
        walked_bytes: u32,
        /// Size of the directory.
        end_bytes: u32,
    },
    /// An empty name.
    #[error("entry {index} has no name")]
    NameLength {
        /// Which entry.
        index: u32,
    },
    /// A slash or a zero byte.
    #[error("name of entry {index} has a slash or a zero byte")]
    NameCharacter {
        /// Which entry.
        index: u32,
    },
    /// A file type that is not.
    #[error("entry {index} has the unknown file type {value}")]
    FileType {
        /// Which entry.
        index: u32,
        /// On disk.
        value: u8,
    },
    /// No inode can have this number.
    #[error("entry {index} has the inode number {inode}, which none can have")]
    InodeNumber {
        /// Which entry.
        index: u32,
        /// On disk.
        inode: InodeNumber,
    },
    /// No inode can have this number.
    #[error("the directory above has the inode number {inode}, which none can have")]
    Parent {
        /// On disk.
        inode: InodeNumber,
    },
    /// Places in the later block must rise and leave room for each entry.
    #[error("entry {index} has the place {found:#x} where it can be {least:#x} at the earliest")]
    DataOffset {
        /// Which entry.
        index: u32,
        /// On disk.
        found: u16,
        /// First possible.
        least: u32,
    },
    /// Places in the later block are multiples of 8.
    #[error("entry {index} has the place {found:#x}, which is no multiple of 8")]
    DataOffsetAlignment {
        /// Which entry.
        index: u32,
        /// On disk.
        found: u16,
    },
    /// As a block, the entries would not fit.
    #[error("as a block the entries would end at {needed_bytes:#x}, beyond a directory block")]
    BlockOverflow {
        /// Bytes that they need.
        needed_bytes: u32,
    },
    /// Large inode numbers miscounted.
    #[error("{count} inode numbers are said to need 8 bytes, {found} do")]
    LargeCount {
        /// On disk.
        count: u8,
        /// Counted.
        found: u32,
    },
}

/// One entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortformEntry<'a> {
    /// Where it lies in the fork.
    pub offset_bytes: u32,
    /// Where it would lie in a single-block directory; makes the cookie.
    pub data_offset: u16,
    /// Its name.
    pub name: &'a [u8],
    /// The code of its file type; 0 where the file system keeps none.
    pub file_type_code: u8,
    /// The inode.
    pub inode: InodeNumber,
}

impl ShortformEntry<'_> {
    /// The type of the inode, if the entry has it.
    pub fn file_type(&self) -> Option<FileType> {
        FileType::from_directory_code(self.file_type_code)
    }

    /// The cookie of `readdir`: the same as it will be in a block.
    pub fn pointer(&self) -> DataPointer {
        DataPointer::new(u32::from(self.data_offset).wrapping_shr(super::DATA_ALIGN_LOG))
    }
}

/// A directory inside its inode.
#[derive(Debug, Clone, Copy)]
pub struct Shortform<'a> {
    /// Entries, as the header says.
    pub count: u8,
    /// Large inode numbers, as the header says.
    pub large_count: u8,
    /// The directory above.
    pub parent: InodeNumber,
    bytes: &'a [u8],
    header_bytes: u32,
    format: EntryFormat,
}

impl<'a> Shortform<'a> {
    /// Bytes only; `bytes` is exactly as long as the inode says the directory is.
    ///
    /// # Errors
    /// Shorter than the header.
    pub fn parse(bytes: &'a [u8], geometry: &Geometry) -> Result<Self, DirectoryShortformFault> {
        let short = |needed: usize| too_short(bytes, to_u64(needed));
        let header = ShortformHeader::prefix_of(bytes).ok_or_else(|| short(ShortformHeader::SIZE_BYTES))?;
        let (parent, header_bytes) = if header.large_count == 0 {
            (header.parent.get().into(), ShortformHeader::SIZE_BYTES)
        } else {
            let large = ShortformLargeHeader::prefix_of(bytes)
                .ok_or_else(|| short(ShortformLargeHeader::SIZE_BYTES))?;
            (large.parent.get(), ShortformLargeHeader::SIZE_BYTES)
        };
        Ok(Self {
            count: header.count,
            large_count: header.large_count,
            parent: InodeNumber::new(parent),
            bytes,
            header_bytes: low_u32(to_u64(header_bytes)),
            format: EntryFormat::of(geometry),
        })
    }

    /// Verifies a directory inside its inode.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(bytes: &[u8], geometry: &Geometry) -> Result<(), DirectoryShortformFault> {
        let directory = Shortform::parse(bytes, geometry)?;
        directory.verify_entries(geometry)
    }

    fn verify_entries(&self, geometry: &Geometry) -> Result<(), DirectoryShortformFault> {
        if !is_plausible_inode(geometry, self.parent) {
            return Err(DirectoryShortformFault::Parent { inode: self.parent });
        }
        let mut large = u32::from(self.parent.get() > MAX_SHORT_INODE);
        let mut least = self.format.first_offset_bytes();
        let mut entries = self.entries();
        for (index, entry) in (0u32..).zip(entries.by_ref()) {
            let entry = entry?;
            least = verify_entry(index, &entry, least, geometry)?;
            large = large.saturating_add((entry.inode.get() > MAX_SHORT_INODE).into());
        }
        let end_bytes = length_of(self.bytes);
        if entries.next_bytes != end_bytes {
            let walked_bytes = entries.next_bytes;
            return Err(DirectoryShortformFault::TrailingBytes {
                count: self.count,
                walked_bytes,
                end_bytes,
            });
        }
        if large != u32::from(self.large_count) {
            return Err(DirectoryShortformFault::LargeCount { count: self.large_count, found: large });
        }
        // Index entries of all, of "." and "..", and the tail.
        let index_bytes = u32::from(self.count).saturating_add(3).saturating_mul(INDEX_ENTRY_BYTES);
        let needed_bytes = least.saturating_add(index_bytes);
        if needed_bytes > geometry.directory_block_size_bytes {
            return Err(DirectoryShortformFault::BlockOverflow { needed_bytes });
        }
        Ok(())
    }

    /// How many entries of a damaged directory lie before the first fault.
    pub fn sound_entries(&self, geometry: &Geometry) -> u32 {
        let mut least = self.format.first_offset_bytes();
        let is_sound = |(index, entry): &(u32, Result<ShortformEntry<'_>, _>)| {
            let next =
                entry.as_ref().ok().and_then(|entry| verify_entry(*index, entry, least, geometry).ok());
            least = next.unwrap_or(least);
            next.is_some()
        };
        low_u32(to_u64((0u32..).zip(self.entries()).take_while(is_sound).count()))
    }

    /// Whether the directory above has a number that an inode can have.
    pub fn has_plausible_parent(&self, geometry: &Geometry) -> bool {
        is_plausible_inode(geometry, self.parent)
    }

    /// The entries in order. Ends after the first error.
    pub fn entries(&self) -> ShortformEntries<'a> {
        self.entries_from(ShortformPosition { index: 0, offset_bytes: self.header_bytes })
    }

    /// The entries from a place that [`ShortformEntries::position`] gave.
    pub fn entries_from(&self, position: ShortformPosition) -> ShortformEntries<'a> {
        ShortformEntries {
            bytes: self.bytes,
            format: self.format,
            is_large: self.large_count != 0,
            index: position.index,
            count: self.count.into(),
            next_bytes: position.offset_bytes,
        }
    }
}

/// A place between two entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortformPosition {
    index: u32,
    offset_bytes: u32,
}

impl ShortformPosition {
    /// How many entries lie before.
    pub fn index(self) -> u32 {
        self.index
    }
}

/// Gives the first place in the later block that the next entry can have. `least` is that of this entry.
fn verify_entry(
    index: u32,
    entry: &ShortformEntry<'_>,
    least: u32,
    geometry: &Geometry,
) -> Result<u32, DirectoryShortformFault> {
    if entry.name.is_empty() {
        return Err(DirectoryShortformFault::NameLength { index });
    }
    if !is_valid_name(entry.name) {
        return Err(DirectoryShortformFault::NameCharacter { index });
    }
    if !is_known_code(entry.file_type_code) {
        return Err(DirectoryShortformFault::FileType { index, value: entry.file_type_code });
    }
    if !is_plausible_inode(geometry, entry.inode) {
        return Err(DirectoryShortformFault::InodeNumber { index, inode: entry.inode });
    }
    let found = entry.data_offset;
    if u32::from(found) < least {
        return Err(DirectoryShortformFault::DataOffset { index, found, least });
    }
    if found.trailing_zeros() < super::DATA_ALIGN_LOG {
        return Err(DirectoryShortformFault::DataOffsetAlignment { index, found });
    }
    let name_length = u8::try_from(entry.name.len()).unwrap_or(u8::MAX);
    let size_bytes = EntryFormat::of(geometry).entry_size_bytes(name_length);
    Ok(u32::from(found).saturating_add(size_bytes))
}

/// Iterator over the entries of a shortform directory.
#[derive(Debug, Clone)]
pub struct ShortformEntries<'a> {
    bytes: &'a [u8],
    format: EntryFormat,
    is_large: bool,
    index: u32,
    count: u32,
    next_bytes: u32,
}

impl<'a> ShortformEntries<'a> {
    /// Where the next entry begins.
    pub fn position(&self) -> ShortformPosition {
        ShortformPosition { index: self.index, offset_bytes: self.next_bytes }
    }

    fn read(&self) -> Option<(ShortformEntry<'a>, u32)> {
        let offset_bytes = self.next_bytes;
        let rest = self.bytes.get(to_usize(offset_bytes)..)?;
        let (head, rest) = ShortformEntryHead::ref_from_prefix(rest).ok()?;
        let (name, rest) = rest.split_at_checked(head.name_length.into())?;
        let (file_type_code, rest) = if self.format.has_file_type { rest.split_first()? } else { (&0, rest) };
        let inode_bytes: u32 = if self.is_large { 8 } else { 4 };
        let inode = if self.is_large {
            U64::ref_from_prefix(rest).ok()?.0.get()
        } else {
            U32::ref_from_prefix(rest).ok()?.0.get().into()
        };
        let entry = ShortformEntry {
            offset_bytes,
            data_offset: head.data_offset.get(),
            name,
            file_type_code: *file_type_code,
            inode: InodeNumber::new(inode),
        };
        let length_bytes = 3u32
            .wrapping_add(head.name_length.into())
            .wrapping_add(self.format.has_file_type.into())
            .wrapping_add(inode_bytes);
        Some((entry, offset_bytes.saturating_add(length_bytes)))
    }
}

impl<'a> Iterator for ShortformEntries<'a> {
    type Item = Result<ShortformEntry<'a>, DirectoryShortformFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.index >= self.count {
            return None;
        }
        let index = self.index;
        match self.read() {
            Some((entry, next_bytes)) => {
                self.index = index.saturating_add(1);
                self.next_bytes = next_bytes;
                Some(Ok(entry))
            }
            None => {
                self.index = self.count;
                Some(Err(DirectoryShortformFault::EntryPastEnd {
                    index,
                    offset_bytes: self.next_bytes,
                    end_bytes: length_of(self.bytes),
                }))
            }
        }
    }
}

#[cfg(test)]
#[path = "shortform_tests.rs"]
mod tests;
