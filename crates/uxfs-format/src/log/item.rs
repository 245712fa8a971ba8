//! From the regions of an item to the item.
//!
//! The first region of every item begins with its type and with the number of its regions, both little-endian. Each
//! kind checks its own regions; nothing is looped over before its count was compared with the region's length.

use thiserror::Error;
use zerocopy::little_endian::U16;

use crate::{
    convert::to_u64,
    field_table::{Field, OnDisk},
    geometry::Geometry,
    log::{
        attribute::{AttributeDone, AttributeIntent},
        buffer_item::BufferItem,
        exchange::{ExchangeDone, ExchangeIntent},
        extent_map::{ExtentMapDone, ExtentMapIntent},
        free_extent::FreeExtentItem,
        inode_create_item::InodeCreateItem,
        inode_item::InodeItem,
        quota_item::{QuotaItem, QuotaOffItem},
        reference_count::{ReferenceCountDone, ReferenceCountIntent},
        reverse_map::{ReverseMapDone, ReverseMapIntent},
    },
    on_disk,
};

/// The most regions that one item has: a format and, at worst, every other 128-byte chunk of a 64 KiB buffer.
#[doc(alias = "XLOG_MAX_REGIONS_IN_ITEM")]
pub const MAX_REGIONS: u32 = 65536 / 128 / 2 + 1;
/// No region is longer: a buffer and an attribute value have at most 64 KiB.
pub const MAX_REGION_BYTES: u64 = 1 << 17;
/// No item is larger, all its regions together.
pub const MAX_ITEM_BYTES: u64 = 1 << 19;

macro_rules! item_types {
    ($($(#[$meta:meta])* $variant:ident = $raw:literal $name:literal,)*) => {
        /// Kind of a log item: the first word of its first region.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ItemType {
            $( $(#[$meta])* $variant, )*
        }

        impl ItemType {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )*];

            /// The kind that `raw` stands for.
            pub const fn from_raw(raw: u16) -> Option<Self> {
                match raw {
                    $( $raw => Some(Self::$variant), )*
                    _ => None,
                }
            }

            /// The number on disk.
            pub const fn raw(self) -> u16 {
                match self {
                    $( Self::$variant => $raw, )*
                }
            }

            /// The name that `xfs_logprint` uses.
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$variant => $name, )*
                }
            }
        }
    };
}

item_types! {
    /// Extents are to be freed.
    #[doc(alias = "XFS_LI_EFI")]
    FreeExtentIntent = 0x1236 "EFI",
    /// Extents were freed.
    #[doc(alias = "XFS_LI_EFD")]
    FreeExtentDone = 0x1237 "EFD",
    /// A changed inode.
    #[doc(alias = "XFS_LI_INODE")]
    Inode = 0x123b "INODE",
    /// A changed buffer.
    #[doc(alias = "XFS_LI_BUF")]
    Buffer = 0x123c "BUF",
    /// A changed quota record.
    #[doc(alias = "XFS_LI_DQUOT")]
    Quota = 0x123d "DQUOT",
    /// Quota is being turned off. No longer written.
    #[doc(alias = "XFS_LI_QUOTAOFF")]
    QuotaOff = 0x123e "QUOTAOFF",
    /// An inode chunk was initialised.
    #[doc(alias = "XFS_LI_ICREATE")]
    InodeCreate = 0x123f "ICREATE",
    /// Reverse mappings are to be changed.
    #[doc(alias = "XFS_LI_RUI")]
    ReverseMapIntent = 0x1240 "RUI",
    /// Reverse mappings were changed.
    #[doc(alias = "XFS_LI_RUD")]
    ReverseMapDone = 0x1241 "RUD",
    /// Reference counts are to be changed.
    #[doc(alias = "XFS_LI_CUI")]
    ReferenceCountIntent = 0x1242 "CUI",
    /// Reference counts were changed.
    #[doc(alias = "XFS_LI_CUD")]
    ReferenceCountDone = 0x1243 "CUD",
    /// An extent map is to be changed.
    #[doc(alias = "XFS_LI_BUI")]
    ExtentMapIntent = 0x1244 "BUI",
    /// An extent map was changed.
    #[doc(alias = "XFS_LI_BUD")]
    ExtentMapDone = 0x1245 "BUD",
    /// An attribute is to be changed.
    #[doc(alias = "XFS_LI_ATTRI")]
    AttributeIntent = 0x1246 "ATTRI",
    /// An attribute was changed.
    #[doc(alias = "XFS_LI_ATTRD")]
    AttributeDone = 0x1247 "ATTRD",
    /// Mappings of two files are to be exchanged.
    #[doc(alias = "XFS_LI_XMI")]
    ExchangeIntent = 0x1248 "XMI",
    /// Mappings of two files were exchanged.
    #[doc(alias = "XFS_LI_XMD")]
    ExchangeDone = 0x1249 "XMD",
    /// Realtime extents are to be freed.
    #[doc(alias = "XFS_LI_EFI_RT")]
    RealtimeFreeExtentIntent = 0x124a "EFI_RT",
    /// Realtime extents were freed.
    #[doc(alias = "XFS_LI_EFD_RT")]
    RealtimeFreeExtentDone = 0x124b "EFD_RT",
    /// Realtime reverse mappings are to be changed.
    #[doc(alias = "XFS_LI_RUI_RT")]
    RealtimeReverseMapIntent = 0x124c "RUI_RT",
    /// Realtime reverse mappings were changed.
    #[doc(alias = "XFS_LI_RUD_RT")]
    RealtimeReverseMapDone = 0x124d "RUD_RT",
    /// Realtime reference counts are to be changed.
    #[doc(alias = "XFS_LI_CUI_RT")]
    RealtimeReferenceCountIntent = 0x124e "CUI_RT",
    /// Realtime reference counts were changed.
    #[doc(alias = "XFS_LI_CUD_RT")]
    RealtimeReferenceCountDone = 0x124f "CUD_RT",
}

impl ItemType {
    /// The kind that the first of an item's regions says, if it is known.
    pub fn of_region(regions: &[&[u8]]) -> Option<Self> {
        let header = ItemHeader::prefix_of(regions.first()?)?;
        Self::from_raw(header.kind.get())
    }

    /// Whether this kind concerns the realtime section.
    pub const fn is_realtime(self) -> bool {
        self.raw() >= Self::RealtimeFreeExtentIntent.raw()
    }
}

on_disk! {
    /// The beginning of every item's first region.
    #[doc(alias = "xfs_log_item_header")]
    pub struct ItemHeader {
        /// [`ItemType`].
        pub kind: U16 => "type" Hexadecimal little,
        /// Regions of this item, this one included.
        pub region_count: U16 => "size" Decimal little,
    }
}

/// Faults of a log item. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LogItemFault {
    /// From the future, or garbage.
    #[error("unknown item type {kind:#06x}")]
    UnknownType {
        /// `type`.
        kind: u16,
    },
    /// More or fewer regions than this kind of item has.
    #[error("{} item has {found} regions where {expected} belong", .item.name())]
    RegionCount {
        /// Its kind.
        item: ItemType,
        /// There are.
        found: u32,
        /// As its contents demand.
        expected: u32,
    },
    /// A region that is too short or too long.
    #[error("region {region} of {} item has {length_bytes} bytes where {needed_bytes} belong", .item.name())]
    RegionLength {
        /// Its kind.
        item: ItemType,
        /// Number of the region, from 0.
        region: u32,
        /// There are.
        length_bytes: u64,
        /// As its contents demand.
        needed_bytes: u64,
    },
    /// An array whose count its region cannot hold.
    #[error("{} item claims {count} extents in a region of {length_bytes} bytes", .item.name())]
    ExtentCount {
        /// Its kind.
        item: ItemType,
        /// `nextents`.
        count: u32,
        /// Of the region.
        length_bytes: u64,
    },
    /// Flags that are unknown or do not go together.
    #[error("{} item has flags {flags:#x}, which make no sense", .item.name())]
    Flags {
        /// Its kind.
        item: ItemType,
        /// Flags or operation.
        flags: u64,
    },
    /// A buffer's bitmap marks more than the buffer has.
    #[error("BUF item marks chunk {chunk} of a buffer of {chunks} chunks")]
    ChunkOutside {
        /// Number of the 128-byte chunk.
        chunk: u32,
        /// In the buffer.
        chunks: u32,
    },
    /// A buffer's regions and its bitmap disagree.
    #[error("region {region} of BUF item has {length_bytes} bytes where the bitmap allows {run_bytes}")]
    ChunkRun {
        /// Number of the region.
        region: u32,
        /// Its length.
        length_bytes: u64,
        /// Of the marked run that it fills.
        run_bytes: u64,
    },
    /// Regions that do not fill all marked chunks.
    #[error("BUF item marks chunk {chunk}, but has no contents for it")]
    ChunkMissing {
        /// Number of the 128-byte chunk.
        chunk: u32,
    },
    /// The logged inode core has the wrong magic number or version.
    #[error("logged inode has magic {magic:#06x} and version {version}")]
    InodeCore {
        /// `di_magic`.
        magic: u16,
        /// `di_version`.
        version: u8,
    },
    /// The number in the item is not that of the logged core.
    #[error("item is of inode {inode}, but holds inode {core}")]
    InodeNumber {
        /// In the item.
        inode: u64,
        /// In the core.
        core: u64,
    },
    /// Lengths of an attribute's name or value.
    #[error("ATTRI item has a name of {name_bytes} and a value of {value_bytes} bytes")]
    AttributeLengths {
        /// Name.
        name_bytes: u32,
        /// Value.
        value_bytes: u32,
    },
    /// Blocks outside the file system.
    #[error("{} item names {length} blocks from {start}, which do not lie in the file system", .item.name())]
    OutsideFileSystem {
        /// Its kind.
        item: ItemType,
        /// First block or 512-byte unit.
        start: u64,
        /// How many.
        length: u64,
    },
    /// No possible inode.
    #[error("{} item names inode {inode}, which cannot exist", .item.name())]
    NoSuchInode {
        /// Its kind.
        item: ItemType,
        /// The number.
        inode: u64,
    },
    /// Longer than any buffer.
    #[error("{} item is of a buffer of {sectors} sectors at {sector}, and none has more than {limit}", .item.name())]
    BufferLength {
        /// Its kind.
        item: ItemType,
        /// First 512-byte unit.
        sector: u64,
        /// 512-byte units.
        sectors: u64,
        /// Most that a buffer has.
        limit: u64,
    },
    /// The log says that the log is to be changed.
    #[error("{} item is of a buffer inside the log, at sector {sector}", .item.name())]
    InsideLog {
        /// Its kind.
        item: ItemType,
        /// First 512-byte unit.
        sector: u64,
    },
    /// Said and found contents do not agree.
    #[error("BUF item says that the buffer at sector {sector} holds {said}, but it holds {}", .found.map_or("nothing known", |found| found.name()))]
    Contents {
        /// First 512-byte unit.
        sector: u64,
        /// As the item says.
        said: &'static str,
        /// As the bytes say.
        found: Option<crate::structure::Structure>,
    },
    /// A change of an inode, and there is none on disk.
    #[error("{} item changes an inode at byte {offset_bytes} of the buffer at sector {sector}, where there is none", .item.name())]
    NotAnInode {
        /// Its kind.
        item: ItemType,
        /// First 512-byte unit.
        sector: u64,
        /// Of the inode.
        offset_bytes: u64,
    },
    /// Zero names no inode in an unlinked list.
    #[error(
        "BUF item sets the next unlinked inode to 0 at byte {offset_bytes} of the buffer at sector {sector}"
    )]
    NextUnlinked {
        /// First 512-byte unit.
        sector: u64,
        /// Of the inode.
        offset_bytes: u64,
    },
    /// The logged fork is longer than its room, or no possible root.
    #[error(
        "INODE item of inode {inode} holds {length_bytes} bytes of a fork, which do not fit its {room_bytes}"
    )]
    Fork {
        /// The inode.
        inode: u64,
        /// In the item.
        length_bytes: u64,
        /// In the inode.
        room_bytes: u64,
    },
    /// Numbers of a new inode chunk that contradict the file system's sizes.
    #[error("ICREATE item makes {count} inodes of {size_bytes} bytes in {length_blocks} blocks")]
    InodeChunk {
        /// Inodes.
        count: u32,
        /// Bytes in each.
        size_bytes: u32,
        /// Blocks.
        length_blocks: u32,
    },
}

/// One region, or one element of an array in it, with the table of its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemPart<'a> {
    /// Its kind.
    pub name: &'static str,
    /// Its fields, or nothing where it is raw contents.
    pub fields: &'static [Field],
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl<'a> ItemPart<'a> {
    /// A structure with its field table.
    pub(crate) fn table<T: OnDisk>(name: &'static str, value: &'a T) -> Self {
        Self { name, fields: T::FIELDS, bytes: value.as_bytes() }
    }

    /// Bytes whose meaning depends on more than the item.
    pub(crate) fn raw(name: &'static str, bytes: &'a [u8]) -> Self {
        Self { name, fields: &[], bytes }
    }
}

/// An item whose regions are consistent with each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogItem<'a> {
    /// BUF.
    Buffer(BufferItem<'a>),
    /// INODE.
    Inode(InodeItem<'a>),
    /// ICREATE.
    InodeCreate(&'a InodeCreateItem),
    /// DQUOT.
    Quota(QuotaItem<'a>),
    /// QUOTAOFF.
    QuotaOff(&'a QuotaOffItem),
    /// EFI, EFD and their realtime forms.
    FreeExtent(FreeExtentItem<'a>),
    /// RUI, RUI_RT.
    ReverseMapIntent(ReverseMapIntent<'a>),
    /// RUD, RUD_RT.
    ReverseMapDone(ReverseMapDone<'a>),
    /// CUI, CUI_RT.
    ReferenceCountIntent(ReferenceCountIntent<'a>),
    /// CUD, CUD_RT.
    ReferenceCountDone(ReferenceCountDone<'a>),
    /// BUI.
    ExtentMapIntent(ExtentMapIntent<'a>),
    /// BUD.
    ExtentMapDone(ExtentMapDone<'a>),
    /// ATTRI.
    AttributeIntent(AttributeIntent<'a>),
    /// ATTRD.
    AttributeDone(AttributeDone<'a>),
    /// XMI.
    ExchangeIntent(&'a ExchangeIntent),
    /// XMD.
    ExchangeDone(ExchangeDone<'a>),
}

/// The regions of one item, for its decoder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Regions<'a> {
    pub(crate) item: ItemType,
    pub(crate) all: &'a [&'a [u8]],
}

impl<'a> Regions<'a> {
    pub(crate) fn count(&self) -> u32 {
        crate::convert::low_u32(to_u64(self.all.len()))
    }

    /// Region `index`; missing ones are empty, so that their length check fails.
    pub(crate) fn get(&self, index: usize) -> &'a [u8] {
        self.all.get(index).copied().unwrap_or_default()
    }

    pub(crate) fn expect_count(&self, expected: u32) -> Result<(), LogItemFault> {
        match self.count() {
            found if found == expected => Ok(()),
            found => Err(LogItemFault::RegionCount { item: self.item, found, expected }),
        }
    }

    pub(crate) fn length_fault(&self, index: usize, needed_bytes: u64) -> LogItemFault {
        LogItemFault::RegionLength {
            item: self.item,
            region: crate::convert::low_u32(to_u64(index)),
            length_bytes: to_u64(self.get(index).len()),
            needed_bytes,
        }
    }

    /// Region `index`, which must be exactly a `T`.
    pub(crate) fn exactly<T: OnDisk>(&self, index: usize) -> Result<&'a T, LogItemFault> {
        T::ref_from_bytes(self.get(index)).map_err(|_| self.length_fault(index, to_u64(T::SIZE_BYTES)))
    }

    /// Region `index`, which must begin with a `T`.
    pub(crate) fn prefix<T: OnDisk>(&self, index: usize) -> Result<(&'a T, &'a [u8]), LogItemFault> {
        T::ref_from_prefix(self.get(index)).map_err(|_| self.length_fault(index, to_u64(T::SIZE_BYTES)))
    }

    /// Region `index`, which must be `length_bytes` rounded up to four; gives the bytes without the padding.
    pub(crate) fn padded(&self, index: usize, length_bytes: usize) -> Result<&'a [u8], LogItemFault> {
        let region = self.get(index);
        let padded = length_bytes.checked_next_multiple_of(4);
        match region.get(..length_bytes) {
            Some(bytes) if padded == Some(region.len()) => Ok(bytes),
            _ => Err(self.length_fault(index, to_u64(padded.unwrap_or(usize::MAX)))),
        }
    }
}

/// How many regions an item has, as its first region says; `None` where that is too short to say.
pub fn announced_regions(first_region: &[u8]) -> Option<u32> {
    ItemHeader::prefix_of(first_region).map(|header| header.region_count.get().into())
}

impl<'a> LogItem<'a> {
    /// Decodes an item from all its regions and checks them against each other.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn decode(regions: &'a [&'a [u8]]) -> Result<Self, LogItemFault> {
        let first = regions.first().copied().unwrap_or_default();
        let kind = ItemHeader::prefix_of(first).map_or(0, |header| header.kind.get());
        let item = ItemType::from_raw(kind).ok_or(LogItemFault::UnknownType { kind })?;
        let regions = Regions { item, all: regions };
        regions.expect_count(announced_regions(first).unwrap_or(0))?;
        use ItemType as T;
        Ok(match item {
            T::Buffer => Self::Buffer(BufferItem::decode(regions)?),
            T::Inode => Self::Inode(InodeItem::decode(regions)?),
            T::InodeCreate => Self::InodeCreate(InodeCreateItem::decode(regions)?),
            T::Quota => Self::Quota(QuotaItem::decode(regions)?),
            T::QuotaOff => Self::QuotaOff(QuotaOffItem::decode(regions)?),
            T::FreeExtentIntent
            | T::FreeExtentDone
            | T::RealtimeFreeExtentIntent
            | T::RealtimeFreeExtentDone => Self::FreeExtent(FreeExtentItem::decode(regions)?),
            T::ReverseMapIntent | T::RealtimeReverseMapIntent => {
                Self::ReverseMapIntent(ReverseMapIntent::decode(regions)?)
            }
            T::ReverseMapDone | T::RealtimeReverseMapDone => {
                Self::ReverseMapDone(ReverseMapDone::decode(regions)?)
            }
            T::ReferenceCountIntent | T::RealtimeReferenceCountIntent => {
                Self::ReferenceCountIntent(ReferenceCountIntent::decode(regions)?)
            }
            T::ReferenceCountDone | T::RealtimeReferenceCountDone => {
                Self::ReferenceCountDone(ReferenceCountDone::decode(regions)?)
            }
            T::ExtentMapIntent => Self::ExtentMapIntent(ExtentMapIntent::decode(regions)?),
            T::ExtentMapDone => Self::ExtentMapDone(ExtentMapDone::decode(regions)?),
            T::AttributeIntent => Self::AttributeIntent(AttributeIntent::decode(regions)?),
            T::AttributeDone => Self::AttributeDone(AttributeDone::decode(regions)?),
            T::ExchangeIntent => Self::ExchangeIntent(ExchangeIntent::decode(regions)?),
            T::ExchangeDone => Self::ExchangeDone(ExchangeDone::decode(regions)?),
        })
    }

    /// Verifies the item against the file system's sizes.
    ///
    /// Realtime numbers are not judged: uxfs does not know the realtime section's sizes.
    ///
    /// # Errors
    /// The first number that lies outside.
    pub fn verify(&self, geometry: &Geometry) -> Result<(), LogItemFault> {
        match self {
            Self::Buffer(item) => item.verify(geometry),
            Self::Inode(item) => item.verify(geometry),
            Self::InodeCreate(item) => item.verify(geometry),
            Self::Quota(item) => item.verify(geometry),
            Self::FreeExtent(item) => item.verify(geometry),
            Self::ReverseMapIntent(item) => item.verify(geometry),
            Self::ReferenceCountIntent(item) => item.verify(geometry),
            Self::ExtentMapIntent(item) => item.verify(geometry),
            Self::AttributeIntent(item) => item.verify(geometry),
            Self::ExchangeIntent(item) => item.verify(geometry),
            Self::QuotaOff(_)
            | Self::ReverseMapDone(_)
            | Self::ReferenceCountDone(_)
            | Self::ExtentMapDone(_)
            | Self::AttributeDone(_)
            | Self::ExchangeDone(_) => Ok(()),
        }
    }

    /// Its kind.
    pub fn item_type(&self) -> ItemType {
        match self {
            Self::Buffer(_) => ItemType::Buffer,
            Self::Inode(_) => ItemType::Inode,
            Self::InodeCreate(_) => ItemType::InodeCreate,
            Self::Quota(_) => ItemType::Quota,
            Self::QuotaOff(_) => ItemType::QuotaOff,
            Self::FreeExtent(item) => item.item_type,
            Self::ReverseMapIntent(item) => item.item_type,
            Self::ReverseMapDone(item) => item.item_type,
            Self::ReferenceCountIntent(item) => item.item_type,
            Self::ReferenceCountDone(item) => item.item_type,
            Self::ExtentMapIntent(_) => ItemType::ExtentMapIntent,
            Self::ExtentMapDone(_) => ItemType::ExtentMapDone,
            Self::AttributeIntent(_) => ItemType::AttributeIntent,
            Self::AttributeDone(_) => ItemType::AttributeDone,
            Self::ExchangeIntent(_) => ItemType::ExchangeIntent,
            Self::ExchangeDone(_) => ItemType::ExchangeDone,
        }
    }

    /// Everything in the item, in log order, with field tables where there are fields.
    pub fn parts(&self) -> Vec<ItemPart<'a>> {
        match self {
            Self::Buffer(item) => item.parts(),
            Self::Inode(item) => item.parts(),
            Self::InodeCreate(item) => vec![ItemPart::table("icreate", *item)],
            Self::Quota(item) => item.parts(),
            Self::QuotaOff(item) => vec![ItemPart::table("quotaoff", *item)],
            Self::FreeExtent(item) => item.parts(),
            Self::ReverseMapIntent(item) => item.parts(),
            Self::ReferenceCountIntent(item) => item.parts(),
            Self::ExtentMapIntent(item) => item.parts(),
            Self::AttributeIntent(item) => item.parts(),
            Self::ReverseMapDone(item) => vec![ItemPart::table("rud", item.done)],
            Self::ReferenceCountDone(item) => vec![ItemPart::table("cud", item.done)],
            Self::ExtentMapDone(item) => vec![ItemPart::table("bud", item.done)],
            Self::AttributeDone(item) => vec![ItemPart::table("attrd", item.done)],
            Self::ExchangeIntent(item) => vec![ItemPart::table("xmi", *item)],
            Self::ExchangeDone(item) => vec![ItemPart::table("xmd", item.done)],
        }
    }
}

#[cfg(test)]
#[path = "item_tests.rs"]
mod tests;
