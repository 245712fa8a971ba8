//! Taking blocks away from a fork.

use std::ops::Range;

use uxfs_format::{btree::extent_map::Extent, inode::Fork, units::FileBlock};

use super::{list, splice::refuse_realtime};
use crate::extent_map::editor::ExtentMapEditor;
use crate::inode::edit::EditInode;
use uxfs_volume::error::Result;

/// Extents that are taken away before the work that follows from it is done: bounds the list of deferred work.
const STEP_EXTENTS: usize = 1024;

impl ExtentMapEditor<'_, '_> {
    /// Unmaps the blocks of a range; they become free, unless other files share them. Gives how many blocks there
    /// were. The inode's count of blocks follows; its size does not.
    ///
    /// # Errors
    /// More extents than the inode can count, where one is split; damage; the device.
    #[doc(alias = "xfs_bunmapi")]
    pub fn unmap_blocks(
        &mut self,
        inode: &mut EditInode,
        fork: Fork,
        file_block: FileBlock,
        length_blocks: u64,
    ) -> Result<u64> {
        let end = FileBlock::new(file_block.get().saturating_add(length_blocks));
        let mut unmapped = 0;
        loop {
            // From the end: that is where lists and trees are shortened at least cost.
            let range = list::overlapping(inode.extents(fork), file_block, end);
            if range.is_empty() {
                return Ok(unmapped);
            }
            let first = range.end.saturating_sub(STEP_EXTENTS).max(range.start);
            let start = inode.extents(fork).get(first).map_or(file_block, |extent| extent.file_block);
            unmapped += self.unmap_step(inode, fork, start.max(file_block), end)?;
            if first > range.start {
                self.transaction.finish_deferred()?;
            }
        }
    }

    /// Takes the blocks of at most so many extents of a regular file away, from the end of a range, and gives whether
    /// that was all: a step of an operation that may have millions to take.
    ///
    /// # Errors
    /// As [`unmap_blocks`](Self::unmap_blocks).
    pub fn unmap_last(
        &mut self,
        inode: &mut EditInode,
        range: Range<FileBlock>,
        most_extents: usize,
    ) -> Result<bool> {
        let extents = inode.extents(Fork::Data);
        let found = list::overlapping(extents, range.start, range.end);
        if found.is_empty() {
            return Ok(true);
        }
        let first = found.end.saturating_sub(most_extents).max(found.start);
        let start = extents.get(first).map_or(range.start, |extent| extent.file_block);
        self.unmap_step(inode, Fork::Data, start.max(range.start), range.end)?;
        Ok(first == found.start)
    }

    fn unmap_step(
        &mut self,
        inode: &mut EditInode,
        fork: Fork,
        start: FileBlock,
        end: FileBlock,
    ) -> Result<u64> {
        refuse_realtime(inode, fork)?;
        let splice = list::removal(inode.extents(fork), start, end);
        let mut unmapped = 0;
        for extent in splice.removed(inode.extents(fork)) {
            if let Some(part) = list::part_of(&extent, start, end) {
                unmapped += part.length_blocks;
                self.defer_release(inode, fork, &part)?;
            }
        }
        self.splice_extents(inode, fork, &splice)?;
        inode.add_blocks(-unmapped.cast_signed());
        Ok(unmapped)
    }

    /// Blocks lose an owner, and become free unless others share them. The order matters: a replay of the freeing
    /// must not find an owner any more.
    fn defer_release(&mut self, inode: &EditInode, fork: Fork, extent: &Extent) -> Result<()> {
        self.transaction.defer_unmap(inode, fork, extent)?;
        if fork == Fork::Data && inode.may_share_extents() {
            self.transaction.defer_decrease(extent.start, extent.length_blocks)
        } else {
            self.transaction.defer_free(extent.start, extent.length_blocks)
        }
    }
}
