//! inobt and finobt: the inode chunks of a group; the second holds only those with a free inode.
//!
//! A chunk is 64 inodes. With sparse chunks, each bit of the hole mask that is set says that four of them do not
//! exist; the free mask has their bits set too, but the counts leave them out.

mod chunk;

use thiserror::Error;
use zerocopy::big_endian::{U16, U32, U64};

use super::{BtreeKind, block_header::ShortBlockHeader, check::RecordFault, levels};
use crate::{
    geometry::{Geometry, INODES_PER_CHUNK},
    on_disk,
    structure::Structure,
    units::{AgBlock, AgInode, AgNumber},
};

/// "IAB3", all chunks.
#[doc(alias = "XFS_IBT_CRC_MAGIC")]
pub const MAGIC: u32 = 0x4941_4233;
/// "FIB3", chunks with a free inode.
#[doc(alias = "XFS_FIBT_CRC_MAGIC")]
pub const FREE_MAGIC: u32 = 0x4649_4233;
/// Inodes that one bit of the hole mask stands for.
#[doc(alias = "XFS_INODES_PER_HOLEMASK_BIT")]
pub const INODES_PER_HOLE_BIT: u32 = 4;

on_disk! {
    /// One inode chunk where the file system has sparse chunks.
    #[doc(alias = "xfs_inobt_rec")]
    pub struct InodeIndexRecord {
        /// First inode.
        pub start: U32 => "startino" Decimal,
        /// One bit for each four inodes that do not exist, lowest first.
        pub hole_mask: U16 => "holemask" Hexadecimal,
        /// Inodes that exist.
        pub count: u8 => "count" Decimal,
        /// Inodes that exist and are free.
        pub free_count: u8 => "freecount" Decimal,
        /// One bit for each inode that is free or does not exist, lowest first.
        pub free: U64 => "free" Hexadecimal,
    }

    /// One inode chunk where the file system has no sparse chunks: all 64 inodes exist.
    #[doc(alias = "xfs_inobt_rec")]
    pub struct FullInodeIndexRecord {
        /// First inode.
        pub start: U32 => "startino" Decimal,
        /// Inodes that are free.
        pub free_count: U32 => "freecount" Decimal,
        /// One bit for each inode that is free, lowest first.
        pub free: U64 => "free" Hexadecimal,
    }

    /// Key of a node: first inode of the child.
    #[doc(alias = "xfs_inobt_key")]
    pub struct InodeIndexKey {
        /// First inode.
        pub start: U32 => "startino" Decimal,
    }
}

/// One inode chunk, unpacked from either form.
#[doc(alias = "xfs_inobt_rec_incore")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InodeChunk {
    /// First inode.
    pub start: AgInode,
    /// One bit for each four inodes that do not exist.
    pub hole_mask: u16,
    /// Inodes that exist.
    pub count: u32,
    /// Inodes that exist and are free.
    pub free_count: u32,
    /// One bit for each inode that is free or does not exist.
    pub free: u64,
}

/// Faults of an inode chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InodeIndexFault {
    /// The blocks of a chunk are not its own.
    #[error(
        "{length_blocks} blocks of a chunk of inodes from block {start} of the group are free, or files share them"
    )]
    NotInodes {
        /// First block.
        start: AgBlock,
        /// Blocks.
        length_blocks: u32,
    },
    /// Not aligned as all chunks of the file system are.
    #[error("chunk of inodes from {start} of the group is not aligned")]
    Alignment {
        /// First inode.
        start: AgInode,
    },
    /// Outside the group, or among its headers.
    #[error("inodes {start} to {last} of the group do not lie within its usable blocks")]
    Place {
        /// First inode.
        start: AgInode,
        /// Last inode that exists.
        last: AgInode,
    },
    /// The count is not what the hole mask leaves.
    #[error("{count} inodes, where the hole mask {hole_mask:#06x} leaves another number")]
    Count {
        /// On disk.
        count: u32,
        /// On disk.
        hole_mask: u16,
    },
    /// The free count is not what the masks give.
    #[error("{free_count} free inodes, where the free mask {free:#x} says {masked}")]
    FreeCount {
        /// On disk.
        free_count: u32,
        /// On disk.
        free: u64,
        /// Bits of the free mask that are set and outside holes.
        masked: u32,
    },
    /// Inodes that do not exist are in use.
    #[error(
        "chunk of inodes from {start} of the group: the free mask {free:#x} lacks inodes of the hole mask {hole_mask:#06x}"
    )]
    HolesInUse {
        /// First inode.
        start: AgInode,
        /// On disk.
        free: u64,
        /// On disk.
        hole_mask: u16,
    },
    /// A chunk without a free inode in the tree of those that have one.
    #[error("chunk of inodes from {start} of the group has no free inode")]
    NoneFree {
        /// First inode.
        start: AgInode,
    },
    /// The group's header counts free inodes that no chunk has.
    #[error("the group counts {free_count} free inodes, but no chunk has one")]
    NoneFreeInGroup {
        /// As the header says.
        free_count: u32,
    },
    /// Free space was found in the place of a chunk.
    #[error("inodes of the chunk from {start} of the group lie in blocks that were free")]
    Overlap {
        /// First inode.
        start: AgInode,
    },
}

impl InodeIndexRecord {
    /// Unpacks the record, which has two forms.
    #[inline]
    pub fn get(&self, geometry: &Geometry) -> InodeChunk {
        self.unpack(geometry.features.has_sparse_inodes())
    }

    /// Unpacks the record in the form with or without holes.
    #[inline]
    pub fn unpack(&self, is_sparse: bool) -> InodeChunk {
        let (start, free) = (AgInode::new(self.start.get()), self.free.get());
        let (hole_mask, count, free_count) = (self.hole_mask.get(), self.count, self.free_count);
        if is_sparse {
            return InodeChunk { start, hole_mask, count: count.into(), free_count: free_count.into(), free };
        }
        // The same four bytes are one number.
        let [a, b] = hole_mask.to_be_bytes();
        let free_count = u32::from_be_bytes([a, b, count, free_count]);
        InodeChunk { start, hole_mask: 0, count: INODES_PER_CHUNK, free_count, free }
    }
}

impl InodeChunk {
    /// One bit for each inode that exists, lowest first.
    #[inline]
    pub fn existing(&self) -> u64 {
        let mut holes = 0u64;
        for bit in 0..16u32 {
            if self.hole_mask.wrapping_shr(bit) & 1 == 1 {
                holes |= 0xfu64.wrapping_shl(bit.wrapping_mul(INODES_PER_HOLE_BIT));
            }
        }
        !holes
    }

    /// One bit for each inode that exists and is in use.
    #[inline]
    pub fn allocated(&self) -> u64 {
        self.existing() & !self.free
    }

    /// The number in the group of the inode that `index` (below 64) stands for.
    #[inline]
    pub fn inode(&self, index: u32) -> AgInode {
        AgInode::new(self.start.get().saturating_add(index))
    }

    /// Which of the 64 inodes `inode` is, if it is one of them.
    #[inline]
    pub fn index_of(&self, inode: AgInode) -> Option<u32> {
        inode.checked_distance_from(self.start).filter(|index| *index < INODES_PER_CHUNK)
    }

    /// Whether the inode exists on disk, in use or free.
    #[inline]
    pub fn exists(&self, index: u32) -> bool {
        is_set(self.existing(), index)
    }

    /// Whether the inode exists and is in use.
    #[inline]
    pub fn is_allocated(&self, index: u32) -> bool {
        is_set(self.allocated(), index)
    }

    /// The inodes in use, ascending.
    pub fn allocated_inodes(&self) -> impl Iterator<Item = AgInode> + use<> {
        let (chunk, mask) = (*self, self.allocated());
        (0..INODES_PER_CHUNK).filter(move |index| is_set(mask, *index)).map(move |index| chunk.inode(index))
    }

    fn verify(&self, geometry: &Geometry, group: Option<AgNumber>) -> Result<(), InodeIndexFault> {
        use InodeIndexFault as F;
        self.verify_place(geometry, group)?;
        let existing = self.existing();
        if self.count == 0 || self.count != existing.count_ones() {
            return Err(F::Count { count: self.count, hole_mask: self.hole_mask });
        }
        let masked = (self.free & existing).count_ones();
        if self.free_count != masked {
            return Err(F::FreeCount { free_count: self.free_count, free: self.free, masked });
        }
        Ok(())
    }

    /// Chunks begin where the superblock's alignment says, unless it is less than a cluster: the kernel ignores such a
    /// one when it allocates. Only inodes that exist must lie within the group: kernels
    /// before 6.13 let the holes of a sparse chunk reach over the end of a short last group.
    fn verify_place(&self, geometry: &Geometry, group: Option<AgNumber>) -> Result<(), InodeIndexFault> {
        let start = self.start;
        let block = |inode: AgInode| AgBlock::new(inode.get().wrapping_shr(geometry.inodes_per_block_log));
        let unit = INODES_PER_CHUNK.min(geometry.inodes_per_block());
        let alignment = geometry.inode_alignment_blocks;
        let alignment = if alignment >= geometry.inode_cluster_blocks() { alignment } else { 1 };
        let is_aligned =
            start.get().checked_rem(unit) == Some(0) && block(start).get().checked_rem(alignment) == Some(0);
        if !is_aligned {
            return Err(InodeIndexFault::Alignment { start });
        }
        let last_index = 63u32.saturating_sub(self.existing().leading_zeros());
        let first = self.inode(self.existing().trailing_zeros().min(63));
        let last = self.inode(last_index);
        let blocks = block(last).get().saturating_sub(block(first).get()).saturating_add(1);
        if !super::is_group_extent(geometry, group, block(first), blocks) {
            return Err(InodeIndexFault::Place { start, last });
        }
        Ok(())
    }
}

fn is_set(mask: u64, index: u32) -> bool {
    index < INODES_PER_CHUNK && mask.wrapping_shr(index) & 1 == 1
}

fn max_levels<K: BtreeKind>(geometry: &Geometry) -> u32 {
    let inodes = 1u64.wrapping_shl(geometry.inodes_per_block_log.wrapping_add(geometry.ag_block_log));
    // One record for each 64 inodes.
    levels::for_records::<K>(geometry, inodes >> 6)
}

fn may_follow(previous: &InodeIndexRecord, next: &InodeIndexRecord) -> bool {
    previous.start.get().checked_add(INODES_PER_CHUNK).is_some_and(|end| end <= next.start.get())
}

macro_rules! inode_index {
    ($(#[$meta:meta])* $name:ident, $magic:expr, $structure:ident, $needs_free:literal) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name;

        impl BtreeKind for $name {
            type Header = ShortBlockHeader;
            type Record = InodeIndexRecord;
            type Key = InodeIndexKey;
            type Position = AgInode;

            const MAGIC: u32 = $magic;
            const STRUCTURE: Structure = Structure::$structure;

            #[inline]
            fn position_of_record(record: &InodeIndexRecord) -> AgInode {
                AgInode::new(record.start.get())
            }

            #[inline]
            fn position_of_key(key: &InodeIndexKey) -> AgInode {
                AgInode::new(key.start.get())
            }

            #[inline]
            fn key_of_record(record: &InodeIndexRecord) -> InodeIndexKey {
                InodeIndexKey { start: record.start }
            }

            #[inline]
            fn may_follow(previous: &InodeIndexRecord, next: &InodeIndexRecord) -> bool {
                may_follow(previous, next)
            }

            fn verify_record(
                record: &InodeIndexRecord,
                geometry: &Geometry,
                group: Option<AgNumber>,
            ) -> Result<(), RecordFault> {
                let chunk = record.get(geometry);
                chunk.verify(geometry, group)?;
                if $needs_free && chunk.free_count == 0 {
                    return Err(InodeIndexFault::NoneFree { start: chunk.start }.into());
                }
                Ok(())
            }

            fn max_levels(geometry: &Geometry) -> u32 {
                max_levels::<Self>(geometry)
            }
        }
    };
}

inode_index! {
    /// The tree of all inode chunks of a group.
    #[doc(alias = "xfs_inobt")]
    InodeIndex, MAGIC, InodeIndex, false
}
inode_index! {
    /// The tree of the inode chunks that have a free inode.
    #[doc(alias = "xfs_finobt")]
    FreeInodeIndex, FREE_MAGIC, FreeInodeIndex, true
}

#[cfg(test)]
#[path = "mod_tests.rs"]
mod tests;
