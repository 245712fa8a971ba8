//! An extent of a target: the whole of it has one header.

use uxfs_format::{btree::extent_map::Extent, geometry::Geometry};

use crate::repair::stage::Stage;

/// Blocks of an extent of a target, at most: targets are short.
const MOST_BLOCKS: u64 = 4;

/// Bytes of an extent of so many blocks, as far as a target may reach.
pub(crate) fn length_bytes(length_blocks: u64, geometry: &Geometry) -> Option<usize> {
    usize::try_from(length_blocks.min(MOST_BLOCKS)).ok()?.checked_mul(geometry.block_size())
}

/// The bytes of an extent, as far as a target may reach. `None` where they cannot be read.
pub(crate) fn read(extent: &Extent, stage: &Stage) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length_bytes(extent.length_blocks, stage.geometry())?];
    stage.read_at(stage.geometry().sector_of_block(extent.start)?, &mut bytes).ok()?;
    Some(bytes)
}
