//! bmbt: the extents of one fork. The same 16-byte record also lies directly in inodes of the extents format.

use thiserror::Error;
use zerocopy::{
    FromBytes,
    big_endian::{U16, U64},
};

use super::{
    BlockPointer, BtreeKind, bit_field,
    block_header::LongBlockHeader,
    check::{self, BtreeFault, RecordFault},
    levels::{self, ForkRoom},
    reverse_map::Owner,
};
use crate::{
    convert::{low_u32, to_u64, to_usize},
    field_table::{Field, FieldFormat::Decimal, OnDisk},
    geometry::Geometry,
    header_fault::HeaderFault,
    on_disk,
    structure::Structure,
    units::{AgNumber, FileBlock, FsBlock},
};

/// "BMA3".
#[doc(alias = "XFS_BMAP_CRC_MAGIC")]
pub const MAGIC: u32 = 0x424d_4133;
/// Longest extent of one record, in blocks.
#[doc(alias = "XFS_MAX_BMBT_EXTLEN")]
pub const MAX_EXTENT_BLOCKS: u64 = (1 << 21) - 1;
/// One more than the largest file block that a record can hold.
pub const MAX_FILE_BLOCKS: u64 = 1 << 54;

const START_MASK: u64 = (1 << 52) - 1;
const LENGTH_BITS: u32 = 21;
/// Bits of the start block that lie in the first word.
const START_HIGH_BITS: u32 = 9;

/// One extent as it lies on disk: 1 bit "unwritten", 54 bits file block, 52 bits start block, 21 bits length, packed
/// into two big-endian words.
#[doc(alias = "xfs_bmbt_rec")]
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::KnownLayout,
    zerocopy::Immutable,
    zerocopy::Unaligned,
)]
#[repr(C)]
pub struct ExtentRecord {
    /// Unwritten flag, file block and the top of the start block.
    pub high: U64,
    /// The rest of the start block and the length.
    pub low: U64,
}

impl OnDisk for ExtentRecord {
    const FIELDS: &'static [Field] = &[
        bit_field("extentflag", 0, 1, Decimal),
        bit_field("startoff", 1, 54, Decimal),
        bit_field("startblock", 55, 52, Decimal),
        bit_field("blockcount", 107, 21, Decimal),
    ];
}

/// One extent of a fork, unpacked.
#[doc(alias = "xfs_bmbt_irec")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Extent {
    /// First block in the fork.
    pub file_block: FileBlock,
    /// First block on disk.
    pub start: FsBlock,
    /// Blocks, at most [`MAX_EXTENT_BLOCKS`] on disk.
    pub length_blocks: u64,
    /// Allocated but never written: reads as zeros.
    pub is_unwritten: bool,
}

impl ExtentRecord {
    /// Unpacks the record. Every bit pattern is some extent; [`Extent::verify`] says whether it can be.
    #[inline]
    pub fn get(&self) -> Extent {
        let (high, low) = (self.high.get(), self.low.get());
        let start = high.wrapping_shl(64u32.wrapping_sub(LENGTH_BITS)) & START_MASK;
        Extent {
            file_block: self.file_block(),
            start: FsBlock::new(start | low.wrapping_shr(LENGTH_BITS)),
            length_blocks: low & MAX_EXTENT_BLOCKS,
            is_unwritten: high >> 63 == 1,
        }
    }

    /// First block in the fork, without unpacking the rest.
    #[inline]
    pub fn file_block(&self) -> FileBlock {
        FileBlock::new(self.high.get().wrapping_shr(START_HIGH_BITS) & MAX_FILE_BLOCKS.wrapping_sub(1))
    }

    /// Packs an extent, or gives `None` where a number is too large for its bits.
    pub fn new(extent: &Extent) -> Option<Self> {
        let (file_block, start) = (extent.file_block.get(), extent.start.get());
        if file_block >= MAX_FILE_BLOCKS || start > START_MASK || extent.length_blocks > MAX_EXTENT_BLOCKS {
            return None;
        }
        let high = u64::from(extent.is_unwritten).wrapping_shl(63)
            | file_block.wrapping_shl(START_HIGH_BITS)
            | start.wrapping_shr(64u32.wrapping_sub(LENGTH_BITS));
        let low = start.wrapping_shl(LENGTH_BITS) | extent.length_blocks;
        Some(Self { high: U64::new(high), low: U64::new(low) })
    }
}

impl Extent {
    /// First block of the fork behind the extent.
    #[inline]
    pub fn end(&self) -> FileBlock {
        FileBlock::new(self.file_block.get().saturating_add(self.length_blocks))
    }

    /// Checks what must hold wherever the blocks lie: a length, and an end within the largest file.
    ///
    /// # Errors
    /// The first check that fails.
    #[inline]
    pub fn verify(&self) -> Result<(), ExtentMapFault> {
        if self.length_blocks == 0 {
            return Err(ExtentMapFault::NoLength { file_block: self.file_block });
        }
        if self.end().get() > MAX_FILE_BLOCKS {
            let (file_block, length_blocks) = (self.file_block, self.length_blocks);
            return Err(ExtentMapFault::PastEnd { file_block, length_blocks });
        }
        Ok(())
    }

    /// Checks that the blocks lie within one group of the data section. Not for files of the realtime section.
    ///
    /// # Errors
    /// They do not.
    #[inline]
    pub fn verify_place(&self, geometry: &Geometry) -> Result<(), ExtentMapFault> {
        let in_group = geometry.contains_extent(self.start, self.length_blocks);
        let place = geometry.split_fs_block(self.start);
        if in_group && place.is_some_and(|(_, block)| block.get() >= geometry.group_header_blocks()) {
            return Ok(());
        }
        Err(ExtentMapFault::Place { start: self.start, length_blocks: self.length_blocks })
    }
}

/// Faults of an extent, or with a root in an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExtentMapFault {
    /// An extent of nothing.
    #[error("extent at file block {file_block} has no length")]
    NoLength {
        /// Start in the fork.
        file_block: FileBlock,
    },
    /// Behind the largest possible file.
    #[error("extent at file block {file_block} of {length_blocks} blocks ends behind the largest file")]
    PastEnd {
        /// Start in the fork.
        file_block: FileBlock,
        /// Its length.
        length_blocks: u64,
    },
    /// Outside the file system, over a group's headers, or across groups.
    #[error("{length_blocks} blocks from block {start} do not lie within one allocation group")]
    Place {
        /// Start on disk.
        start: FsBlock,
        /// Its length.
        length_blocks: u64,
    },
    /// Over or before the extent before it.
    #[error("extent at file block {file_block} does not lie behind the one before it, which ends at {end}")]
    Overlap {
        /// Start in the fork.
        file_block: FileBlock,
        /// End of the extent before it.
        end: FileBlock,
    },
    /// The inode counts another number.
    #[error("there are {found} extents, but the inode counts {expected}")]
    Count {
        /// As read; where there are too many, those up to the leaf at which reading stopped.
        found: u64,
        /// As the inode says.
        expected: u64,
    },
    /// A mapping that is to be taken away, but is another or none.
    #[error("file block {file_block} is not mapped to {length_blocks} blocks from block {start}")]
    NotMapped {
        /// Start in the fork.
        file_block: FileBlock,
        /// Start on disk.
        start: FsBlock,
        /// Its length.
        length_blocks: u64,
    },
    /// Blocks of a file that metadata has.
    #[error("{length_blocks} blocks from block {start} belong to {owner}")]
    Owned {
        /// Start on disk.
        start: FsBlock,
        /// Its length.
        length_blocks: u32,
        /// The owner of some of them.
        owner: Owner,
    },
    /// Blocks of a file that are free.
    #[error("of {length_blocks} blocks from block {start} some are free")]
    Free {
        /// Start on disk.
        start: FsBlock,
        /// Its length.
        length_blocks: u32,
    },
    /// Shared blocks of a file whose inode says that it shares none.
    #[error(
        "of {length_blocks} blocks from block {start} some are shared, but the inode says that it shares none"
    )]
    Shared {
        /// Start on disk.
        start: FsBlock,
        /// Its length.
        length_blocks: u32,
    },
    /// A tolerant reader has left a damaged part of the map out.
    #[error("the extents from file block {file_block} on are lost")]
    Lost {
        /// Start in the fork.
        file_block: FileBlock,
    },
    /// Attributes are always written.
    #[error("extent at file block {file_block} of the attribute fork is unwritten")]
    UnwrittenAttribute {
        /// Start in the fork.
        file_block: FileBlock,
    },
    /// A child at another level than the one below its parent.
    #[error("block is at level {found}, but its parent leads to level {expected}")]
    ChildLevel {
        /// On disk.
        found: u16,
        /// One less than the parent's.
        expected: u16,
    },
    /// Two pointers lead to one block.
    #[error("block has been read below another pointer already")]
    SecondVisit,
    /// Nothing below a pointer.
    #[error("block below the root is empty")]
    EmptyChild,
    /// The root in the inode is a leaf or too high.
    #[error("root in the inode is at level {level}, not from 1 to {max_level}")]
    RootLevel {
        /// On disk.
        level: u16,
        /// The highest possible.
        max_level: u32,
    },
    /// The root in the inode is empty or holds more than fits.
    #[error("root in the inode has {count} entries, not from 1 to {capacity}")]
    RootCount {
        /// On disk.
        count: u16,
        /// Most that fit in the fork.
        capacity: u32,
    },
}

on_disk! {
    /// Key of a node: first file block of the child.
    #[doc(alias = "xfs_bmbt_key")]
    pub struct ExtentMapKey {
        /// File block.
        pub file_block: U64 => "startoff" Decimal,
    }

    /// Header of the root inside an inode. Keys follow directly; pointers follow behind room for the most keys that
    /// the *fork* can hold, so they move when the fork offset changes.
    #[doc(alias = "xfs_bmdr_block")]
    pub struct RootHeader {
        /// At least 1: a fork without nodes is in the extents format.
        pub level: U16 => "level" Decimal,
        /// Entries.
        pub record_count: U16 => "numrecs" Decimal,
    }
}

/// The tree of extents of a fork.
#[doc(alias = "xfs_bmbt")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtentMap;

impl BtreeKind for ExtentMap {
    type Header = LongBlockHeader;
    type Record = ExtentRecord;
    type Key = ExtentMapKey;
    type Position = FileBlock;

    const MAGIC: u32 = MAGIC;
    const STRUCTURE: Structure = Structure::ExtentMap;

    #[inline]
    fn position_of_record(record: &ExtentRecord) -> FileBlock {
        record.get().file_block
    }

    #[inline]
    fn position_of_key(key: &ExtentMapKey) -> FileBlock {
        FileBlock::new(key.file_block.get())
    }

    #[inline]
    fn key_of_record(record: &ExtentRecord) -> ExtentMapKey {
        ExtentMapKey { file_block: U64::new(record.get().file_block.get()) }
    }

    #[inline]
    fn may_follow(previous: &ExtentRecord, next: &ExtentRecord) -> bool {
        previous.get().end() <= next.get().file_block
    }

    /// Where the blocks lie depends on the inode (data or realtime section), which a block does not know.
    fn verify_record(record: &ExtentRecord, _: &Geometry, _: Option<AgNumber>) -> Result<(), RecordFault> {
        Ok(record.get().verify()?)
    }

    fn max_levels(geometry: &Geometry) -> u32 {
        let data = levels::of_extent_map(geometry, ForkRoom::Data);
        data.max(levels::of_extent_map(geometry, ForkRoom::Attribute))
    }
}

/// Faults of the root of an extent map inside an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ExtentMapRootFault {
    /// Fewer bytes than the root's header.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// Count or level.
    #[error(transparent)]
    ExtentMap(#[from] ExtentMapFault),
    /// Keys or pointers, which are those of any btree.
    #[error(transparent)]
    Btree(#[from] BtreeFault),
}

/// The root of an extent map inside an inode, seen without copying.
#[derive(Debug, Clone, Copy)]
pub struct ExtentMapRoot<'a> {
    header: &'a RootHeader,
    keys: &'a [ExtentMapKey],
    pointers: &'a [U64],
}

impl<'a> ExtentMapRoot<'a> {
    /// Entries that fit in a fork of `fork_bytes`.
    pub fn capacity(fork_bytes: usize) -> u32 {
        let entry = ExtentMapKey::SIZE_BYTES.wrapping_add(size_of::<U64>());
        let room = to_u64(fork_bytes.saturating_sub(RootHeader::SIZE_BYTES));
        low_u32(room.checked_div(to_u64(entry)).unwrap_or(0))
    }

    /// Looks at the bytes of a whole fork.
    ///
    /// # Errors
    /// Too short, or a count that does not fit or is 0.
    pub fn parse(fork: &'a [u8]) -> Result<Self, ExtentMapRootFault> {
        let Ok((header, body)) = RootHeader::ref_from_prefix(fork) else {
            let (length_bytes, needed_bytes) = (to_u64(fork.len()), to_u64(RootHeader::SIZE_BYTES));
            return Err(HeaderFault::Truncated { length_bytes, needed_bytes }.into());
        };
        let (count, capacity) = (header.record_count.get(), Self::capacity(fork.len()));
        let fault = ExtentMapFault::RootCount { count, capacity };
        if count == 0 || u32::from(count) > capacity {
            return Err(fault.into());
        }
        let pointers_at = to_usize(capacity).saturating_mul(ExtentMapKey::SIZE_BYTES);
        let pointers = body.get(pointers_at..).unwrap_or_default();
        let keys = <[ExtentMapKey]>::ref_from_prefix_with_elems(body, count.into());
        let pointers = <[U64]>::ref_from_prefix_with_elems(pointers, count.into());
        match (keys, pointers) {
            (Ok((keys, _)), Ok((pointers, _))) => Ok(Self { header, keys, pointers }),
            _ => Err(fault.into()),
        }
    }

    /// Verifies the root alone: level, order of keys, pointers within the file system.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(&self, geometry: &Geometry, fork: ForkRoom) -> Result<(), ExtentMapRootFault> {
        let (level, max_levels) = (self.level(), levels::of_extent_map(geometry, fork));
        if level == 0 || u32::from(level) >= max_levels {
            let max_level = max_levels.saturating_sub(1);
            return Err(ExtentMapFault::RootLevel { level, max_level }.into());
        }
        check::verify_keys::<ExtentMap>(self.keys)?;
        for (index, pointer) in (1u32..).zip(self.pointers) {
            if !pointer.is_possible(geometry, None) {
                return Err(BtreeFault::Pointer { index, block: pointer.get() }.into());
            }
        }
        Ok(())
    }

    /// Level of the root, at least 1 once verified.
    pub fn level(&self) -> u16 {
        self.header.level.get()
    }

    /// First file block of each child.
    pub fn keys(&self) -> &'a [ExtentMapKey] {
        self.keys
    }

    /// The children.
    pub fn pointers(&self) -> &'a [U64] {
        self.pointers
    }
}

#[cfg(test)]
#[path = "extent_map_tests.rs"]
mod tests;
