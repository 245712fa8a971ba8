//! New blocks for holes and for copies of shared blocks.

use std::ops::Range;

use uxfs_format::{
    btree::extent_map::{Extent, MAX_EXTENT_BLOCKS, MAX_FILE_BLOCKS},
    inode::{Fork, InodeFlags},
    units::FileBlock,
};

use super::{FileEdit, Touch, is_no_space, new_contents::NewContents, with_freed_blocks};
use crate::filesystem::FileSystem;
use uxfs_engine::{
    extent_map::list,
    inode::edit::EditInode,
    transaction::{Transaction, allocate::Allocated, reservation::Operation},
};
use uxfs_volume::error::Result;

/// Extents that one allocation may add: the written one, and unwritten ones before and behind it.
const GROWTH: u32 = 3;

/// Which blocks of a hole are wanted.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// Those that are needed: all of them in one hole.
    pub range: Range<FileBlock>,
    /// How many more behind them.
    pub ahead_blocks: u64,
}

/// Takes blocks for a file and begins the transaction that is to map them.
#[derive(Debug)]
pub(super) struct BlockAllocator<'e, 'a> {
    file_system: &'a FileSystem,
    inode: &'e mut EditInode,
}

impl<'a> FileEdit<'a> {
    /// To take blocks.
    pub(super) fn allocator(&mut self) -> BlockAllocator<'_, 'a> {
        BlockAllocator { file_system: self.file_system, inode: self.inode }
    }

    /// Allocates blocks for bytes that are to be written to a hole, writes the bytes, and maps the blocks. Gives how many
    /// bytes found room in the first piece of free space.
    pub(super) fn allocate_written(&mut self, wanted: &Wanted, new: NewContents<'_>) -> Result<usize> {
        let (mut tx, extent) = self.allocator().for_hole(wanted)?;
        let Some(written) = list::part_of(&extent, wanted.range.start, wanted.range.end) else {
            // All of it went to what an extent size hint puts before the bytes.
            self.map_around(&mut tx, &extent, None)?;
            self.end_step(&mut tx, Touch::NOTHING)?;
            return Ok(0);
        };
        let new = new.before(self.byte_of(written.end()));
        let parts = new.with_zeros_around(self.geometry());
        self.fill_staged(&mut tx, &extent, |file| file.device_writer().write_blocks(written.start, parts))?;
        self.map_around(&mut tx, &extent, Some(&written))?;
        tx.depends_on_data();
        self.grow_to(new.end_bytes());
        self.end_step(&mut tx, new.touch)?;
        Ok(new.bytes.len())
    }

    /// Has `fill` write to new blocks while the transaction holds nothing, and sees to it that the file can map the blocks
    /// afterwards. Where either fails the blocks become free again and the transaction ends.
    pub(super) fn fill_staged<T>(
        &mut self,
        tx: &mut Transaction<'_>,
        new: &Extent,
        fill: impl FnOnce(&Self) -> Result<T>,
    ) -> Result<T> {
        let filled = tx.fill_staged(new.start, new.length_blocks, || fill(self))?;
        let ready = filled.and_then(|filled| {
            tx.extent_maps().ready_extents(self.inode, Fork::Data, GROWTH)?;
            Ok(filled)
        });
        if ready.is_err() {
            // Nothing leads to the blocks.
            tx.defer_free(new.start, new.length_blocks)?;
            tx.commit()?;
        }
        ready
    }

    /// Allocates blocks that read as zeros, as many as can be had in one piece.
    pub(super) fn allocate_unwritten(&mut self, wanted: &Wanted, touch: Touch) -> Result<()> {
        let (mut tx, new) = self.allocator().for_hole(wanted)?;
        self.map_around(&mut tx, &new, None)?;
        self.end_step(&mut tx, touch)
    }

    /// Maps new blocks: a part of them as written, the rest as unwritten.
    fn map_around(&mut self, tx: &mut Transaction<'_>, new: &Extent, written: Option<&Extent>) -> Result<()> {
        self.inode.extent_hint.own.add(new);
        let Some(written) = written else {
            return tx.extent_maps().map_existing(self.inode, Fork::Data, *new);
        };
        let head = list::part_of(new, FileBlock::new(0), written.file_block);
        let tail = list::part_of(new, written.end(), FileBlock::NULL);
        for part in [head, Some(Extent { is_unwritten: false, ..*written }), tail].into_iter().flatten() {
            tx.extent_maps().map_existing(self.inode, Fork::Data, part)?;
        }
        Ok(())
    }
}

impl<'a> BlockAllocator<'_, 'a> {
    /// Begins a transaction and takes blocks for a hole.
    pub fn for_hole(&mut self, wanted: &Wanted) -> Result<(Transaction<'a>, Extent)> {
        with_freed_blocks(self.file_system, || self.for_hole_now(wanted))
    }

    /// Begins a transaction and takes blocks for a copy of shared ones, beside what comes before them in the file.
    pub fn for_copy(&mut self, file_block: FileBlock, most_blocks: u64) -> Result<(Transaction<'a>, Extent)> {
        with_freed_blocks(self.file_system, || self.largest_from(file_block, most_blocks))
    }

    fn for_hole_now(&mut self, wanted: &Wanted) -> Result<(Transaction<'a>, Extent)> {
        let range = self.range_to_allocate(wanted);
        let length = |range: &Range<FileBlock>| range.end.checked_distance_from(range.start).unwrap_or(0);
        // A fragmented allocation ignores the extent size hint.
        if range.start < wanted.range.start {
            let blocks = length(&range);
            match self.try_allocate(range.start, blocks, blocks) {
                Err(error) if is_no_space(&error) => {}
                done => return done,
            }
        } else if range.end > wanted.range.end {
            match self.try_allocate(range.start, length(&wanted.range), length(&range)) {
                Err(error) if is_no_space(&error) => {}
                done => return done,
            }
        }
        self.largest_from(wanted.range.start, length(&wanted.range))
    }

    /// As many of the blocks that are wanted from a file block on as can be had in one piece: at least one.
    fn largest_from(&mut self, file_block: FileBlock, most_blocks: u64) -> Result<(Transaction<'a>, Extent)> {
        let mut blocks = most_blocks;
        loop {
            match self.try_allocate(file_block, 1, blocks) {
                // The counter of free blocks may allow a part where it does not allow all of it.
                Err(error) if is_no_space(&error) && blocks > 1 => blocks /= 2,
                done => return done,
            }
        }
    }

    fn try_allocate(
        &mut self,
        file_block: FileBlock,
        least_blocks: u64,
        most_blocks: u64,
    ) -> Result<(Transaction<'a>, Extent)> {
        let most_blocks = most_blocks.min(MAX_EXTENT_BLOCKS);
        let mut tx = Transaction::begin_for(self.file_system, Operation::Allocate { blocks: most_blocks })?;
        let found = tx.extent_maps().ready_extent_count(self.inode, Fork::Data, GROWTH).and_then(|()| {
            tx.extent_maps().allocate_for_hole(self.inode, file_block, least_blocks..=most_blocks, GROWTH)
        });
        match found {
            Ok(Allocated { start, length_blocks }) => {
                let length_blocks = length_blocks.into();
                Ok((tx, Extent { file_block, start, length_blocks, is_unwritten: true }))
            }
            Err(error) => {
                if matches!(error, uxfs_volume::error::Error::Operation(_)) {
                    tx.commit()?;
                }
                Err(error)
            }
        }
    }

    /// The blocks that are wanted, with the extent size hint or the speculative preallocation around them, within the hole.
    #[doc(alias = "xfs_bmap_extsize_align")]
    fn range_to_allocate(&self, wanted: &Wanted) -> Range<FileBlock> {
        let (start, end) = (wanted.range.start.get(), wanted.range.end.get());
        let (first, last) = match self.extent_size_blocks() {
            0 => (start, end.saturating_add(wanted.ahead_blocks)),
            hint => (start - start % hint, end.next_multiple_of(hint)),
        };
        if (first, last) == (start, end) {
            return wanted.range.clone();
        }
        let extents = self.inode.extents(Fork::Data);
        let index = list::index_at_or_after(extents, wanted.range.start);
        let before = index.checked_sub(1).and_then(|index| extents.get(index));
        let hole_start = before.map_or(0, |extent| extent.end().get());
        let hole_end = extents.get(index).map_or(MAX_FILE_BLOCKS, |extent| extent.file_block.get());
        let largest = self
            .file_system
            .largest_file_bytes()
            .div_ceil(self.file_system.geometry().block_size_bytes.into());
        let last = last.min(hole_end).min(largest).max(end);
        FileBlock::new(first.max(hole_start))..FileBlock::new(last)
    }

    fn extent_size_blocks(&self) -> u64 {
        let core = &self.inode.core;
        let is_set = core.flags().contains(InodeFlags::EXTENT_SIZE);
        if is_set { core.extent_size_blocks.get().into() } else { 0 }
    }
}
