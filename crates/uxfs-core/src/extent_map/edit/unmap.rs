//! Taking blocks away from a fork.

use std::ops::Range;

use uxfs_format::{
    btree::extent_map::{Extent, MAX_FILE_BLOCKS},
    geometry::Geometry,
    inode::{FileType, Fork},
    units::FileBlock,
};

use super::{list, map::Mapping, splice::refuse_realtime};
use crate::{
    error::{OperationError, Result},
    inode::edit::EditInode,
    transaction::Transaction,
};

/// Extents that are taken away before the work that follows from it is done: bounds the list of deferred work.
const STEP_EXTENTS: usize = 1024;

impl Transaction<'_> {
    /// Takes the blocks of a range away; what was mapped becomes free, unless others share it. Gives how many blocks
    /// there were. The inode's count of blocks follows; its size does not.
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
                self.finish_deferred()?;
            }
        }
    }

    /// Takes the blocks of at most so many extents of a regular file away, from the end of a range, and gives whether
    /// that was all: a step of an operation that may have millions to take.
    ///
    /// # Errors
    /// As [`unmap_blocks`](Self::unmap_blocks).
    pub(crate) fn unmap_last(
        &mut self,
        inode: &mut EditInode,
        range: Range<FileBlock>,
        most_extents: usize,
    ) -> Result<bool> {
        let extents = inode.data.extents();
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
            if let Some(part) = list::part_of(extent, start, end) {
                unmapped += part.length_blocks;
                self.defer_release(inode, fork, &part)?;
            }
        }
        self.splice_extents(inode, fork, &splice)?;
        inode.add_blocks(-unmapped.cast_signed());
        Ok(unmapped)
    }

    /// Blocks lose an owner, and become free unless others share them. The order matters to a log: whoever replays the
    /// freeing must not find an owner any more.
    fn defer_release(&mut self, inode: &EditInode, fork: Fork, extent: &Extent) -> Result<()> {
        self.defer_unmap(inode, fork, extent)?;
        if fork == Fork::Data && inode.may_share_extents() {
            self.defer_decrease(extent.start, extent.length_blocks)
        } else {
            self.defer_free(extent.start, extent.length_blocks)
        }
    }

    /// Sets the size of a regular file. What lies behind is taken away, and what comes into the file reads as zeros.
    ///
    /// # Errors
    /// No regular file; larger than files can be; damage; the device.
    #[doc(alias = "xfs_itruncate_extents")]
    pub fn truncate(&mut self, inode: &mut EditInode, size_bytes: u64) -> Result<()> {
        let geometry = self.file_system().geometry();
        if inode.file_type() != Some(FileType::Regular) {
            return Err(OperationError::WrongFileType.into());
        }
        if size_bytes >= 1 << 63 || size_bytes.div_ceil(geometry.block_size_bytes.into()) > MAX_FILE_BLOCKS {
            return Err(OperationError::FileTooLarge.into());
        }
        let smaller = size_bytes.min(inode.size_bytes());
        if size_bytes < inode.size_bytes() {
            let first = FileBlock::new(size_bytes.div_ceil(geometry.block_size_bytes.into()));
            self.unmap_blocks(inode, Fork::Data, first, MAX_FILE_BLOCKS)?;
        }
        if size_bytes != inode.size_bytes() {
            self.zero_behind(inode, smaller)?;
        }
        inode.set_size_bytes(size_bytes);
        Ok(())
    }

    /// Makes the rest of the block zero in which a file ends: its bytes must not come to light when the file grows.
    fn zero_behind(&mut self, inode: &mut EditInode, size_bytes: u64) -> Result<()> {
        let geometry = self.file_system().geometry();
        let kept = (size_bytes & u64::from(geometry.block_size_bytes - 1)) as usize;
        let block = FileBlock::new(size_bytes >> geometry.block_log);
        let extents = inode.data.extents();
        let found = extents.get(list::index_at_or_after(extents, block));
        let part = found.and_then(|extent| list::part_of(extent, block, FileBlock::new(block.get() + 1)));
        let Some(extent) = part.filter(|extent| kept != 0 && !extent.is_unwritten) else { return Ok(()) };
        let device = self.file_system().device();
        let place = |extent: &Extent| {
            let sector = geometry.sector_of_block(extent.start);
            sector.map(Geometry::byte_of_sector).ok_or(OperationError::NoSuchGroup)
        };
        let mut bytes = vec![0; geometry.block_size()];
        device.read(place(&extent)?, &mut bytes)?;
        let rest = bytes.get_mut(kept..).unwrap_or_default();
        if rest.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        rest.fill(0);
        let target = if inode.may_share_extents() {
            // Another file may go on in this block.
            self.unmap_blocks(inode, Fork::Data, block, 1)?;
            let mapped = self.map_blocks(inode, Fork::Data, block, 1, Mapping::default())?;
            *mapped.first().ok_or(OperationError::NoSpace)?
        } else {
            extent
        };
        Ok(device.write(place(&target)?, &bytes)?)
    }
}
