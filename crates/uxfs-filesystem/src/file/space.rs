//! Allocating, punching and zeroing ranges: what `fallocate` does without moving anything.

use std::ops::Range;

use uxfs_format::{
    inode::{Fork, InodeFlags},
    units::FileBlock,
};
use zerocopy::big_endian::U16;

use super::{
    FileEdit, Touch,
    allocate::Wanted,
    pieces::{Piece, PieceState, first_piece},
};
use crate::file::mappings::sharing_of;
use uxfs_engine::extent_map::STEP_EXTENTS;
use uxfs_engine::extent_map::list;
use uxfs_volume::error::Result;

/// Whether a file may become larger by an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeChange {
    /// The file ends at least where the range does.
    Grow,
    /// The size stays: space may lie behind the end.
    #[doc(alias = "FALLOC_FL_KEEP_SIZE")]
    Keep,
}

impl FileEdit<'_> {
    /// Sees to it that a range can be written without running out of space: its holes get blocks that read as zeros.
    ///
    /// # Errors
    /// [`InvalidRange`](uxfs_volume::error::OperationError::InvalidRange) for no length; [`FileTooLarge`](uxfs_volume::error::OperationError::FileTooLarge);
    /// [`NoSpace`](uxfs_volume::error::OperationError::NoSpace), with what there was allocated and the size as it was; damage; the device.
    #[doc(alias = "xfs_alloc_file_space")]
    pub fn allocate_range(
        &mut self,
        offset_bytes: u64,
        length_bytes: u64,
        size: SizeChange,
        touch: Touch,
    ) -> Result<()> {
        let end_bytes = self.range_end(offset_bytes, length_bytes)?;
        self.begin_allocation(end_bytes, size)?;
        self.fill_holes(self.block_of(offset_bytes)..self.block_behind(end_bytes))?;
        self.end_allocation(end_bytes, size, touch)
    }

    /// Contents are written before holes are filled: contents behind the end leave holes.
    fn begin_allocation(&mut self, end_bytes: u64, size: SizeChange) -> Result<()> {
        match size {
            SizeChange::Grow => self.prepare_growth(end_bytes, end_bytes),
            SizeChange::Keep => Ok(()),
        }
    }

    fn end_allocation(&mut self, end_bytes: u64, size: SizeChange, touch: Touch) -> Result<()> {
        if size == SizeChange::Grow {
            self.grow_to(end_bytes);
        }
        let flags = self.inode.core.flags() | InodeFlags::PREALLOCATED;
        self.inode.core.flags = U16::new(flags.bits());
        self.touch(touch)
    }

    fn fill_holes(&mut self, range: Range<FileBlock>) -> Result<()> {
        let mut next = range.start;
        while let Some(piece) = first_piece(self.inode.extents(Fork::Data), next, range.end) {
            if piece.state != PieceState::Hole {
                next = piece.end();
                continue;
            }
            let wanted = Wanted { range: piece.file_block..piece.end(), ahead_blocks: 0 };
            self.allocate_unwritten(&wanted, Touch::NOTHING)?;
        }
        Ok(())
    }

    /// Punches a hole: whole blocks are freed, partial ones at its ends are zeroed.
    ///
    /// # Errors
    /// [`InvalidRange`](uxfs_volume::error::OperationError::InvalidRange) for no length; [`FileTooLarge`](uxfs_volume::error::OperationError::FileTooLarge);
    /// [`NoSpace`](uxfs_volume::error::OperationError::NoSpace), where the hole divides an extent, and nothing has changed then, or where
    /// the ends are shared, and what lies between may be a hole then; damage; the device.
    #[doc(alias = "xfs_free_file_space")]
    pub fn punch(&mut self, offset_bytes: u64, length_bytes: u64, touch: Touch) -> Result<()> {
        let end_bytes = self.range_end(offset_bytes, length_bytes)?;
        let whole = self.block_behind(offset_bytes)..self.block_of(end_bytes);
        // First what may find no space: mostly nothing has changed then.
        if whole.start < whole.end {
            self.unmap(&whole, Touch::NOTHING)?;
        }
        self.zero_edges(offset_bytes, end_bytes)?;
        self.touch(touch)
    }

    /// Zeroes what a range has of blocks that do not lie in it whole, as far as the file goes.
    fn zero_edges(&mut self, offset_bytes: u64, end_bytes: u64) -> Result<()> {
        let size_bytes = self.inode.size_bytes();
        let first_whole = self.byte_of(self.block_behind(offset_bytes));
        let last_whole = self.byte_of(self.block_of(end_bytes));
        let head = offset_bytes..first_whole.min(end_bytes).min(size_bytes);
        let tail = last_whole.max(head.end).max(offset_bytes)..end_bytes.min(size_bytes);
        for edge in [head, tail] {
            if edge.start < edge.end {
                self.zero(edge, Touch::NOTHING)?;
            }
        }
        Ok(())
    }

    /// Makes a range read as zeros and keeps or gets space for it.
    ///
    /// # Errors
    /// As [`allocate_range`](Self::allocate_range); where space runs out, some of the range may be zero already.
    #[doc(alias = "FALLOC_FL_ZERO_RANGE")]
    pub fn zero_range(
        &mut self,
        offset_bytes: u64,
        length_bytes: u64,
        size: SizeChange,
        touch: Touch,
    ) -> Result<()> {
        let end_bytes = self.range_end(offset_bytes, length_bytes)?;
        self.begin_allocation(end_bytes, size)?;
        let touched = self.block_of(offset_bytes)..self.block_behind(end_bytes);
        // First what may find no space and changes nothing that can be read.
        self.fill_holes(touched.clone())?;
        self.forget_contents(self.block_behind(offset_bytes)..self.block_of(end_bytes))?;
        self.zero_edges(offset_bytes, end_bytes)?;
        // Blocks that others have, too, have become holes.
        self.fill_holes(touched)?;
        self.end_allocation(end_bytes, size, touch)
    }

    /// Makes blocks of this file alone unwritten, and holes of those that others have too.
    fn forget_contents(&mut self, range: Range<FileBlock>) -> Result<()> {
        let mut next = range.start;
        while let Some(piece) = first_piece(self.inode.extents(Fork::Data), next, range.end) {
            if !matches!(piece.state, PieceState::Written(_)) {
                next = piece.end();
                continue;
            }
            if self.inode.may_share_extents() {
                next = self.forget_piece(&piece)?;
                continue;
            }
            // Many at once.
            let extents = self.inode.extents(Fork::Data);
            let found = list::overlapping(extents, next, range.end);
            let behind =
                extents.get(found.start + STEP_EXTENTS).map_or(range.end, |extent| extent.file_block);
            next = behind.min(range.end);
            self.make_unwritten(piece.file_block..next)?;
        }
        Ok(())
    }

    /// Forgets what a piece begins with; gives where to go on.
    fn forget_piece(&mut self, piece: &Piece) -> Result<FileBlock> {
        let (alone, shared) = sharing_of(self.file_system, self.inode, piece)?;
        if alone == 0 {
            let shared = piece.first(shared.max(1));
            self.unmap(&(shared.file_block..shared.end()), Touch::NOTHING)?;
            return Ok(shared.end());
        }
        let alone = piece.first(alone);
        self.make_unwritten(alone.file_block..alone.end())?;
        Ok(alone.end())
    }

    fn make_unwritten(&mut self, range: Range<FileBlock>) -> Result<()> {
        let growth = list::division_growth(self.inode.extents(Fork::Data), &range);
        let mut tx = self.begin_remap(growth)?;
        let blocks = range.end.checked_distance_from(range.start).unwrap_or(0);
        tx.extent_maps().convert_blocks(self.inode, range.start, blocks, true)?;
        self.end_step(&mut tx, Touch::NOTHING)
    }
}
