//! Reverse mappings: RUI (changes are to be made), RUD (they were).

use crate::{
    geometry::Geometry,
    log::{
        intent::{
            DoneHeader, IntentHeader, MapExtent, OPERATION_MASK, check_extent, check_flags, decode_done,
            decode_extents,
        },
        item::{ItemPart, ItemType, LogItemFault, Regions},
    },
};

bitflags::bitflags! {
    /// Properties of the mapping in an extent's flags. Not the same bits as in a BUI.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ReverseMapFlags: u32 {
        /// In the attribute fork.
        #[doc(alias = "XFS_RMAP_EXTENT_ATTR_FORK")]
        const ATTRIBUTE_FORK = 1 << 31;
        /// A block of the extent map's btree.
        #[doc(alias = "XFS_RMAP_EXTENT_BMBT_BLOCK")]
        const EXTENT_MAP_BLOCK = 1 << 30;
        /// Unwritten.
        #[doc(alias = "XFS_RMAP_EXTENT_UNWRITTEN")]
        const UNWRITTEN = 1 << 29;
    }
}

/// Changes of a reverse mapping.
#[doc(alias = "XFS_RMAP_EXTENT_MAP")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReverseMapOperation {
    /// 1: add.
    Map,
    /// 2: add, where others may overlap.
    MapShared,
    /// 3: remove.
    Unmap,
    /// 4: remove, where others may overlap.
    UnmapShared,
    /// 5: unwritten to written or back.
    Convert,
    /// 6: the same, where others may overlap.
    ConvertShared,
    /// 7: add for an owner that is no file.
    Allocate,
    /// 8: remove for an owner that is no file.
    Free,
}

/// RUI or RUI_RT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReverseMapIntent<'a> {
    /// Which of the two.
    pub item_type: ItemType,
    /// Type, count and id.
    pub header: &'a IntentHeader,
    /// The extent to change.
    pub extents: &'a [MapExtent],
}

/// RUD or RUD_RT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReverseMapDone<'a> {
    /// Which of the two.
    pub item_type: ItemType,
    /// Names the intent.
    pub done: &'a DoneHeader,
}

/// The change in the flags of an RUI's extent, or `None` where that is unknown.
pub fn operation(flags: u32) -> Option<ReverseMapOperation> {
    Some(match flags & OPERATION_MASK {
        1 => ReverseMapOperation::Map,
        2 => ReverseMapOperation::MapShared,
        3 => ReverseMapOperation::Unmap,
        4 => ReverseMapOperation::UnmapShared,
        5 => ReverseMapOperation::Convert,
        6 => ReverseMapOperation::ConvertShared,
        7 => ReverseMapOperation::Allocate,
        8 => ReverseMapOperation::Free,
        _ => return None,
    })
}

impl ReverseMapOperation {
    /// The number in an extent's flags.
    pub const fn code(self) -> u32 {
        match self {
            Self::Map => 1,
            Self::MapShared => 2,
            Self::Unmap => 3,
            Self::UnmapShared => 4,
            Self::Convert => 5,
            Self::ConvertShared => 6,
            Self::Allocate => 7,
            Self::Free => 8,
        }
    }
}

impl<'a> ReverseMapIntent<'a> {
    pub(crate) fn decode(regions: Regions<'a>) -> Result<Self, LogItemFault> {
        let (header, extents) = decode_extents::<MapExtent>(regions)?;
        for extent in extents {
            check_flags(regions.item, extent.flags.get(), 8, ReverseMapFlags::all().bits())?;
        }
        Ok(Self { item_type: regions.item, header, extents })
    }

    pub(crate) fn verify(&self, geometry: &Geometry) -> Result<(), LogItemFault> {
        self.extents.iter().try_for_each(|extent| {
            check_extent(self.item_type, geometry, extent.start_block.get(), extent.length_blocks.get())
        })
    }

    pub(crate) fn parts(&self) -> Vec<ItemPart<'a>> {
        let extents = self.extents.iter().map(|extent| ItemPart::table("extent", extent));
        std::iter::once(ItemPart::table("rui", self.header)).chain(extents).collect()
    }
}

impl<'a> ReverseMapDone<'a> {
    pub(crate) fn decode(regions: Regions<'a>) -> Result<Self, LogItemFault> {
        Ok(Self { item_type: regions.item, done: decode_done(regions)? })
    }
}
