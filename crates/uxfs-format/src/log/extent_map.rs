//! Extent maps of files: BUI (a mapping is to be added or removed), BUD (it was). Exactly one extent each.

use crate::{
    geometry::Geometry,
    log::{
        intent::{
            DoneHeader, IntentHeader, MapExtent, OPERATION_MASK, check_extent, check_flags, decode_done,
            decode_extents,
        },
        item::{ItemPart, ItemType, LogItemFault, Regions},
    },
    units::InodeNumber,
};

bitflags::bitflags! {
    /// Properties of the mapping in an extent's flags. Not the same bits as in an RUI.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ExtentMapFlags: u32 {
        /// In the attribute fork.
        #[doc(alias = "XFS_BMAP_EXTENT_ATTR_FORK")]
        const ATTRIBUTE_FORK = 1 << 31;
        /// Unwritten.
        #[doc(alias = "XFS_BMAP_EXTENT_UNWRITTEN")]
        const UNWRITTEN = 1 << 30;
        /// On the realtime section.
        #[doc(alias = "XFS_BMAP_EXTENT_REALTIME")]
        const REALTIME = 1 << 29;
    }
}

/// Changes of an extent map.
#[doc(alias = "XFS_BMAP_MAP")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtentMapOperation {
    /// 1: add.
    Map,
    /// 2: remove.
    Unmap,
}

/// BUI. The extent's owner is the inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtentMapIntent<'a> {
    /// Type, count and id.
    pub header: &'a IntentHeader,
    /// The extent to change.
    pub extent: &'a MapExtent,
}

/// BUD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtentMapDone<'a> {
    /// Names the intent.
    pub done: &'a DoneHeader,
}

/// The change in the flags of a BUI's extent, or `None` where that is unknown.
pub fn operation(flags: u32) -> Option<ExtentMapOperation> {
    Some(match flags & OPERATION_MASK {
        1 => ExtentMapOperation::Map,
        2 => ExtentMapOperation::Unmap,
        _ => return None,
    })
}

impl ExtentMapOperation {
    /// The number in an extent's flags.
    pub const fn code(self) -> u32 {
        match self {
            Self::Map => 1,
            Self::Unmap => 2,
        }
    }
}

impl<'a> ExtentMapIntent<'a> {
    /// The extent's properties.
    pub fn flags(&self) -> ExtentMapFlags {
        ExtentMapFlags::from_bits_retain(self.extent.flags.get() & !OPERATION_MASK)
    }

    pub(crate) fn decode(regions: Regions<'a>) -> Result<Self, LogItemFault> {
        let (header, extents) = decode_extents::<MapExtent>(regions)?;
        let [extent] = extents else {
            return Err(LogItemFault::ExtentCount {
                item: regions.item,
                count: header.extent_count.get(),
                length_bytes: crate::convert::to_u64(regions.get(0).len()),
            });
        };
        check_flags(regions.item, extent.flags.get(), 2, ExtentMapFlags::all().bits())?;
        Ok(Self { header, extent })
    }

    pub(crate) fn verify(&self, geometry: &Geometry) -> Result<(), LogItemFault> {
        let (item, inode) = (ItemType::ExtentMapIntent, self.extent.owner.get());
        if geometry.inode_place(InodeNumber::new(inode)).is_none() {
            return Err(LogItemFault::NoSuchInode { item, inode });
        }
        if self.flags().contains(ExtentMapFlags::REALTIME) {
            return Ok(());
        }
        check_extent(item, geometry, self.extent.start_block.get(), self.extent.length_blocks.get())
    }

    pub(crate) fn parts(&self) -> Vec<ItemPart<'a>> {
        vec![ItemPart::table("bui", self.header), ItemPart::table("extent", self.extent)]
    }
}

impl<'a> ExtentMapDone<'a> {
    pub(crate) fn decode(regions: Regions<'a>) -> Result<Self, LogItemFault> {
        Ok(Self { done: decode_done(regions)? })
    }
}
