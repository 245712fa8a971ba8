//! AGI: inode header of one allocation group; its third sector.

use thiserror::Error;
use zerocopy::big_endian::{U32, U64};

use super::{
    Common, GroupExtent, TreeRootFault, is_body_block, parse, sector_of, verify_common, verify_tree,
};
use crate::{
    btree::inode_index::{FreeInodeIndex, InodeIndex},
    checksum::Checksum,
    convert::{low_u32, to_u64},
    features::RoCompatible,
    header_fault::HeaderFault,
    on_disk,
    structure::Structure,
    units::{AgBlock, AgInode, Uuid},
    verify_context::VerifyContext,
};

/// "XAGI".
#[doc(alias = "XFS_AGI_MAGIC")]
pub const MAGIC: u32 = 0x5841_4749;
/// The only version.
#[doc(alias = "XFS_AGI_VERSION")]
pub const VERSION: u32 = 1;
/// Where the checksum lies.
pub const CHECKSUM_OFFSET_BYTES: u32 = 312;
/// Lists of unlinked inodes: an inode is in the one of its number in the group modulo this.
#[doc(alias = "XFS_AGI_UNLINKED_BUCKETS")]
pub const UNLINKED_BUCKETS: u32 = 64;

on_disk! {
    /// Inode header of a group. The checksum covers the sector.
    #[doc(alias = "xfs_agi")]
    pub struct InodeHeader {
        /// [`MAGIC`].
        pub magic: U32 => "magicnum" Hexadecimal,
        /// [`VERSION`].
        pub version: U32 => "versionnum" Decimal,
        /// Number of this group.
        pub group: U32 => "seqno" DecimalOrNull,
        /// Blocks in this group.
        pub length_blocks: U32 => "length" DecimalOrNull,
        /// Allocated inodes.
        pub count: U32 => "count" DecimalOrNull,
        /// Root of the inode tree.
        pub root: U32 => "root" DecimalOrNull,
        /// Levels of the inode tree, from 1.
        pub levels: U32 => "level" Decimal,
        /// Allocated inodes that are free.
        pub free_count: U32 => "freecount" DecimalOrNull,
        /// Chunk that was allocated last.
        pub newest_inode: U32 => "newino" DecimalOrNull,
        /// Not used.
        pub directory_inode: U32 => "dirino" DecimalOrNull,
        /// Heads of the lists of unlinked inodes that are still open.
        pub unlinked: [U32; 64] => "unlinked" DecimalUnlessNull * 64,
        /// Metadata uuid.
        pub uuid: Uuid => "uuid" Uuid,
        /// CRC32C of the sector.
        pub checksum: Checksum => "crc" Checksum,
        /// Zero.
        pub padding: U32 => "pad" Padding,
        /// Log sequence number of the last write.
        pub lsn: U64 => "lsn" Hexadecimal,
        /// Root of the free inode tree.
        pub free_root: U32 => "free_root" DecimalOrNull,
        /// Levels of the free inode tree, from 1.
        pub free_levels: U32 => "free_level" Decimal,
        /// Blocks of the inode tree, root included.
        pub blocks: U32 => "ino_blocks" Decimal,
        /// Blocks of the free inode tree, root included.
        pub free_blocks: U32 => "fino_blocks" Decimal,
    }
}

/// Faults of an inode header. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InodeHeaderFault {
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
    /// More inodes than the group has room for.
    #[error("{count} inodes in a group that can hold {capacity}")]
    Count {
        /// `count`.
        count: u32,
        /// Inodes that fit in the group.
        capacity: u64,
    },
    /// More free than allocated.
    #[error("{free_count} inodes are free of only {count}")]
    FreeCount {
        /// `freecount`.
        free_count: u32,
        /// `count`.
        count: u32,
    },
    /// More btree blocks than the group has.
    #[error("{count} blocks of {} in a group of {length_blocks}", tree.name())]
    TreeBlocks {
        /// Which tree.
        tree: Structure,
        /// On disk.
        count: u32,
        /// The group's length.
        length_blocks: u32,
    },
    /// An unlinked list begins with an inode that cannot be, or belongs into another list.
    #[error("unlinked list {bucket} begins with inode {inode} of the group, which cannot be in it")]
    Unlinked {
        /// Which of the 64.
        bucket: u32,
        /// On disk.
        inode: AgInode,
    },
    /// An unlinked list leads to an inode that is free, that has names, or that belongs into another list; or it has no end.
    #[error("unlinked list {bucket} leads to inode {inode} of the group, which does not belong there")]
    NotUnlinked {
        /// Which of the 64.
        bucket: u32,
        /// Where it leads.
        inode: AgInode,
    },
}

impl InodeHeader {
    /// The header at the start of its sector.
    ///
    /// # Errors
    /// Too short.
    pub fn parse(sector: &[u8]) -> Result<&Self, HeaderFault> {
        parse(sector)
    }

    fn verify(&self, place: GroupExtent, context: &VerifyContext<'_>) -> Result<(), InodeHeaderFault> {
        use InodeHeaderFault as F;
        let length_blocks = self.length_blocks.get();
        if self.version.get() != VERSION {
            return Err(F::Version { version: self.version.get() });
        }
        if length_blocks != place.length_blocks {
            return Err(F::Length { length_blocks, expected_blocks: place.length_blocks });
        }
        self.verify_trees(place, context)?;
        let (count, free_count) = (self.count.get(), self.free_count.get());
        let capacity = u64::from(length_blocks).wrapping_shl(context.geometry.inodes_per_block_log);
        if u64::from(count) > capacity {
            return Err(F::Count { count, capacity });
        }
        if free_count > count {
            return Err(F::FreeCount { free_count, count });
        }
        self.verify_unlinked(place, context)
    }

    fn verify_trees(&self, place: GroupExtent, context: &VerifyContext<'_>) -> Result<(), InodeHeaderFault> {
        let features = context.geometry.features;
        let is_counted = features.ro_compatible.contains(RoCompatible::INODE_BTREE_COUNTS);
        let verify_blocks = |tree, count: U32| {
            let (count, length_blocks) = (count.get(), place.length_blocks);
            let fault = InodeHeaderFault::TreeBlocks { tree, count, length_blocks };
            if !is_counted || count <= length_blocks { Ok(()) } else { Err(fault) }
        };
        verify_tree::<InodeIndex>(self.root, self.levels, place, context)?;
        verify_blocks(Structure::InodeIndex, self.blocks)?;
        if features.has_free_inode_btree() {
            verify_tree::<FreeInodeIndex>(self.free_root, self.free_levels, place, context)?;
            verify_blocks(Structure::FreeInodeIndex, self.free_blocks)?;
        }
        Ok(())
    }

    /// Whether any list of unlinked inodes has one.
    pub fn has_unlinked(&self) -> bool {
        self.unlinked.iter().any(|head| head.get() != AgInode::NULL.get())
    }

    fn verify_unlinked(
        &self,
        place: GroupExtent,
        context: &VerifyContext<'_>,
    ) -> Result<(), InodeHeaderFault> {
        for (bucket, head) in self.unlinked.iter().enumerate() {
            let (bucket, inode) = (low_u32(to_u64(bucket)), AgInode::new(head.get()));
            if inode.is_null() {
                continue;
            }
            let block = inode.get().wrapping_shr(context.geometry.inodes_per_block_log);
            let in_bucket = inode.get() & UNLINKED_BUCKETS.wrapping_sub(1) == bucket;
            if !in_bucket || !is_body_block(context, place, AgBlock::new(block)) {
                return Err(InodeHeaderFault::Unlinked { bucket, inode });
            }
        }
        Ok(())
    }
}

/// Verifies `bytes` as an inode header.
///
/// # Errors
/// The first check that fails.
pub fn verify(bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), InodeHeaderFault> {
    let sector = sector_of(bytes, context)?;
    let header = InodeHeader::parse(sector)?;
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
#[path = "inode_header_tests.rs"]
mod tests;
