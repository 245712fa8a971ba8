//! How full a file system is, as Linux tells it.

use uxfs_format::{directory::MAX_NAME_BYTES, geometry::Geometry};

use crate::engine::Engine;

/// Of the blocks, one in so many is kept for operations that must not fail, …
#[doc(alias = "xfs_default_resblks")]
const KEPT_SHARE: u64 = 20;
/// … but no more than so many.
const MOST_KEPT_BLOCKS: u64 = 8192;

/// The results of `statfs`.
#[doc(alias = "statvfs")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statistics {
    /// Size of a block.
    pub block_size_bytes: u32,
    /// Blocks without the log.
    pub blocks: u64,
    /// Blocks that files may take.
    pub free_blocks: u64,
    /// Inodes that there are or may come to be.
    pub files: u64,
    /// Those of them that are not in use.
    pub free_files: u64,
    /// Longest name.
    pub most_name_bytes: u32,
}

impl Statistics {
    /// Free space excludes the blocks that groups keep for their trees, and the `kept_blocks` of operations that give
    /// space back. `freed_blocks`, which wait for their checkpoint, count as free: an operation that needs them waits for it, too.
    pub(super) fn of(engine: &Engine, kept_blocks: u64, freed_blocks: u64) -> Self {
        let geometry = engine.geometry();
        let available = engine.available_blocks().saturating_add_unsigned(freed_blocks);
        let free = available.saturating_sub_unsigned(kept_blocks).max(0);
        let free_blocks = free.cast_unsigned();
        let (count, free_inodes) = (engine.inode_count(), engine.free_inode_count());
        let possible = count.saturating_add(free_blocks << geometry.inodes_per_block_log);
        let files = possible.min(engine.most_inodes().unwrap_or(u64::MAX)).max(count);
        Self {
            block_size_bytes: geometry.block_size_bytes,
            blocks: counted_blocks(geometry),
            free_blocks,
            files,
            free_files: files.saturating_sub(count.saturating_sub(free_inodes)),
            most_name_bytes: MAX_NAME_BYTES as u32,
        }
    }
}

impl Engine {
    /// Blocks that are kept from files, for operations that must not fail because there is no space: those that give
    /// space back, and those that finish what was begun.
    pub fn kept_blocks(&self) -> u64 {
        kept_blocks(self.geometry())
    }

    /// Most inodes that there may be: the superblock has a limit in per cent of the space. `None` without one.
    pub fn most_inodes(&self) -> Option<u64> {
        most_inodes(self.geometry(), self.superblock().inode_max_percent)
    }
}

/// Blocks that a file system of this geometry keeps from files once it is mounted.
pub fn kept_blocks(geometry: &Geometry) -> u64 {
    (geometry.data_blocks / KEPT_SHARE).min(MOST_KEPT_BLOCKS)
}

/// Blocks of a file system of this geometry as `statfs` counts them: without the log.
pub fn counted_blocks(geometry: &Geometry) -> u64 {
    let log_blocks = if geometry.log_start.is_some() { u64::from(geometry.log_blocks) } else { 0 };
    geometry.data_blocks.saturating_sub(log_blocks)
}

/// Most inodes in a file system of this geometry, of which inodes may take so many per cent: a share of the blocks, in whole chunks.
/// `None` without a limit.
#[doc(alias = "maxicount")]
pub fn most_inodes(geometry: &Geometry, percent: u8) -> Option<u64> {
    let chunk_blocks = u64::from(geometry.blocks_per_inode_chunk());
    let blocks = u128::from(geometry.data_blocks) * u128::from(percent) / 100;
    let chunks = u64::try_from(blocks).unwrap_or(u64::MAX) / chunk_blocks;
    (percent != 0).then(|| (chunks * chunk_blocks) << geometry.inodes_per_block_log)
}
