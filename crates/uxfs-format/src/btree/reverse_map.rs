//! rmapbt: the owner of each used extent of a group. Shared extents have one record for each owner, so records overlap;
//! nodes therefore hold two keys for each child, the first record's and the highest that any record below reaches.

use std::fmt;

use thiserror::Error;
use zerocopy::big_endian::{U32, U64};

use super::{
    BtreeKind, bit_field, block_header::ShortBlockHeader, check::RecordFault, extent_map::MAX_FILE_BLOCKS,
    levels,
};
use crate::{
    field_table::{
        Field,
        FieldFormat::{Decimal, Padding, SignedDecimal},
        OnDisk,
    },
    geometry::Geometry,
    structure::Structure,
    units::{AgBlock, AgNumber, FileBlock, InodeNumber},
};

/// "RMB3".
#[doc(alias = "XFS_RMAP_CRC_MAGIC")]
pub const MAGIC: u32 = 0x524d_4233;

/// Attribute fork.
const ATTRIBUTE_FORK: u64 = 1 << 63;
/// Block of the inode's extent map, not of its contents.
const EXTENT_MAP_BLOCK: u64 = 1 << 62;
/// Unwritten.
const UNWRITTEN: u64 = 1 << 61;
const OFFSET_MASK: u64 = (1 << 54) - 1;
const RESERVED: u64 = !(ATTRIBUTE_FORK | EXTENT_MAP_BLOCK | UNWRITTEN | OFFSET_MASK);

macro_rules! packed_on_disk {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout,
            zerocopy::Immutable, zerocopy::Unaligned,
        )]
        #[repr(C)]
        pub struct $name { $($(#[$field_meta])* pub $field: $type,)* }
    )*};
}

packed_on_disk! {
    /// One mapping as it lies on disk. Three flags share a word with the file block.
    #[doc(alias = "xfs_rmap_rec")]
    pub struct ReverseMapRecord {
        /// First block.
        pub start: U32,
        /// Blocks.
        pub length_blocks: U32,
        /// Inode, or a negative number for other owners.
        pub owner: U64,
        /// File block and flags.
        pub offset: U64,
    }

    /// Low and high key of a child.
    #[doc(alias = "xfs_rmap_key")]
    pub struct ReverseMapKey {
        /// First block of the first record.
        pub low_start: U32,
        /// Its owner.
        pub low_owner: U64,
        /// Its file block and flags, without "unwritten".
        pub low_offset: U64,
        /// The last block that any record below covers.
        pub high_start: U32,
        /// Owner of that one.
        pub high_owner: U64,
        /// File block of that one, and flags without "unwritten".
        pub high_offset: U64,
    }
}

impl OnDisk for ReverseMapRecord {
    const FIELDS: &'static [Field] = &[
        bit_field("startblock", 0, 32, Decimal),
        bit_field("blockcount", 32, 32, Decimal),
        bit_field("owner", 64, 64, SignedDecimal),
        bit_field("attrfork", 128, 1, Decimal),
        bit_field("bmbtblock", 129, 1, Decimal),
        bit_field("extentflag", 130, 1, Decimal),
        bit_field("reserved", 131, 7, Padding),
        bit_field("offset", 138, 54, Decimal),
    ];
}

impl OnDisk for ReverseMapKey {
    const FIELDS: &'static [Field] = &[
        bit_field("startblock", 0, 32, Decimal),
        bit_field("owner", 32, 64, SignedDecimal),
        bit_field("attrfork", 96, 1, Decimal),
        bit_field("bmbtblock", 97, 1, Decimal),
        bit_field("extentflag", 98, 1, Decimal),
        bit_field("reserved", 99, 7, Padding),
        bit_field("offset", 106, 54, Decimal),
        bit_field("startblock_hi", 160, 32, Decimal),
        bit_field("owner_hi", 192, 64, SignedDecimal),
        bit_field("attrfork_hi", 256, 1, Decimal),
        bit_field("bmbtblock_hi", 257, 1, Decimal),
        bit_field("extentflag_hi", 258, 1, Decimal),
        bit_field("reserved_hi", 259, 7, Padding),
        bit_field("offset_hi", 266, 54, Decimal),
    ];
}

/// Owners of extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// Headers of the group.
    #[doc(alias = "XFS_RMAP_OWN_FS")]
    GroupHeaders,
    /// The internal log.
    #[doc(alias = "XFS_RMAP_OWN_LOG")]
    Log,
    /// Free space and reverse map trees and the free list.
    #[doc(alias = "XFS_RMAP_OWN_AG")]
    GroupBtrees,
    /// Inode and free inode trees.
    #[doc(alias = "XFS_RMAP_OWN_INOBT")]
    InodeBtrees,
    /// Inode chunks.
    #[doc(alias = "XFS_RMAP_OWN_INODES")]
    InodeChunks,
    /// Reference count tree.
    #[doc(alias = "XFS_RMAP_OWN_REFC")]
    ReferenceCountBtree,
    /// Space for a copy-on-write that is not finished.
    #[doc(alias = "XFS_RMAP_OWN_COW")]
    CowStaging,
    /// A file.
    Inode(InodeNumber),
    /// None of these: damaged.
    Other(i64),
}

impl Owner {
    /// From the number on disk. Every number is some owner.
    #[inline]
    pub const fn from_raw(raw: u64) -> Self {
        match raw.cast_signed() {
            -3 => Self::GroupHeaders,
            -4 => Self::Log,
            -5 => Self::GroupBtrees,
            -6 => Self::InodeBtrees,
            -7 => Self::InodeChunks,
            -8 => Self::ReferenceCountBtree,
            -9 => Self::CowStaging,
            other if other < 0 => Self::Other(other),
            _ => Self::Inode(InodeNumber::new(raw)),
        }
    }

    /// The number on disk.
    #[inline]
    pub const fn raw(self) -> u64 {
        let number: i64 = match self {
            Self::GroupHeaders => -3,
            Self::Log => -4,
            Self::GroupBtrees => -5,
            Self::InodeBtrees => -6,
            Self::InodeChunks => -7,
            Self::ReferenceCountBtree => -8,
            Self::CowStaging => -9,
            Self::Other(number) => number,
            Self::Inode(inode) => return inode.get(),
        };
        number.cast_unsigned()
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GroupHeaders => f.write_str("group headers"),
            Self::Log => f.write_str("log"),
            Self::GroupBtrees => f.write_str("group btrees"),
            Self::InodeBtrees => f.write_str("inode btrees"),
            Self::InodeChunks => f.write_str("inode chunks"),
            Self::ReferenceCountBtree => f.write_str("reference count btree"),
            Self::CowStaging => f.write_str("copy-on-write staging"),
            Self::Inode(inode) => write!(f, "inode {inode}"),
            Self::Other(number) => write!(f, "unknown owner {number}"),
        }
    }
}

/// One mapping, unpacked.
#[doc(alias = "xfs_rmap_irec")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// First block.
    pub start: AgBlock,
    /// Blocks.
    pub length_blocks: u32,
    /// Their owner.
    pub owner: Owner,
    /// First block in the owner's fork; 0 for owners that are not inodes and for blocks of an extent map.
    pub file_block: FileBlock,
    /// In the attribute fork.
    pub is_attribute_fork: bool,
    /// A block of the fork's extent map.
    pub is_extent_map_block: bool,
    /// Allocated but never written.
    pub is_unwritten: bool,
}

/// Faults of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReverseMapFault {
    /// Not within the group, or the headers of the group as anything but themselves.
    #[error("{length_blocks} blocks from block {start} owned by {owner} do not lie where they can")]
    Place {
        /// First block.
        start: AgBlock,
        /// Blocks.
        length_blocks: u32,
        /// Their owner.
        owner: Owner,
    },
    /// An owner that does not exist.
    #[error("block {start} is owned by {owner}, which cannot be")]
    Owner {
        /// First block.
        start: AgBlock,
        /// The owner.
        owner: Owner,
    },
    /// Flags or a file block that this kind of owner does not have, or reserved bits.
    #[error("block {start} owned by {owner} has offset word {offset:#x}, which cannot be")]
    Offset {
        /// First block.
        start: AgBlock,
        /// The owner.
        owner: Owner,
        /// File block and flags as on disk.
        offset: u64,
    },
    /// Blocks that are to be freed or written to for an inode or structure that does not own them.
    #[error("no mapping says that {owner} owns {length_blocks} blocks from block {start} in this way")]
    NotOwned {
        /// First block.
        start: AgBlock,
        /// Blocks.
        length_blocks: u32,
        /// The expected owner.
        owner: Owner,
    },
    /// Blocks that are to get an owner while they have another.
    #[error("{length_blocks} blocks from block {start} for {owner} are owned already, by {found} too")]
    AlreadyOwned {
        /// First block.
        start: AgBlock,
        /// Blocks.
        length_blocks: u32,
        /// The new owner.
        owner: Owner,
        /// The owner of some of them.
        found: Owner,
    },
}

impl ReverseMapRecord {
    /// Unpacks the record.
    #[inline]
    pub fn get(&self) -> Mapping {
        let offset = self.offset.get();
        Mapping {
            start: AgBlock::new(self.start.get()),
            length_blocks: self.length_blocks.get(),
            owner: Owner::from_raw(self.owner.get()),
            file_block: FileBlock::new(offset & OFFSET_MASK),
            is_attribute_fork: offset & ATTRIBUTE_FORK != 0,
            is_extent_map_block: offset & EXTENT_MAP_BLOCK != 0,
            is_unwritten: offset & UNWRITTEN != 0,
        }
    }
}

impl From<Mapping> for ReverseMapRecord {
    fn from(mapping: Mapping) -> Self {
        let flag = |is_set, bit| if is_set { bit } else { 0 };
        let offset = mapping.file_block.get() & OFFSET_MASK
            | flag(mapping.is_attribute_fork, ATTRIBUTE_FORK)
            | flag(mapping.is_extent_map_block, EXTENT_MAP_BLOCK)
            | flag(mapping.is_unwritten, UNWRITTEN);
        Self {
            start: U32::new(mapping.start.get()),
            length_blocks: U32::new(mapping.length_blocks),
            owner: U64::new(mapping.owner.raw()),
            offset: U64::new(offset),
        }
    }
}

impl Mapping {
    /// Whether it has any of the blocks from `start` to before `end`.
    #[inline]
    pub fn overlaps(&self, start: AgBlock, end: AgBlock) -> bool {
        self.start < end && start < self.end()
    }

    /// Blocks of an owner that is no file.
    #[inline]
    pub const fn of_group(start: AgBlock, length_blocks: u32, owner: Owner) -> Self {
        Self {
            start,
            length_blocks,
            owner,
            file_block: FileBlock::new(0),
            is_attribute_fork: false,
            is_extent_map_block: false,
            is_unwritten: false,
        }
    }

    /// A block of the extent map of a fork.
    #[inline]
    pub const fn of_extent_map(start: AgBlock, inode: InodeNumber, is_attribute_fork: bool) -> Self {
        let mapping = Self::of_group(start, 1, Owner::Inode(inode));
        Self { is_attribute_fork, is_extent_map_block: true, ..mapping }
    }

    /// First block behind the extent.
    #[inline]
    pub fn end(&self) -> AgBlock {
        AgBlock::new(self.start.get().saturating_add(self.length_blocks))
    }

    /// Whether file blocks count on along the extent.
    #[inline]
    pub fn has_file_blocks(&self) -> bool {
        matches!(self.owner, Owner::Inode(_)) && !self.is_extent_map_block
    }

    fn verify(
        &self,
        offset: u64,
        geometry: &Geometry,
        group: Option<AgNumber>,
    ) -> Result<(), ReverseMapFault> {
        let Self { start, length_blocks, owner, .. } = *self;
        let header_blocks = geometry.group_header_blocks();
        let is_in_place = if start.get() < header_blocks {
            start.get() == 0 && length_blocks == header_blocks && owner == Owner::GroupHeaders
        } else {
            super::is_group_extent(geometry, group, start, length_blocks)
        };
        if !is_in_place {
            return Err(ReverseMapFault::Place { start, length_blocks, owner });
        }
        let is_owner = match owner {
            Owner::Inode(inode) => geometry.inode_place(inode).is_some(),
            Owner::Other(_) => false,
            _ => true,
        };
        if !is_owner {
            return Err(ReverseMapFault::Owner { start, owner });
        }
        let end = self.file_block.get().saturating_add(length_blocks.into());
        let is_possible = match owner {
            Owner::Inode(_) if self.is_extent_map_block => self.file_block.get() == 0 && !self.is_unwritten,
            Owner::Inode(_) => end <= MAX_FILE_BLOCKS && !(self.is_attribute_fork && self.is_unwritten),
            _ => offset == 0,
        };
        if !is_possible || offset & RESERVED != 0 {
            return Err(ReverseMapFault::Offset { start, owner, offset });
        }
        Ok(())
    }
}

/// Where a mapping stands in the tree: block, owner, then file block with its flags but "unwritten", because
/// writing to an extent must not move its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReverseMapPosition {
    /// Block.
    pub start: AgBlock,
    /// Owner as an unsigned number: inodes come before all others.
    pub owner: u64,
    /// File block and flags.
    pub offset: u64,
}

impl ReverseMapPosition {
    fn new(start: U32, owner: U64, offset: U64) -> Self {
        Self { start: AgBlock::new(start.get()), owner: owner.get(), offset: offset.get() & !UNWRITTEN }
    }
}

impl ReverseMapKey {
    /// The position of the highest block that a record below covers.
    pub fn high(&self) -> ReverseMapPosition {
        ReverseMapPosition::new(self.high_start, self.high_owner, self.high_offset)
    }
}

/// The tree of owners.
#[doc(alias = "xfs_rmapbt")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReverseMap;

impl BtreeKind for ReverseMap {
    type Header = ShortBlockHeader;
    type Record = ReverseMapRecord;
    type Key = ReverseMapKey;
    type Position = ReverseMapPosition;

    const MAGIC: u32 = MAGIC;
    const STRUCTURE: Structure = Structure::ReverseMap;

    #[inline]
    fn position_of_record(record: &ReverseMapRecord) -> ReverseMapPosition {
        ReverseMapPosition::new(record.start, record.owner, record.offset)
    }

    #[inline]
    fn position_of_key(key: &ReverseMapKey) -> ReverseMapPosition {
        ReverseMapPosition::new(key.low_start, key.low_owner, key.low_offset)
    }

    #[inline]
    fn key_of_record(record: &ReverseMapRecord) -> ReverseMapKey {
        let (mapping, offset) = (record.get(), record.offset.get() & !UNWRITTEN);
        let to_last = record.length_blocks.get().saturating_sub(1);
        let advance = if mapping.has_file_blocks() { to_last } else { 0 };
        ReverseMapKey {
            low_start: record.start,
            low_owner: record.owner,
            low_offset: U64::new(offset),
            high_start: U32::new(record.start.get().saturating_add(to_last)),
            high_owner: record.owner,
            high_offset: U64::new(offset.wrapping_add(advance.into())),
        }
    }

    const HAS_HIGH_KEYS: bool = true;

    fn widen_key(key: &mut ReverseMapKey, other: &ReverseMapKey) {
        if other.high() > key.high() {
            key.high_start = other.high_start;
            key.high_owner = other.high_owner;
            key.high_offset = other.high_offset;
        }
    }

    fn reaches_only_to(key: &ReverseMapKey, part: &ReverseMapKey) -> bool {
        key.high() <= part.high()
    }

    #[inline]
    fn may_follow(previous: &ReverseMapRecord, next: &ReverseMapRecord) -> bool {
        // Extents may overlap, but one owner maps a block to one place once.
        Self::position_of_record(previous) < Self::position_of_record(next)
    }

    fn verify_record(
        record: &ReverseMapRecord,
        geometry: &Geometry,
        group: Option<AgNumber>,
    ) -> Result<(), RecordFault> {
        Ok(record.get().verify(record.offset.get(), geometry, group)?)
    }

    fn max_levels(geometry: &Geometry) -> u32 {
        let blocks = u64::from(geometry.ag_blocks);
        if geometry.features.has_reflink() {
            // Any number of records for one block: only the space for the tree itself bounds it.
            levels::for_blocks::<Self>(geometry, blocks)
        } else {
            levels::for_records::<Self>(geometry, blocks)
        }
    }
}

#[cfg(test)]
#[path = "reverse_map_tests.rs"]
mod tests;
