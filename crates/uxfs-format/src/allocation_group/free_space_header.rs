//! AGF: free space header of one allocation group; its second sector.

use thiserror::Error;
use zerocopy::big_endian::{U32, U64};

use super::{Common, GroupExtent, TreeRootFault, parse, sector_of, verify_common, verify_tree};
use crate::{
    btree::{
        free_space::{ByBlock, ByLength},
        reference_count::ReferenceCount,
        reverse_map::ReverseMap,
    },
    checksum::Checksum,
    header_fault::HeaderFault,
    on_disk,
    structure::Structure,
    units::Uuid,
    verify_context::VerifyContext,
};

use super::free_list;

/// "XAGF".
#[doc(alias = "XFS_AGF_MAGIC")]
pub const MAGIC: u32 = 0x5841_4746;
/// The only version.
#[doc(alias = "XFS_AGF_VERSION")]
pub const VERSION: u32 = 1;
/// Where the checksum lies.
pub const CHECKSUM_OFFSET_BYTES: u32 = 216;

on_disk! {
    /// Free space header of a group. The checksum covers the sector.
    #[doc(alias = "xfs_agf")]
    pub struct FreeSpaceHeader {
        /// [`MAGIC`].
        pub magic: U32 => "magicnum" Hexadecimal,
        /// [`VERSION`].
        pub version: U32 => "versionnum" Decimal,
        /// Number of this group.
        pub group: U32 => "seqno" DecimalOrNull,
        /// Blocks in this group.
        pub length_blocks: U32 => "length" DecimalOrNull,
        /// Root of the free space tree by block.
        pub by_block_root: U32 => "bnoroot" DecimalOrNull,
        /// Root of the free space tree by length.
        pub by_length_root: U32 => "cntroot" DecimalOrNull,
        /// Root of the reverse mapping tree.
        pub reverse_map_root: U32 => "rmaproot" DecimalOrNullUnlessZero,
        /// Levels of the free space tree by block, from 1.
        pub by_block_levels: U32 => "bnolevel" Decimal,
        /// Levels of the free space tree by length, from 1.
        pub by_length_levels: U32 => "cntlevel" Decimal,
        /// Levels of the reverse mapping tree, from 1.
        pub reverse_map_levels: U32 => "rmaplevel" Decimal,
        /// First active slot of the free list.
        pub free_list_first: U32 => "flfirst" Decimal,
        /// Last active slot of the free list.
        pub free_list_last: U32 => "fllast" Decimal,
        /// Active slots of the free list.
        pub free_list_count: U32 => "flcount" Decimal,
        /// Free blocks in the trees.
        pub free_blocks: U32 => "freeblks" Decimal,
        /// Blocks in the longest free extent.
        pub longest_blocks: U32 => "longest" Decimal,
        /// Blocks of the two free space trees and the reverse mapping tree, without their roots.
        pub btree_blocks: U32 => "btreeblks" Decimal,
        /// Metadata uuid.
        pub uuid: Uuid => "uuid" Uuid,
        /// Blocks of the reverse mapping tree, root included.
        pub reverse_map_blocks: U32 => "rmapblocks" Decimal,
        /// Blocks of the reference count tree, root included.
        pub reference_count_blocks: U32 => "refcntblocks" Decimal,
        /// Root of the reference count tree.
        pub reference_count_root: U32 => "refcntroot" DecimalOrNullUnlessZero,
        /// Levels of the reference count tree, from 1.
        pub reference_count_levels: U32 => "refcntlevel" Decimal,
        /// Zero.
        pub spare: [u8; 112] => "spare" Padding * 112,
        /// Log sequence number of the last write.
        pub lsn: U64 => "lsn" Hexadecimal,
        /// CRC32C of the sector.
        pub checksum: Checksum => "crc" Checksum,
        /// Zero.
        pub padding: U32 => "spare2" Padding,
    }
}

/// Faults of a free space header. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FreeSpaceHeaderFault {
    /// The header, which has the form of every header.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// Only version 1 exists.
    #[error("version is {version}, not 1")]
    Version {
        /// `versionnum`.
        version: u32,
    },
    /// Not the length that follows from the superblock.
    #[error("length is {length_blocks} blocks, but the group has {expected_blocks}")]
    Length {
        /// `length`.
        length_blocks: u32,
        /// From the superblock.
        expected_blocks: u32,
    },
    /// Where one of the group's btrees begins.
    #[error(transparent)]
    Tree(#[from] TreeRootFault),
    /// Slots that the free list does not have.
    #[error("free list slots {first} to {last} ({count} in use) do not lie within {slots} slots")]
    FreeListSlots {
        /// `flfirst`.
        first: u32,
        /// `fllast`.
        last: u32,
        /// `flcount`.
        count: u32,
        /// Slots in a sector.
        slots: u32,
    },
    /// More free than there is.
    #[error("{free_blocks} free blocks in a group of {length_blocks}")]
    FreeBlocks {
        /// `freeblks`.
        free_blocks: u32,
        /// The group's length.
        length_blocks: u32,
    },
    /// The longest extent is longer than all together.
    #[error("the longest free extent has {longest_blocks} blocks, but only {free_blocks} are free")]
    Longest {
        /// `longest`.
        longest_blocks: u32,
        /// `freeblks`.
        free_blocks: u32,
    },
    /// More btree blocks than the group has.
    #[error("{count} blocks of {} in a group of {length_blocks}", tree.name())]
    TreeBlocks {
        /// Which tree; the free space tree by block stands for all that share the count.
        tree: Structure,
        /// On disk.
        count: u32,
        /// The group's length.
        length_blocks: u32,
    },
}

impl FreeSpaceHeader {
    /// The header at the start of its sector.
    ///
    /// # Errors
    /// Too short.
    pub fn parse(sector: &[u8]) -> Result<&Self, HeaderFault> {
        parse(sector)
    }

    fn verify(&self, place: GroupExtent, context: &VerifyContext<'_>) -> Result<(), FreeSpaceHeaderFault> {
        use FreeSpaceHeaderFault as F;
        let length_blocks = self.length_blocks.get();
        if self.version.get() != VERSION {
            return Err(F::Version { version: self.version.get() });
        }
        if length_blocks != place.length_blocks {
            return Err(F::Length { length_blocks, expected_blocks: place.length_blocks });
        }
        self.verify_free_list(context)?;
        let (free_blocks, longest_blocks) = (self.free_blocks.get(), self.longest_blocks.get());
        if free_blocks > length_blocks {
            return Err(F::FreeBlocks { free_blocks, length_blocks });
        }
        if longest_blocks > free_blocks {
            return Err(F::Longest { longest_blocks, free_blocks });
        }
        self.verify_trees(place, context)
    }

    /// The kernel empties a list whose three numbers disagree, so only slots that do not exist are damage here.
    fn verify_free_list(&self, context: &VerifyContext<'_>) -> Result<(), FreeSpaceHeaderFault> {
        let slots = free_list::slots(context.geometry.sector_size_bytes);
        let (first, last) = (self.free_list_first.get(), self.free_list_last.get());
        let count = self.free_list_count.get();
        if first < slots && last < slots && count <= slots {
            return Ok(());
        }
        Err(FreeSpaceHeaderFault::FreeListSlots { first, last, count, slots })
    }

    fn verify_trees(
        &self,
        place: GroupExtent,
        context: &VerifyContext<'_>,
    ) -> Result<(), FreeSpaceHeaderFault> {
        let verify_blocks = |tree, count: U32| {
            let (count, length_blocks) = (count.get(), place.length_blocks);
            let fault = FreeSpaceHeaderFault::TreeBlocks { tree, count, length_blocks };
            if count <= length_blocks { Ok(()) } else { Err(fault) }
        };
        verify_tree::<ByBlock>(self.by_block_root, self.by_block_levels, place, context)?;
        verify_tree::<ByLength>(self.by_length_root, self.by_length_levels, place, context)?;
        verify_blocks(Structure::FreeSpaceByBlock, self.btree_blocks)?;
        if context.geometry.features.has_reverse_map() {
            verify_tree::<ReverseMap>(self.reverse_map_root, self.reverse_map_levels, place, context)?;
            verify_blocks(Structure::ReverseMap, self.reverse_map_blocks)?;
        }
        if context.geometry.features.has_reflink() {
            let (root, levels) = (self.reference_count_root, self.reference_count_levels);
            verify_tree::<ReferenceCount>(root, levels, place, context)?;
            verify_blocks(Structure::ReferenceCount, self.reference_count_blocks)?;
        }
        Ok(())
    }
}

/// Verifies `bytes` as a free space header.
///
/// # Errors
/// The first check that fails.
pub fn verify(bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), FreeSpaceHeaderFault> {
    let sector = sector_of(bytes, context)?;
    let header = FreeSpaceHeader::parse(sector)?;
    let common = Common {
        magic: header.magic.get(),
        expected_magic: MAGIC,
        checksum_offset_bytes: CHECKSUM_OFFSET_BYTES,
        uuid: header.uuid,
        group: header.group.get(),
    };
    let place = verify_common(sector, &common, context)?;
    header.verify(place, context)
}

#[cfg(test)]
#[path = "free_space_header_tests.rs"]
mod tests;
