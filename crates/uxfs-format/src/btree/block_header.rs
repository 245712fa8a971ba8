//! The headers of btree blocks: short with 32-bit siblings for the trees of a group, long with 64-bit siblings for
//! the trees of an inode.

use zerocopy::big_endian::{U16, U32, U64};

use super::BlockPointer;
use crate::{
    checksum::Checksum,
    field_table::OnDisk,
    on_disk,
    units::{Lsn, Sector, Uuid},
};

on_disk! {
    /// Header of a block of a group's tree. The checksum covers the whole block.
    #[doc(alias = "xfs_btree_block")]
    #[doc(alias = "xfs_btree_block_shdr")]
    pub struct ShortBlockHeader {
        /// Kind of tree.
        pub magic: U32 => "magic" Hexadecimal,
        /// 0 for leaves.
        pub level: U16 => "level" Decimal,
        /// Records (leaf) or entries (node).
        pub record_count: U16 => "numrecs" Decimal,
        /// Previous block of the level.
        pub left_sibling: U32 => "leftsib" DecimalOrNull,
        /// Next block of the level.
        pub right_sibling: U32 => "rightsib" DecimalOrNull,
        /// 512-byte unit of the device at which the block lies.
        pub sector: U64 => "bno" DecimalOrNull,
        /// Log sequence number of the last write.
        pub lsn: U64 => "lsn" Hexadecimal,
        /// Metadata uuid.
        pub uuid: Uuid => "uuid" Uuid,
        /// Allocation group.
        pub owner: U32 => "owner" DecimalOrNull,
        /// CRC32C of the block.
        pub checksum: Checksum => "crc" Checksum,
    }

    /// Header of a block of an inode's tree. The checksum covers the whole block.
    #[doc(alias = "xfs_btree_block")]
    #[doc(alias = "xfs_btree_block_lhdr")]
    pub struct LongBlockHeader {
        /// Kind of tree.
        pub magic: U32 => "magic" Hexadecimal,
        /// 0 for leaves.
        pub level: U16 => "level" Decimal,
        /// Records (leaf) or entries (node).
        pub record_count: U16 => "numrecs" Decimal,
        /// Previous block of the level.
        pub left_sibling: U64 => "leftsib" DecimalOrNull,
        /// Next block of the level.
        pub right_sibling: U64 => "rightsib" DecimalOrNull,
        /// 512-byte unit of the device at which the block lies.
        pub sector: U64 => "bno" DecimalOrNull,
        /// Log sequence number of the last write.
        pub lsn: U64 => "lsn" Hexadecimal,
        /// Metadata uuid.
        pub uuid: Uuid => "uuid" Uuid,
        /// Inode.
        pub owner: U64 => "owner" DecimalOrNull,
        /// CRC32C of the block.
        pub checksum: Checksum => "crc" Checksum,
        /// Zero.
        pub padding: U32 => "pad" Padding,
    }
}

/// The fields of both headers.
pub trait BlockHeader: OnDisk + Copy + std::fmt::Debug {
    /// Siblings here and children in nodes.
    type Pointer: BlockPointer;

    /// Where the checksum lies in the block.
    const CHECKSUM_OFFSET_BYTES: u32;

    /// Kind of tree.
    fn magic(&self) -> u32;
    /// 0 for leaves.
    fn level(&self) -> u16;
    /// Records or entries, as the disk says: compare it with what the block can hold.
    fn record_count(&self) -> u16;
    /// Previous block of the level; null at the left edge.
    fn left_sibling(&self) -> Self::Pointer;
    /// Next block of the level; null at the right edge.
    fn right_sibling(&self) -> Self::Pointer;
    /// Where the block says that it lies.
    fn sector(&self) -> Sector;
    /// Log sequence number of the last write.
    fn lsn(&self) -> Lsn;
    /// Metadata uuid.
    fn uuid(&self) -> Uuid;
    /// Group or inode that the tree belongs to.
    fn owner(&self) -> u64;

    /// The header of a new block without contents or siblings.
    fn of_new_block(magic: u32, level: u16, place: BlockIdentity) -> Self;
    /// Sets how many records or entries there are.
    fn set_record_count(&mut self, count: u16);
    /// Sets the previous block of the level.
    fn set_left_sibling(&mut self, pointer: Self::Pointer);
    /// Sets the next block of the level.
    fn set_right_sibling(&mut self, pointer: Self::Pointer);
}

/// Where a new block lies, and to whom it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockIdentity {
    /// First 512-byte unit.
    pub sector: Sector,
    /// Metadata uuid of the file system.
    pub uuid: Uuid,
    /// Group or inode.
    pub owner: u64,
}

macro_rules! block_header {
    ($header:ident, $pointer:ident, $checksum_offset:literal, $($padding:ident)?) => {
        impl BlockHeader for $header {
            type Pointer = $pointer;
            const CHECKSUM_OFFSET_BYTES: u32 = $checksum_offset;

            #[inline]
            fn magic(&self) -> u32 {
                self.magic.get()
            }
            #[inline]
            fn level(&self) -> u16 {
                self.level.get()
            }
            #[inline]
            fn record_count(&self) -> u16 {
                self.record_count.get()
            }
            #[inline]
            fn left_sibling(&self) -> $pointer {
                self.left_sibling
            }
            #[inline]
            fn right_sibling(&self) -> $pointer {
                self.right_sibling
            }
            #[inline]
            fn sector(&self) -> Sector {
                Sector::new(self.sector.get())
            }
            #[inline]
            fn lsn(&self) -> Lsn {
                Lsn::new(self.lsn.get())
            }
            #[inline]
            fn uuid(&self) -> Uuid {
                self.uuid
            }
            #[inline]
            fn owner(&self) -> u64 {
                self.owner.get().into()
            }
            #[inline]
            fn of_new_block(magic: u32, level: u16, place: BlockIdentity) -> Self {
                let none = <$pointer>::MAX_VALUE;
                $header {
                    magic: U32::new(magic),
                    level: U16::new(level),
                    record_count: U16::new(0),
                    left_sibling: none,
                    right_sibling: none,
                    sector: U64::new(place.sector.get()),
                    lsn: U64::new(0),
                    uuid: place.uuid,
                    owner: <$pointer as BlockPointer>::of_raw(place.owner),
                    checksum: Checksum::default(),
                    $($padding: U32::new(0),)?
                }
            }
            #[inline]
            fn set_record_count(&mut self, count: u16) {
                self.record_count = U16::new(count);
            }
            #[inline]
            fn set_left_sibling(&mut self, pointer: $pointer) {
                self.left_sibling = pointer;
            }
            #[inline]
            fn set_right_sibling(&mut self, pointer: $pointer) {
                self.right_sibling = pointer;
            }
        }
    };
}

block_header!(ShortBlockHeader, U32, 52,);
block_header!(LongBlockHeader, U64, 64, padding);
