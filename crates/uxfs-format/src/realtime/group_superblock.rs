//! Superblock of a realtime section that has groups: its first block.

use thiserror::Error;
use zerocopy::big_endian::U32;

use crate::{
    checksum::{self, Checksum},
    convert::to_u64,
    field_table::OnDisk,
    header_fault::HeaderFault,
    on_disk,
    units::Uuid,
    verify_context::VerifyContext,
};

/// "Frog".
#[doc(alias = "XFS_RTSB_MAGIC")]
pub const MAGIC: u32 = 0x4672_6f67;
/// Where the checksum lies.
pub const CHECKSUM_OFFSET_BYTES: u32 = 4;

on_disk! {
    /// Superblock of the realtime section. The checksum covers the block.
    #[doc(alias = "xfs_rtsb")]
    pub struct RealtimeSuperblock {
        /// [`MAGIC`].
        pub magic: U32 => "magicnum" Hexadecimal,
        /// CRC32C of the block.
        pub checksum: Checksum => "crc" Checksum,
        /// Zero.
        pub padding: U32 => "pad" Hexadecimal,
        /// Label, padded with zeros: that of the data section.
        pub label: [u8; 12] => "fname" Text,
        /// User-visible uuid.
        pub uuid: Uuid => "uuid" Uuid,
        /// Metadata uuid.
        pub metadata_uuid: Uuid => "meta_uuid" Uuid,
    }
}

/// Faults of a realtime superblock beside what any header can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RealtimeSuperblockFault {
    /// The header, which has the form of every header.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// Must be zero.
    #[error("padding is {value:#x}, not zero")]
    Padding {
        /// On disk.
        value: u32,
    },
}

/// Verifies `bytes` as the superblock of the realtime section.
///
/// # Errors
/// The first check that fails.
pub fn verify(bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), RealtimeSuperblockFault> {
    let needed = context.geometry.block_size();
    let (length_bytes, needed_bytes) = (to_u64(bytes.len()), to_u64(needed));
    let short = HeaderFault::Truncated { length_bytes, needed_bytes };
    let block = bytes.get(..needed).ok_or(short)?;
    let superblock = RealtimeSuperblock::prefix_of(block).ok_or(short)?;
    if superblock.magic.get() != MAGIC {
        return Err(HeaderFault::BadMagic { found: superblock.magic.get(), expected: MAGIC }.into());
    }
    checksum::check(block, CHECKSUM_OFFSET_BYTES).map_err(HeaderFault::from)?;
    let geometry = context.geometry;
    let uuids = [(superblock.uuid, geometry.uuid), (superblock.metadata_uuid, geometry.metadata_uuid)];
    for (found, expected) in uuids {
        if found != expected {
            return Err(HeaderFault::WrongUuid { found, expected }.into());
        }
    }
    match superblock.padding.get() {
        0 => Ok(()),
        value => Err(RealtimeSuperblockFault::Padding { value }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fault::{Fault, Structure},
        geometry::Geometry,
        superblock::Superblock,
        units::Sector,
        verify,
    };

    const GOLDEN: &[u8; 4096] = include_bytes!("../../testdata/realtime/group_superblock.bin");

    fn patched(offset: usize, value: &[u8]) -> Result<(), Fault> {
        let mut bytes = *GOLDEN;
        bytes[offset..offset + value.len()].copy_from_slice(value);
        assert!(checksum::seal(&mut bytes, CHECKSUM_OFFSET_BYTES));
        let superblock = include_bytes!("../../testdata/realtime/superblock.bin");
        let geometry = Geometry::new(Superblock::parse(superblock).unwrap().0);
        let context = VerifyContext::new(&geometry, Sector::new(0));
        verify::verify(Structure::RealtimeSuperblock, &bytes, &context)
    }

    #[test]
    fn golden_superblock_is_accepted_and_each_check_rejects_its_damage() {
        assert_eq!(patched(0, b"Frog"), Ok(()));
        let found = u32::from_be_bytes(*b"Toad");
        assert_eq!(patched(0, b"Toad"), Err(HeaderFault::BadMagic { found, expected: MAGIC }.into()));
        assert_eq!(patched(8, &[0, 0, 0, 1]), Err(RealtimeSuperblockFault::Padding { value: 1 }.into()));
        for offset in [24, 40] {
            assert!(matches!(patched(offset, &[0]), Err(Fault::Header(HeaderFault::WrongUuid { .. }))));
        }
    }
}
