//! Free index of node directories: the longest free region of each data block.

use thiserror::Error;
use zerocopy::{
    FromBytes,
    big_endian::{U16, U32},
};

use super::{DATA_HEADER_BYTES, NO_DATA_BLOCK, header::DirectoryBlockHeader, leaf::verify_bests, length_of};
use crate::{
    convert::{low_u32, to_u64, to_usize},
    field_table::{
        Field,
        FieldFormat::{Checksum, Decimal, Hexadecimal, Padding, Uuid},
        OnDisk,
    },
    geometry::Geometry,
    header_fault::HeaderFault,
    name_tree::header::{too_short, whole_block},
    verify_context::VerifyContext,
};

/// "XDF3".
#[doc(alias = "XFS_DIR3_FREE_MAGIC")]
pub const MAGIC: u32 = 0x5844_4633;

/// Fixed part of a free index block.
#[doc(alias = "xfs_dir3_free_hdr")]
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
pub struct FreeIndexHeader {
    /// Common to directory blocks.
    pub header: DirectoryBlockHeader,
    /// Number of the data block that the first best is about.
    pub first_data_block: U32,
    /// Bests in this block.
    pub valid: U32,
    /// Bests of data blocks that exist.
    pub used: U32,
    /// Zero.
    pub padding: U32,
}

impl OnDisk for FreeIndexHeader {
    const FIELDS: &'static [Field] = crate::directory_block_fields![
        Field::bytes("firstdb", 48, 4, Decimal),
        Field::bytes("nvalid", 52, 4, Decimal),
        Field::bytes("nused", 56, 4, Decimal),
        Field::bytes("pad", 60, 4, Padding),
    ];
}

/// Faults of a free index block. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FreeIndexFault {
    /// The header, which has the form of every header.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// Every block begins where the one before is full.
    #[error("first data block {first} is not a multiple of {per_block}")]
    First {
        /// On disk.
        first: u32,
        /// Bests in a full block.
        per_block: u32,
    },
    /// More than fit.
    #[error("{valid} data blocks where {most} fit")]
    Valid {
        /// On disk.
        valid: u32,
        /// That fit.
        most: u32,
    },
    /// Existing data blocks miscounted.
    #[error("{used} data blocks are said to exist, {found} do")]
    Used {
        /// On disk.
        used: u32,
        /// Counted.
        found: u32,
    },
    /// A longest free region that no data block can have.
    #[error("best {index} is a free region of {length_bytes} bytes")]
    Best {
        /// Which one.
        index: u32,
        /// On disk.
        length_bytes: u16,
    },
}

/// A free index block.
#[derive(Debug, Clone, Copy)]
pub struct FreeIndexBlock<'a> {
    /// Its fixed part.
    pub header: &'a FreeIndexHeader,
    /// The longest free region of each data block, [`NO_DATA_BLOCK`] for a hole.
    pub bests: &'a [U16],
    block: &'a [u8],
}

/// Bests in a full block.
#[inline]
pub const fn most_bests(block_size_bytes: u32) -> u32 {
    block_size_bytes.saturating_sub(DATA_HEADER_BYTES) >> 1
}

impl<'a> FreeIndexBlock<'a> {
    /// Bytes only: finds the bests that the count claims.
    ///
    /// # Errors
    /// Too few bytes, or more bests than fit.
    pub fn parse(bytes: &'a [u8], geometry: &Geometry) -> Result<Self, FreeIndexFault> {
        let block = whole_block(bytes, geometry.directory_block_size_bytes)?;
        let (header, rest) = FreeIndexHeader::ref_from_prefix(block)
            .map_err(|_| too_short(block, to_u64(FreeIndexHeader::SIZE_BYTES)))?;
        let valid = header.valid.get();
        let most = most_bests(length_of(block));
        let (bests, _) = <[U16]>::ref_from_prefix_with_elems(rest, to_usize(valid))
            .map_err(|_| FreeIndexFault::Valid { valid, most })?;
        Ok(Self { header, bests, block })
    }

    /// Verifies a free index block.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), FreeIndexFault> {
        let block = whole_block(bytes, context.geometry.directory_block_size_bytes)?;
        let header = DirectoryBlockHeader::prefix_of(block)
            .ok_or_else(|| too_short(block, to_u64(DirectoryBlockHeader::SIZE_BYTES)))?;
        header.verify(block, MAGIC, context)?;
        FreeIndexBlock::parse(block, context.geometry)?.verify_counts()
    }

    fn verify_counts(&self) -> Result<(), FreeIndexFault> {
        let size_bytes = length_of(self.block);
        let (first, per_block) = (self.header.first_data_block.get(), most_bests(size_bytes));
        if first.checked_rem(per_block) != Some(0) {
            return Err(FreeIndexFault::First { first, per_block });
        }
        let most = size_bytes.saturating_sub(DATA_HEADER_BYTES);
        verify_bests(self.bests, most)
            .map_err(|(index, length_bytes)| FreeIndexFault::Best { index, length_bytes })?;
        let found = self.bests.iter().filter(|best| best.get() != NO_DATA_BLOCK).count();
        let (used, found) = (self.header.used.get(), low_u32(to_u64(found)));
        if used == found {
            return Ok(());
        }
        Err(FreeIndexFault::Used { used, found })
    }
}

#[cfg(test)]
#[path = "free_index_tests.rs"]
mod tests;
