//! Exchange of mappings between two files: XMI (it is to be done), XMD (it was).

use zerocopy::little_endian::{I64, U16, U32, U64};

use crate::{
    geometry::Geometry,
    log::{
        intent::{DoneHeader, decode_done},
        item::{ItemType, LogItemFault, Regions},
    },
    on_disk,
    units::InodeNumber,
};

bitflags::bitflags! {
    /// How to exchange.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ExchangeFlags: u64 {
        /// Attribute forks, not data forks.
        #[doc(alias = "XFS_EXCHMAPS_ATTR_FORK")]
        const ATTRIBUTE_FORK = 1;
        /// File sizes too.
        #[doc(alias = "XFS_EXCHMAPS_SET_SIZES")]
        const SET_SIZES = 1 << 1;
        /// Only written ranges of the first file.
        #[doc(alias = "XFS_EXCHMAPS_INO1_WRITTEN")]
        const FIRST_WRITTEN = 1 << 2;
        /// Clear the reflink flag of the first inode.
        #[doc(alias = "XFS_EXCHMAPS_CLEAR_INO1_REFLINK")]
        const CLEAR_FIRST_REFLINK = 1 << 3;
        /// Clear the reflink flag of the second inode.
        #[doc(alias = "XFS_EXCHMAPS_CLEAR_INO2_REFLINK")]
        const CLEAR_SECOND_REFLINK = 1 << 4;
    }
}

on_disk! {
    /// XMI.
    #[doc(alias = "xfs_xmi_log_format")]
    pub struct ExchangeIntent {
        /// [`ItemType`].
        pub kind: U16 => "type" Hexadecimal little,
        /// Regions: 1.
        pub region_count: U16 => "size" Decimal little,
        /// Zero.
        pub padding: U32 => "pad" Padding little,
        /// Names this intent.
        pub id: U64 => "id" Hexadecimal little,
        /// First file.
        pub first_inode: U64 => "inode1" Decimal little,
        /// Second file.
        pub second_inode: U64 => "inode2" Decimal little,
        /// Generation of the first.
        pub first_generation: U32 => "igen1" Decimal little,
        /// Generation of the second.
        pub second_generation: U32 => "igen2" Decimal little,
        /// First block in the first file.
        pub first_offset_blocks: U64 => "startoff1" Decimal little,
        /// First block in the second file.
        pub second_offset_blocks: U64 => "startoff2" Decimal little,
        /// Blocks.
        pub length_blocks: U64 => "blockcount" Decimal little,
        /// [`ExchangeFlags`].
        pub flags: U64 => "flags" Hexadecimal little,
        /// Size of the first file afterwards.
        pub first_size_bytes: I64 => "isize1" SignedDecimal little,
        /// Size of the second file afterwards.
        pub second_size_bytes: I64 => "isize2" SignedDecimal little,
    }
}

/// XMD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeDone<'a> {
    /// Names the intent.
    pub done: &'a DoneHeader,
}

impl ExchangeIntent {
    pub(crate) fn decode(regions: Regions<'_>) -> Result<&Self, LogItemFault> {
        regions.expect_count(1)?;
        let item = regions.exactly::<Self>(0)?;
        let flags = item.flags.get();
        match ExchangeFlags::from_bits(flags) {
            Some(_) => Ok(item),
            None => Err(LogItemFault::Flags { item: regions.item, flags }),
        }
    }

    pub(crate) fn verify(&self, geometry: &Geometry) -> Result<(), LogItemFault> {
        for inode in [self.first_inode.get(), self.second_inode.get()] {
            if geometry.inode_place(InodeNumber::new(inode)).is_none() {
                return Err(LogItemFault::NoSuchInode { item: ItemType::ExchangeIntent, inode });
            }
        }
        Ok(())
    }
}

impl<'a> ExchangeDone<'a> {
    pub(crate) fn decode(regions: Regions<'a>) -> Result<Self, LogItemFault> {
        Ok(Self { done: decode_done(regions)? })
    }
}
