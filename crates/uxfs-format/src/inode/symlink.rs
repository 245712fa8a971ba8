//! Targets of symbolic links that do not fit their inode.
//!
//! The target is cut along the **extents** of the data fork: each extent is one buffer with one header, however many
//! blocks it has (also where blocks are smaller than the target), and the checksum covers the whole extent. Extents
//! follow each other in file order, each says where its piece begins.

use thiserror::Error;
use zerocopy::big_endian::{U32, U64};

use crate::{
    checksum::Checksum,
    convert::{low_u32, to_u64, to_usize},
    edit::Edit,
    field_table::OnDisk,
    geometry::Geometry,
    header_fault::HeaderFault,
    name_tree::header_edit::BlockIdentity,
    on_disk,
    units::{InodeNumber, Uuid},
    verify_context::VerifyContext,
};

/// "XSLM".
#[doc(alias = "XFS_SYMLINK_MAGIC")]
pub const MAGIC: u32 = 0x5853_4c4d;
/// Where the checksum lies.
pub const CHECKSUM_OFFSET_BYTES: u32 = 12;
/// Targets are shorter than this.
#[doc(alias = "XFS_SYMLINK_MAXLEN")]
pub const TARGET_END_BYTES: u32 = 1024;

on_disk! {
    /// Header of one extent of a remote symbolic link. The piece of the target follows it.
    #[doc(alias = "xfs_dsymlink_hdr")]
    pub struct SymlinkHeader {
        /// [`MAGIC`].
        pub magic: U32 => "magic" Hexadecimal,
        /// Where in the target this piece begins.
        pub offset_bytes: U32 => "offset" Decimal,
        /// Bytes of the target in this piece.
        pub length_bytes: U32 => "bytes" Decimal,
        /// CRC32C of the extent.
        pub checksum: Checksum => "crc" Checksum,
        /// The file system's metadata uuid.
        pub uuid: Uuid => "uuid" Uuid,
        /// The symbolic link's inode.
        pub owner: U64 => "owner" Decimal,
        /// First 512-byte unit of the extent.
        pub sector: U64 => "bno" Decimal,
        /// Log sequence number of the last write.
        pub lsn: U64 => "lsn" Hexadecimal,
    }
}

/// Faults of an extent of a remote symbolic link, or with the target as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SymlinkFault {
    /// The header, which has the form of every header.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// The piece lies outside any possible target.
    #[error("{length_bytes} bytes from byte {offset_bytes} reach past the longest target")]
    PieceOutsideTarget {
        /// Where it begins.
        offset_bytes: u32,
        /// How long it is.
        length_bytes: u32,
    },
    /// The piece is longer than the extent.
    #[error("{length_bytes} bytes do not fit an extent with room for {room_bytes}")]
    PieceTooLong {
        /// How long it is.
        length_bytes: u32,
        /// The room of the extent.
        room_bytes: u64,
    },
    /// Owner 0.
    #[error("owner is 0")]
    NoOwner,
    /// Another piece than its place in the file says.
    #[error("piece begins at byte {found} of the target, not {expected}")]
    PieceOffset {
        /// On disk.
        found: u32,
        /// From the pieces before it.
        expected: u32,
    },
    /// Longer or shorter than what is left of the target.
    #[error("piece has {found} bytes, not {expected}")]
    PieceLength {
        /// On disk.
        found: u32,
        /// From the inode's size and the extent's length.
        expected: u32,
    },
    /// The inode's size is no length that a target can have.
    #[error("target of {length_bytes} bytes is not between 1 and 1023 bytes long")]
    TargetLength {
        /// The inode's size.
        length_bytes: u64,
    },
    /// A zero byte in the target.
    #[error("target has a zero byte at {offset_bytes}")]
    ZeroByte {
        /// Where.
        offset_bytes: u32,
    },
    /// The extents end before the target does.
    #[error("extents hold only {held_bytes} bytes of a target of {length_bytes}")]
    MissingExtent {
        /// Their room.
        held_bytes: u32,
        /// The inode's size.
        length_bytes: u32,
    },
}

/// Verifies one extent of a remote symbolic link, all of its blocks.
///
/// # Errors
/// The first check that fails.
pub fn verify_symlink(bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), SymlinkFault> {
    let header = SymlinkHeader::prefix_of(bytes).ok_or(HeaderFault::Truncated {
        length_bytes: to_u64(bytes.len()),
        needed_bytes: to_u64(SymlinkHeader::SIZE_BYTES),
    })?;
    if header.magic.get() != MAGIC {
        return Err(HeaderFault::BadMagic { found: header.magic.get(), expected: MAGIC }.into());
    }
    context.check_checksum(bytes, CHECKSUM_OFFSET_BYTES).map_err(HeaderFault::from)?;
    let expected = context.geometry.metadata_uuid;
    if header.uuid != expected {
        return Err(HeaderFault::WrongUuid { found: header.uuid, expected }.into());
    }
    let found = crate::units::Sector::new(header.sector.get());
    if found != context.sector {
        return Err(HeaderFault::WrongSector { found, expected: context.sector }.into());
    }
    let (offset_bytes, length_bytes) = (header.offset_bytes.get(), header.length_bytes.get());
    if offset_bytes.saturating_add(length_bytes) >= TARGET_END_BYTES {
        return Err(SymlinkFault::PieceOutsideTarget { offset_bytes, length_bytes });
    }
    let room_bytes = to_u64(bytes.len().saturating_sub(SymlinkHeader::SIZE_BYTES));
    if u64::from(length_bytes) > room_bytes {
        return Err(SymlinkFault::PieceTooLong { length_bytes, room_bytes });
    }
    if header.owner.get() == 0 {
        return Err(SymlinkFault::NoOwner);
    }
    Ok(())
}

/// The piece of the target in a verified extent, compared with what its place in the link says: it must begin at
/// `offset_bytes`, and be `length_bytes` long or fill the extent.
///
/// # Errors
/// The extent belongs to another link or is another piece.
pub fn piece_of(
    bytes: &[u8],
    owner: InodeNumber,
    offset_bytes: u32,
    length_bytes: u32,
) -> Result<&[u8], SymlinkFault> {
    let (header, room) = SymlinkHeader::prefix_of(bytes).zip(bytes.get(SymlinkHeader::SIZE_BYTES..)).ok_or(
        HeaderFault::Truncated {
            length_bytes: to_u64(bytes.len()),
            needed_bytes: to_u64(SymlinkHeader::SIZE_BYTES),
        },
    )?;
    let (found, expected) = (header.owner.get(), owner.get());
    if found != expected {
        return Err(HeaderFault::WrongOwner { found, expected }.into());
    }
    let (found, expected) = (header.offset_bytes.get(), offset_bytes);
    if found != expected {
        return Err(SymlinkFault::PieceOffset { found, expected });
    }
    let expected = length_bytes.min(u32::try_from(room.len()).unwrap_or(u32::MAX));
    let found = header.length_bytes.get();
    if found != expected {
        return Err(SymlinkFault::PieceLength { found, expected });
    }
    room.get(..to_usize(expected)).ok_or_else(|| {
        let room_bytes = to_u64(room.len());
        SymlinkFault::PieceTooLong { length_bytes: expected, room_bytes }
    })
}

/// Writes one piece of a target into the bytes of its extent: header, piece, and zeros behind. Gives how many bytes of
/// `rest`, which begins at byte `offset_bytes` of the target, the extent holds.
pub fn write_piece(mut edit: Edit<'_>, identity: &BlockIdentity, offset_bytes: u32, rest: &[u8]) -> usize {
    let room_bytes = edit.len().saturating_sub(SymlinkHeader::SIZE_BYTES);
    let piece = rest.get(..room_bytes).unwrap_or(rest);
    let header = SymlinkHeader {
        magic: U32::new(MAGIC),
        offset_bytes: U32::new(offset_bytes),
        length_bytes: U32::new(low_u32(to_u64(piece.len()))),
        checksum: Checksum::default(),
        uuid: identity.uuid,
        owner: U64::new(identity.owner.get()),
        sector: U64::new(identity.sector.get()),
        lsn: U64::ZERO,
    };
    edit.put_value(0, &header);
    edit.put(SymlinkHeader::SIZE_BYTES, piece);
    let end = piece.len().saturating_add(SymlinkHeader::SIZE_BYTES);
    edit.clear(end, edit.len().saturating_sub(end));
    piece.len()
}

/// Checks a whole target: its length, and that no byte is zero.
///
/// # Errors
/// The check that fails.
pub fn verify_target(target: &[u8]) -> Result<(), SymlinkFault> {
    verify_target_length(to_u64(target.len()))?;
    match target.iter().position(|byte| *byte == 0) {
        Some(offset) => {
            Err(SymlinkFault::ZeroByte { offset_bytes: u32::try_from(offset).unwrap_or(u32::MAX) })
        }
        None => Ok(()),
    }
}

/// The length of a target as a number of bytes, if it is one that a target can have.
///
/// # Errors
/// It is not.
pub fn verify_target_length(length_bytes: u64) -> Result<u32, SymlinkFault> {
    match u32::try_from(length_bytes) {
        Ok(length) if (1..TARGET_END_BYTES).contains(&length) => Ok(length),
        _ => Err(SymlinkFault::TargetLength { length_bytes }),
    }
}

/// Blocks that a remote target takes: room is counted as if each block had a header.
#[doc(alias = "xfs_symlink_blocks")]
pub fn target_blocks(length_bytes: u32, geometry: &Geometry) -> u32 {
    let header_bytes = u32::try_from(SymlinkHeader::SIZE_BYTES).unwrap_or(u32::MAX);
    length_bytes.div_ceil(geometry.block_size_bytes.saturating_sub(header_bytes).max(1))
}

#[cfg(test)]
#[path = "symlink_tests.rs"]
mod tests;
