//! The header of data and free index blocks.

use zerocopy::big_endian::{U32, U64};

use crate::{
    checksum::Checksum, header_fault::HeaderFault, name_tree::header::verify_identity, on_disk, units::Uuid,
    verify_context::VerifyContext,
};

/// Where the checksum lies.
pub const CHECKSUM_OFFSET_BYTES: u32 = 4;

on_disk! {
    /// Header of a data or free index block. The checksum covers the whole directory block.
    #[doc(alias = "xfs_dir3_blk_hdr")]
    pub struct DirectoryBlockHeader {
        /// The kind of block.
        pub magic: U32 => "hdr.magic" Hexadecimal,
        /// CRC32C of the directory block.
        pub checksum: Checksum => "hdr.crc" Checksum,
        /// First sector of the block.
        pub sector: U64 => "hdr.bno" Decimal,
        /// Log sequence number of the last write.
        pub lsn: U64 => "hdr.lsn" Hexadecimal,
        /// Uuid of the file system's metadata.
        pub uuid: Uuid => "hdr.uuid" Uuid,
        /// The directory's inode.
        pub owner: U64 => "hdr.owner" Decimal,
    }
}

/// The field table of a structure that begins with a [`DirectoryBlockHeader`]: its fields, then the given ones.
#[macro_export]
#[doc(hidden)]
macro_rules! directory_block_fields {
    ($($field:expr),* $(,)?) => {
        &[
            Field::bytes("hdr.magic", 0, 4, Hexadecimal),
            Field::bytes("hdr.crc", 4, 4, Checksum),
            Field::bytes("hdr.bno", 8, 8, Decimal),
            Field::bytes("hdr.lsn", 16, 8, Hexadecimal),
            Field::bytes("hdr.uuid", 24, 16, Uuid),
            Field::bytes("hdr.owner", 40, 8, Decimal),
            $($field),*
        ]
    };
}

impl DirectoryBlockHeader {
    /// Verifies what these blocks share.
    ///
    /// # Errors
    /// The first check that fails: magic, checksum, uuid, place.
    pub fn verify(&self, block: &[u8], magic: u32, context: &VerifyContext<'_>) -> Result<(), HeaderFault> {
        if self.magic.get() != magic {
            return Err(HeaderFault::BadMagic { found: self.magic.get(), expected: magic });
        }
        context.check_checksum(block, CHECKSUM_OFFSET_BYTES)?;
        verify_identity(self.uuid, self.sector.get(), context)
    }
}
