//! A changed quota record (DQUOT), and the end of quota accounting (QUOTAOFF, which kernels no longer write).

use zerocopy::little_endian::{I32, I64, U16, U32};

use crate::{
    convert::to_u64,
    field_table::OnDisk,
    geometry::Geometry,
    log::{
        buffer_item::check_buffer,
        item::{ItemPart, ItemType, LogItemFault, Regions},
    },
    on_disk,
};

/// Bytes of the logged record: what the kernel calls the disk dquot, without checksum and uuid.
pub const LOGGED_QUOTA_BYTES: usize = 104;

on_disk! {
    /// First region of a DQUOT.
    #[doc(alias = "xfs_dq_logformat")]
    pub struct QuotaFormat {
        /// [`ItemType`].
        pub kind: U16 => "type" Hexadecimal little,
        /// Regions: 2.
        pub region_count: U16 => "size" Decimal little,
        /// User, group or project.
        pub id: U32 => "id" Decimal little,
        /// First 512-byte unit of the buffer.
        pub buffer_sector: I64 => "blkno" SignedDecimal little,
        /// Blocks of the file system in the buffer, though its place counts 512-byte units.
        pub buffer_blocks: I32 => "len" SignedDecimal little,
        /// Byte of the record in the buffer.
        pub offset_bytes: U32 => "boffset" Decimal little,
    }

    /// QUOTAOFF.
    #[doc(alias = "xfs_qoff_logformat")]
    pub struct QuotaOffItem {
        /// [`ItemType`].
        pub kind: U16 => "type" Hexadecimal little,
        /// Regions: 1.
        pub region_count: U16 => "size" Decimal little,
        /// Which quotas.
        pub flags: U32 => "flags" Hexadecimal little,
        /// Zero.
        pub padding: [u8; 12] => "pad" Padding,
    }
}

/// DQUOT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaItem<'a> {
    /// First region.
    pub format: &'a QuotaFormat,
    /// The record as on disk (big-endian), at least [`LOGGED_QUOTA_BYTES`].
    pub record: &'a [u8],
}

impl QuotaFormat {
    /// 512-byte units in the buffer.
    pub fn buffer_sectors(&self, geometry: &Geometry) -> i64 {
        i64::from(self.buffer_blocks.get()).saturating_mul(geometry.sectors_per_block().into())
    }
}

impl<'a> QuotaItem<'a> {
    pub(crate) fn decode(regions: Regions<'a>) -> Result<Self, LogItemFault> {
        regions.expect_count(2)?;
        let format = regions.exactly::<QuotaFormat>(0)?;
        let record = regions.get(1);
        if record.len() < LOGGED_QUOTA_BYTES {
            return Err(regions.length_fault(1, to_u64(LOGGED_QUOTA_BYTES)));
        }
        Ok(Self { format, record })
    }

    pub(crate) fn verify(&self, geometry: &Geometry) -> Result<(), LogItemFault> {
        check_buffer(
            ItemType::Quota,
            geometry,
            self.format.buffer_sector.get(),
            self.format.buffer_sectors(geometry),
            self.format.offset_bytes.get().into(),
            to_u64(LOGGED_QUOTA_BYTES),
        )
    }

    pub(crate) fn parts(&self) -> Vec<ItemPart<'a>> {
        vec![ItemPart::table("dquot", self.format), ItemPart::raw("record", self.record)]
    }
}

impl QuotaOffItem {
    pub(crate) fn decode(regions: Regions<'_>) -> Result<&Self, LogItemFault> {
        regions.expect_count(1)?;
        // Written with the structure's size, or rounded up.
        let (item, rest) = regions.prefix::<Self>(0)?;
        if rest.len() > 4 {
            return Err(regions.length_fault(0, to_u64(Self::SIZE_BYTES)));
        }
        Ok(item)
    }
}
