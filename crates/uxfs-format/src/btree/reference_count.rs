//! refcountbt: extents of a group that several files share, and those set aside for a copy-on-write.
//!
//! An extent of one owner has no record. Extents set aside have a count of 1 and the top bit of their block number
//! set, which sorts them behind all others.

use thiserror::Error;
use zerocopy::big_endian::U32;

use super::{BtreeKind, bit_field, block_header::ShortBlockHeader, check::RecordFault, levels};
use crate::{
    field_table::{Field, FieldFormat::Decimal, OnDisk},
    geometry::Geometry,
    structure::Structure,
    units::{AgBlock, AgNumber},
};

/// "R3FC".
#[doc(alias = "XFS_REFC_CRC_MAGIC")]
pub const MAGIC: u32 = 0x5233_4643;
/// Set in the start block of CoW staging extents.
#[doc(alias = "XFS_REFC_COWFLAG")]
const COW_FLAG: u32 = 1 << 31;
/// A count that has come here stays: the number of owners is not known any more.
#[doc(alias = "XFS_REFC_REFCOUNT_MAX")]
pub const MAX_REFERENCE_COUNT: u32 = u32::MAX;

/// One extent as it lies on disk.
#[doc(alias = "xfs_refcount_rec")]
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
pub struct ReferenceCountRecord {
    /// Copy-on-write flag and first block.
    pub start: U32,
    /// Blocks.
    pub length_blocks: U32,
    /// Owners.
    pub count: U32,
}

impl OnDisk for ReferenceCountRecord {
    const FIELDS: &'static [Field] = &[
        bit_field("cowflag", 0, 1, Decimal),
        bit_field("startblock", 1, 31, Decimal),
        bit_field("blockcount", 32, 32, Decimal),
        bit_field("refcount", 64, 32, Decimal),
    ];
}

/// Key of a node: first block of the child, with its copy-on-write flag.
#[doc(alias = "xfs_refcount_key")]
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
pub struct ReferenceCountKey {
    /// Copy-on-write flag and first block.
    pub start: U32,
}

impl OnDisk for ReferenceCountKey {
    const FIELDS: &'static [Field] =
        &[bit_field("cowflag", 0, 1, Decimal), bit_field("startblock", 1, 31, Decimal)];
}

/// One extent, unpacked.
#[doc(alias = "xfs_refcount_irec")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SharedExtent {
    /// First block.
    pub start: AgBlock,
    /// Blocks.
    pub length_blocks: u32,
    /// Owners: at least 2, or 1 where it is set aside.
    pub count: u32,
    /// Set aside for a copy-on-write, not shared.
    pub is_cow_staging: bool,
}

/// Faults of a shared extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReferenceCountFault {
    /// No blocks, or not all within the group and behind its headers.
    #[error(
        "{length_blocks} shared blocks from block {start} do not lie within the usable blocks of the group"
    )]
    Place {
        /// First block.
        start: AgBlock,
        /// Blocks.
        length_blocks: u32,
    },
    /// Shared extents have at least two owners; those set aside have one.
    #[error("extent at block {start} has {count} owners (copy-on-write: {is_cow_staging})")]
    Count {
        /// First block.
        start: AgBlock,
        /// Owners.
        count: u32,
        /// Set aside for a copy-on-write.
        is_cow_staging: bool,
    },
    /// Blocks that are to be set aside although some of them are.
    #[error("{length_blocks} blocks from block {start} are set aside for copy-on-write twice")]
    AlreadyStaged {
        /// First block.
        start: AgBlock,
        /// Blocks.
        length_blocks: u32,
    },
    /// Blocks whose copy-on-write ends although they were not set aside.
    #[error("{length_blocks} blocks from block {start} were not set aside for copy-on-write")]
    NotStaged {
        /// First block.
        start: AgBlock,
        /// Blocks.
        length_blocks: u32,
    },
}

impl ReferenceCountRecord {
    /// Unpacks the record.
    #[inline]
    pub fn get(&self) -> SharedExtent {
        let start = self.start.get();
        SharedExtent {
            start: AgBlock::new(start & !COW_FLAG),
            length_blocks: self.length_blocks.get(),
            count: self.count.get(),
            is_cow_staging: start & COW_FLAG != 0,
        }
    }
}

impl From<SharedExtent> for ReferenceCountRecord {
    fn from(extent: SharedExtent) -> Self {
        let flag = if extent.is_cow_staging { COW_FLAG } else { 0 };
        Self {
            start: U32::new(extent.start.get() | flag),
            length_blocks: U32::new(extent.length_blocks),
            count: U32::new(extent.count),
        }
    }
}

/// Where an extent stands in the tree: those set aside behind all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReferenceCountPosition {
    /// Set aside for a copy-on-write.
    pub is_cow_staging: bool,
    /// First block.
    pub start: AgBlock,
}

impl ReferenceCountPosition {
    fn new(start: U32) -> Self {
        let start = start.get();
        Self { is_cow_staging: start & COW_FLAG != 0, start: AgBlock::new(start & !COW_FLAG) }
    }
}

/// The tree of shared extents.
#[doc(alias = "xfs_refcountbt")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReferenceCount;

impl BtreeKind for ReferenceCount {
    type Header = ShortBlockHeader;
    type Record = ReferenceCountRecord;
    type Key = ReferenceCountKey;
    type Position = ReferenceCountPosition;

    const MAGIC: u32 = MAGIC;
    const STRUCTURE: Structure = Structure::ReferenceCount;

    #[inline]
    fn position_of_record(record: &ReferenceCountRecord) -> ReferenceCountPosition {
        ReferenceCountPosition::new(record.start)
    }

    #[inline]
    fn position_of_key(key: &ReferenceCountKey) -> ReferenceCountPosition {
        ReferenceCountPosition::new(key.start)
    }

    #[inline]
    fn key_of_record(record: &ReferenceCountRecord) -> ReferenceCountKey {
        ReferenceCountKey { start: record.start }
    }

    #[inline]
    fn may_follow(previous: &ReferenceCountRecord, next: &ReferenceCountRecord) -> bool {
        // With the flag as the top bit, so that the two sorts never overlap.
        let end = u64::from(previous.start.get()).saturating_add(previous.length_blocks.get().into());
        end <= next.start.get().into()
    }

    fn verify_record(
        record: &ReferenceCountRecord,
        geometry: &Geometry,
        group: Option<AgNumber>,
    ) -> Result<(), RecordFault> {
        let SharedExtent { start, length_blocks, count, is_cow_staging } = record.get();
        if !super::is_group_extent(geometry, group, start, length_blocks) {
            return Err(ReferenceCountFault::Place { start, length_blocks }.into());
        }
        let is_possible = if is_cow_staging { count == 1 } else { count >= 2 };
        if !is_possible {
            return Err(ReferenceCountFault::Count { start, count, is_cow_staging }.into());
        }
        Ok(())
    }

    fn max_levels(geometry: &Geometry) -> u32 {
        levels::for_records::<Self>(geometry, geometry.ag_blocks.into())
    }
}

#[cfg(test)]
#[path = "reference_count_tests.rs"]
mod tests;
