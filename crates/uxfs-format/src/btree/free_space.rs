//! bnobt and cntbt: the free extents of a group, once ordered by block and once by length.

use thiserror::Error;
use zerocopy::big_endian::U32;

use super::{BtreeKind, block_header::ShortBlockHeader, check::RecordFault, levels};
use crate::{
    geometry::Geometry,
    on_disk,
    structure::Structure,
    units::{AgBlock, AgNumber},
};

/// "AB3B", by block.
#[doc(alias = "XFS_ABTB_CRC_MAGIC")]
pub const BY_BLOCK_MAGIC: u32 = 0x4142_3342;
/// "AB3C", by length.
#[doc(alias = "XFS_ABTC_CRC_MAGIC")]
pub const BY_LENGTH_MAGIC: u32 = 0x4142_3343;

on_disk! {
    /// One free extent: record and key of both trees.
    #[doc(alias = "xfs_alloc_rec")]
    #[doc(alias = "xfs_alloc_key")]
    pub struct FreeSpaceRecord {
        /// First block.
        pub start: U32 => "startblock" Decimal,
        /// Blocks.
        pub length_blocks: U32 => "blockcount" Decimal,
    }
}

/// One free extent of a group, unpacked.
#[doc(alias = "xfs_alloc_rec_incore")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FreeExtent {
    /// First block.
    pub start: AgBlock,
    /// Blocks.
    pub length_blocks: u32,
}

/// Faults of a free extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FreeSpaceFault {
    /// No blocks, or not all within the group and behind its headers.
    #[error(
        "{length_blocks} free blocks from block {start} do not lie within the usable blocks of the group"
    )]
    Place {
        /// First block.
        start: AgBlock,
        /// Blocks.
        length_blocks: u32,
    },
}

impl FreeSpaceRecord {
    /// Unpacks the record.
    #[inline]
    pub fn get(&self) -> FreeExtent {
        FreeExtent { start: AgBlock::new(self.start.get()), length_blocks: self.length_blocks.get() }
    }
}

impl From<FreeExtent> for FreeSpaceRecord {
    fn from(extent: FreeExtent) -> Self {
        Self { start: U32::new(extent.start.get()), length_blocks: U32::new(extent.length_blocks) }
    }
}

impl FreeExtent {
    /// First block behind the extent.
    #[inline]
    pub fn end(&self) -> AgBlock {
        AgBlock::new(self.start.get().saturating_add(self.length_blocks))
    }

    fn verify(&self, geometry: &Geometry, group: Option<AgNumber>) -> Result<(), RecordFault> {
        if super::is_group_extent(geometry, group, self.start, self.length_blocks) {
            return Ok(());
        }
        Err(FreeSpaceFault::Place { start: self.start, length_blocks: self.length_blocks }.into())
    }
}

fn max_levels<K: BtreeKind>(geometry: &Geometry) -> u32 {
    // Free extents do not touch each other, so there are at most half as many as blocks.
    levels::for_records::<K>(geometry, u64::from(geometry.ag_blocks).div_ceil(2))
}

/// The tree of free extents ordered by block.
#[doc(alias = "xfs_bnobt")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByBlock;

impl BtreeKind for ByBlock {
    type Header = ShortBlockHeader;
    type Record = FreeSpaceRecord;
    type Key = FreeSpaceRecord;
    type Position = AgBlock;

    const MAGIC: u32 = BY_BLOCK_MAGIC;
    const STRUCTURE: Structure = Structure::FreeSpaceByBlock;

    #[inline]
    fn position_of_record(record: &FreeSpaceRecord) -> AgBlock {
        record.get().start
    }

    #[inline]
    fn position_of_key(key: &FreeSpaceRecord) -> AgBlock {
        key.get().start
    }

    #[inline]
    fn key_of_record(record: &FreeSpaceRecord) -> FreeSpaceRecord {
        *record
    }

    #[inline]
    fn may_follow(previous: &FreeSpaceRecord, next: &FreeSpaceRecord) -> bool {
        previous.get().end() <= next.get().start
    }

    fn verify_record(
        record: &FreeSpaceRecord,
        geometry: &Geometry,
        group: Option<AgNumber>,
    ) -> Result<(), RecordFault> {
        record.get().verify(geometry, group)
    }

    fn max_levels(geometry: &Geometry) -> u32 {
        max_levels::<Self>(geometry)
    }
}

/// The tree of free extents ordered by length, equal lengths by block.
#[doc(alias = "xfs_cntbt")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByLength;

impl BtreeKind for ByLength {
    type Header = ShortBlockHeader;
    type Record = FreeSpaceRecord;
    type Key = FreeSpaceRecord;
    /// Length, then block.
    type Position = (u32, AgBlock);

    const MAGIC: u32 = BY_LENGTH_MAGIC;
    const STRUCTURE: Structure = Structure::FreeSpaceByLength;

    #[inline]
    fn position_of_record(record: &FreeSpaceRecord) -> (u32, AgBlock) {
        let extent = record.get();
        (extent.length_blocks, extent.start)
    }

    #[inline]
    fn position_of_key(key: &FreeSpaceRecord) -> (u32, AgBlock) {
        Self::position_of_record(key)
    }

    #[inline]
    fn key_of_record(record: &FreeSpaceRecord) -> FreeSpaceRecord {
        *record
    }

    #[inline]
    fn may_follow(previous: &FreeSpaceRecord, next: &FreeSpaceRecord) -> bool {
        Self::position_of_record(previous) < Self::position_of_record(next)
    }

    fn verify_record(
        record: &FreeSpaceRecord,
        geometry: &Geometry,
        group: Option<AgNumber>,
    ) -> Result<(), RecordFault> {
        record.get().verify(geometry, group)
    }

    fn max_levels(geometry: &Geometry) -> u32 {
        max_levels::<Self>(geometry)
    }
}

#[cfg(test)]
#[path = "free_space_tests.rs"]
mod tests;
