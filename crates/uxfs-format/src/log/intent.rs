//! The common part of intents and their done items. An intent says what is still to be done; its end, in a later
//! transaction, names the intent by its id. Ids are unique only while the intent lives.

use zerocopy::{
    FromBytes,
    little_endian::{U16, U32, U64},
};

use crate::{
    convert::{to_u64, to_usize},
    field_table::OnDisk,
    geometry::Geometry,
    log::item::{ItemType, LogItemFault, Regions},
    on_disk,
    units::FsBlock,
};

on_disk! {
    /// Start of an intent that holds extents.
    #[doc(alias = "xfs_efi_log_format")]
    #[doc(alias = "xfs_rui_log_format")]
    #[doc(alias = "xfs_cui_log_format")]
    #[doc(alias = "xfs_bui_log_format")]
    pub struct IntentHeader {
        /// [`ItemType`].
        pub kind: U16 => "type" Hexadecimal little,
        /// Regions: 1.
        pub region_count: U16 => "size" Decimal little,
        /// Extents behind this header.
        pub extent_count: U32 => "nextents" Decimal little,
        /// Names this intent.
        pub id: U64 => "id" Hexadecimal little,
    }

    /// An end without extents of its own.
    #[doc(alias = "xfs_rud_log_format")]
    #[doc(alias = "xfs_cud_log_format")]
    #[doc(alias = "xfs_bud_log_format")]
    #[doc(alias = "xfs_attrd_log_format")]
    #[doc(alias = "xfs_xmd_log_format")]
    pub struct DoneHeader {
        /// [`ItemType`].
        pub kind: U16 => "type" Hexadecimal little,
        /// Regions: 1.
        pub region_count: U16 => "size" Decimal little,
        /// Zero.
        pub padding: U32 => "pad" Padding little,
        /// The intent that is done.
        pub intent_id: U64 => "intent_id" Hexadecimal little,
    }

    /// An extent of a file and where it lies.
    #[doc(alias = "xfs_map_extent")]
    pub struct MapExtent {
        /// Inode number, or a special owner (of reverse mappings).
        pub owner: U64 => "owner" Decimal little,
        /// First block.
        pub start_block: U64 => "startblock" Decimal little,
        /// First block in the file.
        pub start_offset_blocks: U64 => "startoff" Decimal little,
        /// Blocks.
        pub length_blocks: U32 => "len" Decimal little,
        /// The change, and properties of the mapping; their bits differ between RUI and BUI.
        pub flags: U32 => "flags" Hexadecimal little,
    }

    /// An extent of the device.
    #[doc(alias = "xfs_phys_extent")]
    pub struct PhysicalExtent {
        /// First block.
        pub start_block: U64 => "startblock" Decimal little,
        /// Blocks.
        pub length_blocks: U32 => "len" Decimal little,
        /// The change.
        pub flags: U32 => "flags" Hexadecimal little,
    }
}

/// The low byte of an extent's flags: what to do.
pub const OPERATION_MASK: u32 = 0xff;

/// An intent of one region: header and extents, which must fill the region exactly.
pub(crate) fn decode_extents<T: OnDisk>(regions: Regions<'_>) -> Result<(&IntentHeader, &[T]), LogItemFault> {
    regions.expect_count(1)?;
    let (header, rest) = regions.prefix::<IntentHeader>(0)?;
    let count = header.extent_count.get();
    let extents = <[T]>::ref_from_bytes_with_elems(rest, to_usize(count));
    let length_bytes = to_u64(regions.get(0).len());
    extents.map(|extents| (header, extents)).map_err(|_| LogItemFault::ExtentCount {
        item: regions.item,
        count,
        length_bytes,
    })
}

/// An end of one region.
pub(crate) fn decode_done(regions: Regions<'_>) -> Result<&DoneHeader, LogItemFault> {
    regions.expect_count(1)?;
    regions.exactly::<DoneHeader>(0)
}

/// Checks that an extent's flags are a known operation (1 to `last_operation`) and known bits.
pub(crate) fn check_flags(
    item: ItemType,
    flags: u32,
    last_operation: u32,
    bits: u32,
) -> Result<(), LogItemFault> {
    let operation = flags & OPERATION_MASK;
    let unknown = flags & !(OPERATION_MASK | bits);
    if (1..=last_operation).contains(&operation) && unknown == 0 {
        return Ok(());
    }
    Err(LogItemFault::Flags { item, flags: flags.into() })
}

/// Checks that an extent lies in one group of the data section. Realtime items are not judged.
pub(crate) fn check_extent(
    item: ItemType,
    geometry: &Geometry,
    start: u64,
    length: u32,
) -> Result<(), LogItemFault> {
    if item.is_realtime() || geometry.contains_extent(FsBlock::new(start), length.into()) {
        return Ok(());
    }
    Err(LogItemFault::OutsideFileSystem { item, start, length: length.into() })
}
