//! Collapsing and inserting ranges: what lies behind them moves in the file, and nothing moves on the device.

use std::ops::Range;

use uxfs_format::{btree::extent_map::MAX_FILE_BLOCKS, inode::Fork, units::FileBlock};

use super::{FileEdit, Touch};
use uxfs_engine::extent_map::list;
use uxfs_engine::extent_map::{ATOMIC_EXTENTS, STEP_EXTENTS};
use uxfs_volume::error::{OperationError, Result};

impl FileEdit<'_> {
    /// Takes a range out of the file: what lies behind it moves to where it began.
    ///
    /// # Errors
    /// [`InvalidRange`](OperationError::InvalidRange): not whole blocks, none, or up to the end of the file or further;
    /// [`NoSpace`](OperationError::NoSpace), where an extent is divided; damage; the device.
    #[doc(alias = "FALLOC_FL_COLLAPSE_RANGE")]
    pub fn collapse(&mut self, offset_bytes: u64, length_bytes: u64, touch: Touch) -> Result<()> {
        let end_bytes = self.range_end(offset_bytes, length_bytes)?;
        let is_aligned = self.is_aligned(offset_bytes) && self.is_aligned(length_bytes);
        if !is_aligned || end_bytes >= self.inode.size_bytes() {
            return Err(OperationError::InvalidRange.into());
        }
        self.free_preallocation()?;
        let gone = self.block_of(offset_bytes)..self.block_of(end_bytes);
        let is_atomic = self.is_one_step(gone.start);
        if !is_atomic {
            self.unmap(&gone, Touch::NOTHING)?;
        }
        let mut tx = self.begin_remap(self.growth_of_hole(&gone))?;
        if is_atomic {
            tx.extent_maps().unmap_last(self.inode, gone.clone(), ATOMIC_EXTENTS)?;
        }
        let mut index = list::index_at_or_after(self.inode.extents(Fork::Data), gone.end);
        let mut changed = 0;
        while let Some(extent) = self.inode.extents(Fork::Data).get(index) {
            let place = FileBlock::new(extent.file_block.get().saturating_sub(blocks_of(&gone)));
            if !is_atomic && changed == STEP_EXTENTS {
                self.end_step(&mut tx, Touch::NOTHING)?;
                tx = self.begin_remap(0)?;
                changed = 0;
            }
            let joined = tx.extent_maps().shift_extent(self.inode, index, place)?;
            index += 1 - joined.min(1);
            changed += 1;
        }
        self.inode.set_size_bytes(self.inode.size_bytes() - length_bytes);
        self.end_step(&mut tx, touch)
    }

    /// Makes room in the file: what lies from `offset_bytes` on moves behind a hole of so many bytes.
    ///
    /// # Errors
    /// [`InvalidRange`](OperationError::InvalidRange): not whole blocks, none, or at the end of the file or behind it;
    /// [`FileTooLarge`](OperationError::FileTooLarge); [`NoSpace`](OperationError::NoSpace), where an extent is divided;
    /// damage; the device.
    #[doc(alias = "FALLOC_FL_INSERT_RANGE")]
    pub fn insert(&mut self, offset_bytes: u64, length_bytes: u64, touch: Touch) -> Result<()> {
        let end_bytes = self.range_end(offset_bytes, length_bytes)?;
        let is_aligned = self.is_aligned(offset_bytes) && self.is_aligned(length_bytes);
        if !is_aligned || offset_bytes >= self.inode.size_bytes() {
            return Err(OperationError::InvalidRange.into());
        }
        let size_bytes = self.inode.size_bytes().checked_add(length_bytes);
        let is_possible = |size: &u64| *size <= self.file_system.largest_file_bytes();
        let size_bytes = size_bytes.filter(is_possible).ok_or(OperationError::FileTooLarge)?;
        self.free_preallocation()?;
        let new = self.block_of(offset_bytes)..self.block_of(end_bytes);
        let last = self.inode.extents(Fork::Data).end();
        if last.get().saturating_add(blocks_of(&new)) > MAX_FILE_BLOCKS {
            return Err(OperationError::FileTooLarge.into());
        }
        let is_atomic = self.is_one_step(new.start);
        let growth = list::division_growth(self.inode.extents(Fork::Data), &(new.start..last));
        let mut tx = self.begin_remap(growth)?;
        tx.extent_maps().divide_extent(self.inode, new.start)?;
        // The size first: extents that have moved must not lie past EOF.
        self.inode.set_size_bytes(size_bytes);
        let first = list::index_at_or_after(self.inode.extents(Fork::Data), new.start);
        let mut changed = 0;
        for index in (first..self.inode.extents(Fork::Data).len()).rev() {
            if !is_atomic && changed == STEP_EXTENTS {
                self.end_step(&mut tx, Touch::NOTHING)?;
                tx = self.begin_remap(0)?;
                changed = 0;
            }
            let extent = self.inode.extents(Fork::Data).get(index).ok_or(OperationError::NotFound)?;
            let place = FileBlock::new(extent.file_block.get().saturating_add(blocks_of(&new)));
            tx.extent_maps().shift_extent(self.inode, index, place)?;
            changed += 1;
        }
        self.end_step(&mut tx, touch)
    }

    /// Whether moving everything from a block on is one step.
    fn is_one_step(&self, start: FileBlock) -> bool {
        self.extents_in(&(start..FileBlock::new(MAX_FILE_BLOCKS))) <= ATOMIC_EXTENTS
    }

    /// How many extents more there are when a range has become a hole.
    pub(super) fn growth_of_hole(&self, range: &Range<FileBlock>) -> u32 {
        let is_one = self.extents_in(range) == 1;
        let divided = list::division_growth(self.inode.extents(Fork::Data), range);
        if is_one { divided / 2 } else { 0 }
    }
}

fn blocks_of(range: &Range<FileBlock>) -> u64 {
    range.end.checked_distance_from(range.start).unwrap_or(0)
}
