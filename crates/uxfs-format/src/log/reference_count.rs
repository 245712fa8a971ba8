//! Reference counts of shared extents: CUI (changes are to be made), CUD (they were).

use crate::{
    geometry::Geometry,
    log::{
        intent::{
            DoneHeader, IntentHeader, OPERATION_MASK, PhysicalExtent, check_extent, check_flags, decode_done,
            decode_extents,
        },
        item::{ItemPart, ItemType, LogItemFault, Regions},
    },
};

/// Changes of a reference count.
#[doc(alias = "XFS_REFCOUNT_INCREASE")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferenceCountOperation {
    /// 1: one more owner.
    Increase,
    /// 2: one owner less.
    Decrease,
    /// 3: staged for copy-on-write.
    AllocateCow,
    /// 4: no longer staged.
    FreeCow,
}

/// CUI or CUI_RT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReferenceCountIntent<'a> {
    /// Which of the two.
    pub item_type: ItemType,
    /// Type, count and id.
    pub header: &'a IntentHeader,
    /// The extent to change.
    pub extents: &'a [PhysicalExtent],
}

/// CUD or CUD_RT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReferenceCountDone<'a> {
    /// Which of the two.
    pub item_type: ItemType,
    /// Names the intent.
    pub done: &'a DoneHeader,
}

/// The change in the flags of a CUI's extent, or `None` where that is unknown.
pub fn operation(flags: u32) -> Option<ReferenceCountOperation> {
    Some(match flags & OPERATION_MASK {
        1 => ReferenceCountOperation::Increase,
        2 => ReferenceCountOperation::Decrease,
        3 => ReferenceCountOperation::AllocateCow,
        4 => ReferenceCountOperation::FreeCow,
        _ => return None,
    })
}

impl ReferenceCountOperation {
    /// The number in an extent's flags.
    pub const fn code(self) -> u32 {
        match self {
            Self::Increase => 1,
            Self::Decrease => 2,
            Self::AllocateCow => 3,
            Self::FreeCow => 4,
        }
    }
}

impl<'a> ReferenceCountIntent<'a> {
    pub(crate) fn decode(regions: Regions<'a>) -> Result<Self, LogItemFault> {
        let (header, extents) = decode_extents::<PhysicalExtent>(regions)?;
        for extent in extents {
            check_flags(regions.item, extent.flags.get(), 4, 0)?;
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
        std::iter::once(ItemPart::table("cui", self.header)).chain(extents).collect()
    }
}

impl<'a> ReferenceCountDone<'a> {
    pub(crate) fn decode(regions: Regions<'a>) -> Result<Self, LogItemFault> {
        Ok(Self { item_type: regions.item, done: decode_done(regions)? })
    }
}
