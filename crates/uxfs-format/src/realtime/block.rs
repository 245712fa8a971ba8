//! Blocks of the bitmap and the summary of a realtime group: a header, then 32-bit words.

use zerocopy::{
    FromBytes,
    big_endian::{U32, U64},
};

use crate::{
    checksum::{self, Checksum},
    convert::to_u64,
    field_table::OnDisk,
    header_fault::HeaderFault,
    on_disk,
    units::{Sector, Uuid},
    verify_context::VerifyContext,
};

/// "BMPZ".
#[doc(alias = "XFS_RTBITMAP_MAGIC")]
pub const BITMAP_MAGIC: u32 = 0x424d_505a;
/// "SUMY".
#[doc(alias = "XFS_RTSUMMARY_MAGIC")]
pub const SUMMARY_MAGIC: u32 = 0x5355_4d59;
/// Where the checksum lies.
pub const CHECKSUM_OFFSET_BYTES: u32 = 4;

on_disk! {
    /// Header of a bitmap or summary block. The checksum covers the block.
    #[doc(alias = "xfs_rtbuf_blkinfo")]
    pub struct RealtimeBlockHeader {
        /// [`BITMAP_MAGIC`] or [`SUMMARY_MAGIC`].
        pub magic: U32 => "magicnum" Hexadecimal,
        /// CRC32C of the block.
        pub checksum: Checksum => "crc" Checksum,
        /// Inode.
        pub owner: U64 => "owner" Decimal,
        /// 512-byte unit of the device at which the block lies.
        pub sector: U64 => "bno" Decimal,
        /// Log sequence number of the last write.
        pub lsn: U64 => "lsn" Hexadecimal,
        /// Metadata uuid.
        pub uuid: Uuid => "uuid" Uuid,
    }

    /// One word of a bitmap: a bit for each realtime extent, lowest first, set where it is free.
    pub struct BitmapWord {
        /// 32 extents.
        pub bits: U32 => "rtwords" Hexadecimal,
    }

    /// One word of a summary: how many free runs of a size begin under one bitmap block.
    pub struct SummaryWord {
        /// Free runs.
        pub runs: U32 => "suminfo" Decimal,
    }
}

/// The words of a bitmap or summary block.
pub fn words(bytes: &[u8]) -> &[U32] {
    let body = bytes.get(RealtimeBlockHeader::SIZE_BYTES..).unwrap_or_default();
    <[U32]>::ref_from_prefix_with_elems(body, body.len() >> 2).map_or(&[], |(words, _)| words)
}

/// Verifies `bytes` as a block of a bitmap or summary, by `magic`. Any words are possible.
///
/// # Errors
/// The first check that fails.
pub fn verify(bytes: &[u8], magic: u32, context: &VerifyContext<'_>) -> Result<(), HeaderFault> {
    let needed = context.geometry.block_size();
    let (length_bytes, needed_bytes) = (to_u64(bytes.len()), to_u64(needed));
    let short = HeaderFault::Truncated { length_bytes, needed_bytes };
    let block = bytes.get(..needed).ok_or(short)?;
    let header = RealtimeBlockHeader::prefix_of(block).ok_or(short)?;
    if header.magic.get() != magic {
        return Err(HeaderFault::BadMagic { found: header.magic.get(), expected: magic });
    }
    checksum::check(block, CHECKSUM_OFFSET_BYTES).map_err(HeaderFault::from)?;
    let expected = context.geometry.metadata_uuid;
    if header.uuid != expected {
        return Err(HeaderFault::WrongUuid { found: header.uuid, expected });
    }
    let (found, expected) = (Sector::new(header.sector.get()), context.sector);
    if found != expected {
        return Err(HeaderFault::WrongSector { found, expected });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fault::{Fault, Structure},
        geometry::Geometry,
        superblock::Superblock,
        verify,
    };

    const BITMAP: &[u8; 4096] = include_bytes!("../../testdata/realtime/bitmap.bin");
    const SUMMARY: &[u8; 4096] = include_bytes!("../../testdata/realtime/summary.bin");

    fn verify_as(structure: Structure, bytes: &[u8], sector: u64) -> Result<(), Fault> {
        let superblock = include_bytes!("../../testdata/realtime/superblock.bin");
        let geometry = Geometry::new(Superblock::parse(superblock).unwrap().0);
        let context = VerifyContext::new(&geometry, Sector::new(sector));
        verify::verify(structure, bytes, &context)
    }

    fn patched(offset: usize, value: &[u8]) -> Result<(), Fault> {
        let mut bytes = *BITMAP;
        bytes[offset..offset + value.len()].copy_from_slice(value);
        assert!(checksum::seal(&mut bytes, CHECKSUM_OFFSET_BYTES));
        verify_as(Structure::RealtimeBitmap, &bytes, 540_784)
    }

    #[test]
    fn golden_blocks_are_accepted_and_read_as_xfs_db_prints_them() {
        assert_eq!(verify_as(Structure::RealtimeBitmap, BITMAP, 540_784), Ok(()));
        assert_eq!(verify_as(Structure::RealtimeSummary, SUMMARY, 540_776), Ok(()));
        assert_eq!(RealtimeBlockHeader::prefix_of(BITMAP).unwrap().owner.get(), 655_489);
        assert_eq!(words(BITMAP).len(), 1012);
        assert_eq!(words(BITMAP)[0].get(), 0xffff_fffe);
        assert_eq!((words(SUMMARY)[29].get(), words(SUMMARY)[30].get()), (0, 1));
    }

    #[test]
    fn each_check_rejects_its_damage() {
        let magic = HeaderFault::BadMagic { found: SUMMARY_MAGIC, expected: BITMAP_MAGIC };
        assert_eq!(verify_as(Structure::RealtimeBitmap, SUMMARY, 540_776), Err(magic.into()));
        let (found, expected) = (Sector::new(540_784), Sector::new(540_785));
        let sector = HeaderFault::WrongSector { found, expected };
        assert_eq!(verify_as(Structure::RealtimeBitmap, BITMAP, 540_785), Err(sector.into()));
        assert!(matches!(patched(32, &[0xff]), Err(Fault::Header(HeaderFault::WrongUuid { .. }))));
        let mut bytes = *BITMAP;
        bytes[4000] ^= 1;
        let result = verify_as(Structure::RealtimeBitmap, &bytes, 540_784);
        assert!(matches!(result, Err(Fault::Header(HeaderFault::BadChecksum { .. }))));
        assert!(words(&[0; 10]).is_empty());
    }
}
