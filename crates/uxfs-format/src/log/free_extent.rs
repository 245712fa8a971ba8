//! Free extents: EFI (extents are to be freed), EFD (they were). Both repeat the extents.
//!
//! Machines with 32-bit alignment packed each extent into 12 bytes; the length of the region tells.

use zerocopy::{
    FromBytes,
    little_endian::{U32, U64},
};

use crate::{
    convert::{to_u64, to_usize},
    geometry::Geometry,
    log::{
        intent::{IntentHeader, check_extent},
        item::{ItemPart, ItemType, LogItemFault, Regions},
    },
    on_disk,
};

on_disk! {
    /// An extent to be freed.
    #[doc(alias = "xfs_extent_64")]
    pub struct FreedExtent {
        /// First block.
        pub start_block: U64 => "start" Decimal little,
        /// Blocks.
        pub length_blocks: U32 => "len" Decimal little,
        /// Zero.
        pub padding: U32 => "pad" Padding little,
    }

    /// An extent to be freed, without padding.
    #[doc(alias = "xfs_extent_32")]
    pub struct PackedFreedExtent {
        /// First block.
        pub start_block: U64 => "start" Decimal little,
        /// Blocks.
        pub length_blocks: U32 => "len" Decimal little,
    }
}

/// The extents, in either form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreedExtents<'a> {
    /// 16 bytes each.
    Padded(&'a [FreedExtent]),
    /// 12 bytes each.
    Packed(&'a [PackedFreedExtent]),
}

/// EFI, EFD, EFI_RT or EFD_RT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeExtentItem<'a> {
    /// Which of the four.
    pub item_type: ItemType,
    /// Type, count and id (of the intent, in both).
    pub header: &'a IntentHeader,
    /// The extents that are to be freed, or were.
    pub extents: FreedExtents<'a>,
}

impl<'a> FreedExtents<'a> {
    /// First block and length of each.
    pub fn iter(self) -> impl Iterator<Item = (u64, u32)> + use<'a> {
        let (padded, packed): (&[FreedExtent], &[PackedFreedExtent]) = match self {
            Self::Padded(extents) => (extents, &[]),
            Self::Packed(extents) => (&[], extents),
        };
        let padded = padded.iter().map(|extent| (extent.start_block.get(), extent.length_blocks.get()));
        padded.chain(packed.iter().map(|extent| (extent.start_block.get(), extent.length_blocks.get())))
    }
}

impl<'a> FreeExtentItem<'a> {
    /// Whether this is the intent, not its end.
    pub fn is_intent(&self) -> bool {
        matches!(self.item_type, ItemType::FreeExtentIntent | ItemType::RealtimeFreeExtentIntent)
    }

    pub(crate) fn decode(regions: Regions<'a>) -> Result<Self, LogItemFault> {
        regions.expect_count(1)?;
        let (header, rest) = regions.prefix::<IntentHeader>(0)?;
        let count = to_usize(header.extent_count.get());
        let padded = <[FreedExtent]>::ref_from_bytes_with_elems(rest, count).ok();
        let packed = || <[PackedFreedExtent]>::ref_from_bytes_with_elems(rest, count).ok();
        let extents = padded.map(FreedExtents::Padded).or_else(|| packed().map(FreedExtents::Packed)).ok_or(
            LogItemFault::ExtentCount {
                item: regions.item,
                count: header.extent_count.get(),
                length_bytes: to_u64(regions.get(0).len()),
            },
        )?;
        Ok(Self { item_type: regions.item, header, extents })
    }

    pub(crate) fn verify(&self, geometry: &Geometry) -> Result<(), LogItemFault> {
        self.extents
            .iter()
            .try_for_each(|(start, length)| check_extent(self.item_type, geometry, start, length))
    }

    pub(crate) fn parts(&self) -> Vec<ItemPart<'a>> {
        let mut parts = vec![ItemPart::table(if self.is_intent() { "efi" } else { "efd" }, self.header)];
        match self.extents {
            FreedExtents::Padded(extents) => {
                parts.extend(extents.iter().map(|extent| ItemPart::table("extent", extent)));
            }
            FreedExtents::Packed(extents) => {
                parts.extend(extents.iter().map(|extent| ItemPart::table("extent", extent)));
            }
        }
        parts
    }
}
