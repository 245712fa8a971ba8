//! Directories: names to inode numbers.
//!
//! A directory is one of four forms, by size: *shortform* inside its inode; one *block* that holds entries and their
//! index; data blocks with one *leaf*; data blocks with a tree of leaves under *nodes*, and free index blocks. The
//! data, the leaves and the free index lie in three address spaces of 32 GiB in the directory's data fork.
//!
//! | module | holds |
//! |---|---|
//! | [`shortform`] | the form inside the inode |
//! | [`data`] | data blocks: entries and free regions |
//! | [`block`] | the one block of a small directory |
//! | [`leaf`] | leaves: hashes and where their entries lie |
//! | [`free_index`] | the longest free region of each data block |
//! | [`salvage`] | entries of a damaged block |
//! | [`header`] | the header of data and free index blocks |
//! | [`name_hash`] | the hash of names, and comparing them |
//! | [`entry_fault`] | what an entry and its inode can disagree about |
//! | [`file_type`] | the file type kept in entries |
//! | [`shortform_edit`], [`data_edit`], [`block_edit`], [`leaf_edit`], [`free_index_edit`] | changing each of them |
//! | `index_edit` | what leaves and single blocks share when they are changed |

pub mod block;
pub mod block_edit;
pub mod data;
pub mod data_edit;
#[cfg(test)]
mod edit_testing;
pub mod entry_fault;
pub mod file_type;
pub mod free_index;
pub mod free_index_edit;
pub mod header;
mod index_edit;
pub mod leaf;
pub mod leaf_edit;
pub mod name_hash;
pub mod salvage;
pub mod shortform;
pub mod shortform_edit;

use std::fmt;

use crate::{
    convert::{low_u32, to_u64, to_usize},
    features::Incompatible,
    field_table::OnDisk,
    geometry::Geometry,
    units::{FileBlock, InodeNumber},
    verify_context::VerifyContext,
};

/// The longest name of an entry, in bytes.
pub const MAX_NAME_BYTES: usize = 255;
/// Where the first entry of a data block lies.
pub const DATA_HEADER_BYTES: u32 = 64;
/// log2 of the alignment of entries.
pub const DATA_ALIGN_LOG: u32 = 3;
/// In bests: there is no data block.
#[doc(alias = "NULLDATAOFF")]
pub const NO_DATA_BLOCK: u16 = 0xffff;

/// A place in a directory's data space in units of 8 bytes. It is also the cookie of `readdir`.
#[doc(alias = "xfs_dir2_dataptr_t")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DataPointer(u32);

impl DataPointer {
    /// The address of a removed entry of the index.
    #[doc(alias = "XFS_DIR2_NULL_DATAPTR")]
    pub const NULL: Self = Self(0);

    /// Wraps the raw number.
    pub const fn new(raw: u32) -> Self {
        Self(raw)
    }

    /// The raw number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The byte of the data space.
    pub fn byte(self) -> u64 {
        u64::from(self.0).wrapping_shl(DATA_ALIGN_LOG)
    }

    /// The pointer to an aligned byte of the data space, if it lies in it.
    pub fn of_byte(byte: u64) -> Option<Self> {
        u32::try_from(byte.wrapping_shr(DATA_ALIGN_LOG)).ok().map(Self)
    }

    /// The directory block (counted in directory blocks) and the byte in it.
    pub fn split(self, geometry: &Geometry) -> (u32, u32) {
        let log = geometry.block_log.wrapping_add(geometry.directory_block_log);
        let mask = geometry.directory_block_size_bytes.wrapping_sub(1);
        (low_u32(self.byte().wrapping_shr(log)), low_u32(self.byte()) & mask)
    }
}

impl fmt::Display for DataPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for DataPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataPointer({})", self.0)
    }
}

/// How the entries of one file system's directories look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryFormat {
    /// Whether entries carry a file type.
    pub has_file_type: bool,
}

impl EntryFormat {
    /// As the features say.
    pub fn of(geometry: &Geometry) -> Self {
        Self { has_file_type: geometry.features.incompatible.contains(Incompatible::FILE_TYPE) }
    }

    /// Bytes that an entry with such a name takes in a data block.
    #[inline]
    pub fn entry_size_bytes(self, name_length: u8) -> u32 {
        // Inode number, name length, name, file type, tag; rounded up to 8.
        let bytes = 8u32.wrapping_add(1).wrapping_add(name_length.into()).wrapping_add(2);
        bytes.wrapping_add(self.has_file_type.into()).wrapping_add(7) & !7
    }

    /// Where the first entry after "." and ".." lies in data block 0.
    pub fn first_offset_bytes(self) -> u32 {
        DATA_HEADER_BYTES.wrapping_add(self.entry_size_bytes(1)).wrapping_add(self.entry_size_bytes(2))
    }
}

/// Whether a name can be that of an entry: not empty, and without a slash or a zero byte.
#[inline]
pub fn is_valid_name(name: &[u8]) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

/// Whether a number can be that of an inode of this file system.
#[inline]
pub fn is_plausible_inode(geometry: &Geometry, inode: InodeNumber) -> bool {
    geometry.inode_place(inode).is_some()
}

/// First file block of a data block.
#[inline]
pub fn data_block_start(geometry: &Geometry, data_block: u32) -> FileBlock {
    FileBlock::new(u64::from(data_block).wrapping_shl(geometry.directory_block_log))
}

/// Verifies a data block or the one block of a small directory, whichever its magic number says.
pub(crate) fn verify_any_data(
    bytes: &[u8],
    context: &VerifyContext<'_>,
) -> Result<(), block::DirectoryBlockFault> {
    let magic = header::DirectoryBlockHeader::prefix_of(bytes).map(|header| header.magic.get());
    match magic {
        Some(block::MAGIC) => block::SingleBlock::verify(bytes, context),
        _ => Ok(data::DataBlock::verify(bytes, context)?),
    }
}

/// `length` bytes from `offset`.
#[inline]
pub(crate) fn slice_at(bytes: &[u8], offset: u32, length: u32) -> Option<&[u8]> {
    bytes.get(to_usize(offset)..to_usize(offset.checked_add(length)?))
}

/// The length of a buffer that is known to be at most a directory block.
#[inline]
pub(crate) fn length_of(bytes: &[u8]) -> u32 {
    low_u32(to_u64(bytes.len()))
}
