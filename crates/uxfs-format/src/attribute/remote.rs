//! Blocks of attribute values too large for a leaf.
//!
//! They are not logged: each is on the disk before the leaf entry that leads to it, and its log sequence number is
//! all ones for ever.

use thiserror::Error;
use zerocopy::{
    IntoBytes,
    big_endian::{U32, U64},
};

use super::MAX_VALUE_BYTES;
use crate::{
    checksum::Checksum,
    convert::{low_u32, to_u64, to_usize},
    field_table::OnDisk,
    geometry::Geometry,
    header_fault::HeaderFault,
    name_tree::{
        header::{too_short, verify_identity, whole_block},
        header_edit::BlockIdentity,
    },
    on_disk,
    units::{InodeNumber, Uuid},
    verify_context::VerifyContext,
};

/// "XARM".
#[doc(alias = "XFS_ATTR3_RMT_MAGIC")]
pub const MAGIC: u32 = 0x5841_524d;
/// Where the checksum lies.
pub const CHECKSUM_OFFSET_BYTES: u32 = 12;
/// Bytes of the header.
pub const HEADER_BYTES: u32 = 56;

on_disk! {
    /// Fixed part of a block of a remote value. The checksum covers the block.
    #[doc(alias = "xfs_attr3_rmt_hdr")]
    pub struct RemoteHeader {
        /// [`MAGIC`].
        pub magic: U32 => "hdr.magic" Hexadecimal,
        /// Byte of the value at which this block's part begins.
        pub offset_bytes: U32 => "hdr.offset" Decimal,
        /// Bytes of the value in this block.
        pub length_bytes: U32 => "hdr.bytes" Decimal,
        /// CRC32C of the block.
        pub checksum: Checksum => "hdr.crc" Checksum,
        /// Uuid of the file system's metadata.
        pub uuid: Uuid => "hdr.uuid" Uuid,
        /// The inode that the attribute belongs to.
        pub owner: U64 => "hdr.owner" Decimal,
        /// First sector of the block.
        pub sector: U64 => "hdr.bno" Decimal,
        /// All ones.
        pub lsn: U64 => "hdr.lsn" Hexadecimal,
    }
}

/// Faults of a block of a remote value. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RemoteValueFault {
    /// The header, which has the form of every header.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// Nothing, or more than fits.
    #[error("{length_bytes} bytes of value where there may be 1 to {most}")]
    Length {
        /// On disk.
        length_bytes: u32,
        /// That fit.
        most: u32,
    },
    /// Behind the largest value's end.
    #[error("bytes {offset_bytes} to {end_bytes} of a value, which can have only {MAX_VALUE_BYTES}")]
    PastLargestValue {
        /// First byte.
        offset_bytes: u32,
        /// After the last.
        end_bytes: u32,
    },
    /// Not the part of the value that lies there.
    #[error("holds bytes from {found} of the value, not from {expected}")]
    Offset {
        /// On disk.
        found: u32,
        /// By the blocks before.
        expected: u32,
    },
    /// Shorter or longer than the part of the value that lies there.
    #[error("holds {found} bytes of the value, not {expected}")]
    PartLength {
        /// On disk.
        found: u32,
        /// By the value's length.
        expected: u32,
    },
}

/// One block of a remote value.
#[derive(Debug, Clone, Copy)]
pub struct RemoteBlock<'a> {
    /// Its fixed part.
    pub header: &'a RemoteHeader,
    /// Its part of the value.
    pub part: &'a [u8],
}

/// Bytes of a value that fit a block.
pub const fn part_size_bytes(geometry: &Geometry) -> u32 {
    geometry.block_size_bytes.saturating_sub(HEADER_BYTES)
}

/// Blocks that a value of this length takes.
pub fn block_count(geometry: &Geometry, length_bytes: u32) -> u32 {
    length_bytes.div_ceil(part_size_bytes(geometry).max(1))
}

impl<'a> RemoteBlock<'a> {
    /// Bytes only.
    ///
    /// # Errors
    /// Fewer bytes than a block, or a part longer than fits.
    pub fn parse(bytes: &'a [u8], geometry: &Geometry) -> Result<Self, RemoteValueFault> {
        let block = whole_block(bytes, geometry.block_size_bytes)?;
        let header = RemoteHeader::prefix_of(block)
            .ok_or_else(|| too_short(block, to_u64(RemoteHeader::SIZE_BYTES)))?;
        let length_bytes = header.length_bytes.get();
        let most = part_size_bytes(geometry);
        let part = block.get(to_usize(HEADER_BYTES)..).and_then(|rest| rest.get(..to_usize(length_bytes)));
        let part = part.ok_or(RemoteValueFault::Length { length_bytes, most })?;
        Ok(Self { header, part })
    }

    /// Verifies one block, or several that lie one after the other on the device.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), RemoteValueFault> {
        let block_size = context.geometry.block_size();
        if bytes.is_empty() || bytes.len().checked_rem(block_size) != Some(0) {
            return Err(too_short(bytes, context.geometry.block_size_bytes.into()).into());
        }
        let mut context = *context;
        for block in bytes.chunks_exact(block_size) {
            verify_one(block, &context)?;
            let next = context.sector.checked_add(context.geometry.sectors_per_block().into());
            context.sector = next.unwrap_or(context.sector);
        }
        Ok(())
    }

    /// Compares what the block says with what its place in the value demands.
    ///
    /// # Errors
    /// The block belongs to another inode or value, or to another part of it.
    pub fn verify_place(
        &self,
        owner: InodeNumber,
        offset_bytes: u32,
        remaining_bytes: u32,
        geometry: &Geometry,
    ) -> Result<(), RemoteValueFault> {
        let found = self.header.owner.get();
        if found != owner.get() {
            return Err(HeaderFault::WrongOwner { found, expected: owner.get() }.into());
        }
        let found = self.header.offset_bytes.get();
        if found != offset_bytes {
            return Err(RemoteValueFault::Offset { found, expected: offset_bytes });
        }
        let (found, expected) =
            (self.header.length_bytes.get(), remaining_bytes.min(part_size_bytes(geometry)));
        if found != expected {
            return Err(RemoteValueFault::PartLength { found, expected });
        }
        Ok(())
    }
}

/// Writes one block of a value into a block of any bytes: its header, its part of the value, and zeros behind.
/// `offset_bytes` is where the part begins in the value. Does nothing where they do not fit.
pub fn write_block(block: &mut [u8], identity: &BlockIdentity, offset_bytes: u32, part: &[u8]) {
    let header = RemoteHeader {
        magic: U32::new(MAGIC),
        offset_bytes: U32::new(offset_bytes),
        length_bytes: U32::new(low_u32(to_u64(part.len()))),
        checksum: Checksum::default(),
        uuid: identity.uuid,
        owner: U64::new(identity.owner.get()),
        sector: U64::new(identity.sector.get()),
        // Not logged: no log record is ever older or newer than it.
        lsn: U64::new(u64::MAX),
    };
    let end = part.len().saturating_add(to_usize(HEADER_BYTES));
    if let Some((used, rest)) = block.split_at_mut_checked(end)
        && let Some((head, target)) = used.split_first_chunk_mut::<56>()
    {
        head.copy_from_slice(header.as_bytes());
        target.copy_from_slice(part);
        rest.fill(0);
    }
}

fn verify_one(block: &[u8], context: &VerifyContext<'_>) -> Result<(), RemoteValueFault> {
    let header =
        RemoteHeader::prefix_of(block).ok_or_else(|| too_short(block, to_u64(RemoteHeader::SIZE_BYTES)))?;
    let found = header.magic.get();
    if found != MAGIC {
        return Err(HeaderFault::BadMagic { found, expected: MAGIC }.into());
    }
    context.check_checksum(block, CHECKSUM_OFFSET_BYTES).map_err(HeaderFault::from)?;
    verify_identity(header.uuid, header.sector.get(), context)?;
    let remote = RemoteBlock::parse(block, context.geometry)?;
    let (offset_bytes, length_bytes) = (header.offset_bytes.get(), header.length_bytes.get());
    if remote.part.is_empty() {
        let most = part_size_bytes(context.geometry);
        return Err(RemoteValueFault::Length { length_bytes, most });
    }
    let end_bytes = offset_bytes.saturating_add(length_bytes);
    if end_bytes > MAX_VALUE_BYTES {
        return Err(RemoteValueFault::PastLargestValue { offset_bytes, end_bytes });
    }
    Ok(())
}

#[cfg(test)]
#[path = "remote_tests.rs"]
mod tests;
