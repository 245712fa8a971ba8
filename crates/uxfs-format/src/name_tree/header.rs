//! The header of every block of a tree of name hashes, interior or leaf.

use zerocopy::big_endian::{U16, U32, U64};

use crate::{
    checksum::Checksum,
    convert::to_u64,
    field_table::OnDisk,
    header_fault::HeaderFault,
    on_disk,
    units::{FileBlock, Sector, Uuid},
    verify_context::VerifyContext,
};

/// Where the checksum lies.
pub const CHECKSUM_OFFSET_BYTES: u32 = 12;

on_disk! {
    /// Header of a block of a name tree. The checksum covers the whole (directory) block.
    #[doc(alias = "xfs_da3_blkinfo")]
    pub struct BlockHeader {
        /// Next block of this level in the fork, 0 for none.
        pub forward: U32 => "hdr.forw" Decimal,
        /// Block before this one, 0 for none.
        pub backward: U32 => "hdr.back" Decimal,
        /// The kind of block.
        pub magic: U16 => "hdr.magic" Hexadecimal,
        /// Zero.
        pub padding: U16 => "hdr.pad" Padding,
        /// CRC32C of the block.
        pub checksum: Checksum => "crc" Checksum,
        /// First sector of the block.
        pub sector: U64 => "bno" Decimal,
        /// Log sequence number of the last write.
        pub lsn: U64 => "lsn" Hexadecimal,
        /// Uuid of the file system's metadata.
        pub uuid: Uuid => "uuid" Uuid,
        /// The inode that the block belongs to.
        pub owner: U64 => "owner" Decimal,
    }
}

/// The field table of a structure that begins with a [`BlockHeader`]: that header's fields, then the given ones.
#[macro_export]
#[doc(hidden)]
macro_rules! tree_block_fields {
    ($($field:expr),* $(,)?) => {
        &[
            Field::bytes("info.hdr.forw", 0, 4, Decimal),
            Field::bytes("info.hdr.back", 4, 4, Decimal),
            Field::bytes("info.hdr.magic", 8, 2, Hexadecimal),
            Field::bytes("info.hdr.pad", 10, 2, Padding),
            Field::bytes("info.crc", 12, 4, Checksum),
            Field::bytes("info.bno", 16, 8, Decimal),
            Field::bytes("info.lsn", 24, 8, Hexadecimal),
            Field::bytes("info.uuid", 32, 16, Uuid),
            Field::bytes("info.owner", 48, 8, Decimal),
            $($field),*
        ]
    };
}

/// The magic number of a tree block, or `None` where the bytes are too short.
#[inline]
pub fn magic_of(bytes: &[u8]) -> Option<u16> {
    BlockHeader::prefix_of(bytes).map(|header| header.magic.get())
}

impl BlockHeader {
    /// The header of a block of exactly `block_size_bytes`, with the bytes of that block.
    ///
    /// # Errors
    /// There are fewer bytes.
    pub fn parse(bytes: &[u8], block_size_bytes: u32) -> Result<(&Self, &[u8]), HeaderFault> {
        let block = whole_block(bytes, block_size_bytes)?;
        let header = Self::prefix_of(block).ok_or_else(|| too_short(block, to_u64(Self::SIZE_BYTES)))?;
        Ok((header, block))
    }

    /// Verifies what all tree blocks share.
    ///
    /// # Errors
    /// The first check that fails: magic, checksum, uuid, place.
    pub fn verify(&self, block: &[u8], magic: u16, context: &VerifyContext<'_>) -> Result<(), HeaderFault> {
        if self.magic.get() != magic {
            return Err(HeaderFault::BadMagic { found: self.magic.get().into(), expected: magic.into() });
        }
        context.check_checksum(block, CHECKSUM_OFFSET_BYTES)?;
        verify_identity(self.uuid, self.sector.get(), context)
    }

    /// The next block of this level.
    #[inline]
    pub fn next(&self) -> Option<FileBlock> {
        sibling(self.forward)
    }

    /// The block before this one in its level.
    #[inline]
    pub fn previous(&self) -> Option<FileBlock> {
        sibling(self.backward)
    }
}

fn sibling(block: U32) -> Option<FileBlock> {
    (block.get() != 0).then(|| FileBlock::new(block.get().into()))
}

/// Compares the uuid and the sector that a block carries with where it was read.
pub(crate) fn verify_identity(
    uuid: Uuid,
    sector: u64,
    context: &VerifyContext<'_>,
) -> Result<(), HeaderFault> {
    let expected = context.geometry.metadata_uuid;
    if uuid != expected {
        return Err(HeaderFault::WrongUuid { found: uuid, expected });
    }
    if sector != context.sector.get() {
        return Err(HeaderFault::WrongSector { found: Sector::new(sector), expected: context.sector });
    }
    Ok(())
}

/// The first `size_bytes` of `bytes`.
pub(crate) fn whole_block(bytes: &[u8], size_bytes: u32) -> Result<&[u8], HeaderFault> {
    bytes.get(..crate::convert::to_usize(size_bytes)).ok_or_else(|| too_short(bytes, size_bytes.into()))
}

pub(crate) fn too_short(bytes: &[u8], needed_bytes: u64) -> HeaderFault {
    HeaderFault::Truncated { length_bytes: to_u64(bytes.len()), needed_bytes }
}
