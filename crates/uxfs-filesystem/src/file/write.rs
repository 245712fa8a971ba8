//! Writing, and what comes into a file when it grows.

use std::ops::Range;

use uxfs_format::{inode::Fork, units::FileBlock};

use super::{
    FileEdit, Touch,
    allocate::Wanted,
    device::ZEROS,
    is_refusal,
    new_contents::NewContents,
    pieces::{Piece, PieceState, Pieces, first_piece},
};
use crate::file::mappings::sharing_of;
use uxfs_engine::extent_map::list;
use uxfs_volume::error::{OperationError, Result};

/// New blocks of up to so many bytes are written between two steps of the transaction that allocates them.
const WRITTEN_AT_ONCE_BYTES: u64 = 128 << 10;

/// The progress of one transaction of a write.
#[derive(Debug, Clone, Copy)]
pub(super) struct WriteProgress {
    pub bytes: usize,
    /// Whether the inode is stored as it is now.
    pub is_stored: bool,
}

impl FileEdit<'_> {
    /// Writes `bytes` at `offset_bytes` and gives how many were written: fewer than all where space ends in the middle, or
    /// the largest file.
    ///
    /// # Errors
    /// [`FileTooLarge`](OperationError::FileTooLarge), [`NoSpace`](OperationError::NoSpace), with nothing written; damage;
    /// the device.
    pub fn write(&mut self, offset_bytes: u64, bytes: &[u8], touch: Touch) -> Result<usize> {
        let Some(room) = self.file_system.largest_file_bytes().checked_sub(offset_bytes) else {
            return Err(OperationError::FileTooLarge.into());
        };
        let length = usize::try_from(room).map_or(bytes.len(), |room| room.min(bytes.len()));
        let bytes = bytes.get(..length).unwrap_or_default();
        if bytes.is_empty() {
            return if room == 0 { Err(OperationError::FileTooLarge.into()) } else { Ok(0) };
        }
        self.prepare_growth(offset_bytes, offset_bytes + length as u64)?;
        let (mut done, mut is_stored) = (0, false);
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let new = NewContents { offset_bytes: offset_bytes + done as u64, bytes: rest, touch };
            match self.write_step(new) {
                Ok(step) => {
                    done += step.bytes;
                    is_stored = step.is_stored;
                }
                Err(error) if done > 0 && is_refusal(&error) => break,
                Err(error) => return Err(error),
            }
        }
        if !is_stored {
            self.touch(touch)?;
        }
        Ok(done)
    }

    fn write_step(&mut self, new: NewContents<'_>) -> Result<WriteProgress> {
        let end = self.block_behind(new.end_bytes());
        let piece = first_piece(self.inode.extents(Fork::Data), self.block_of(new.offset_bytes), end);
        let piece = piece.ok_or(OperationError::FileTooLarge)?;
        match piece.state {
            PieceState::Hole => self.write_to_hole(&piece, new),
            PieceState::Unwritten(_) => self.write_to_unwritten(&piece, new),
            PieceState::Written(_) => self.overwrite(&piece, new),
        }
    }

    fn write_to_hole(&mut self, piece: &Piece, new: NewContents<'_>) -> Result<WriteProgress> {
        let wanted = Wanted {
            range: piece.file_block..piece.end(),
            ahead_blocks: self.blocks_ahead(new.offset_bytes, self.byte_of(piece.end())),
        };
        if piece.length_blocks << self.geometry().block_log <= WRITTEN_AT_ONCE_BYTES {
            let bytes = self.allocate_written(&wanted, new)?;
            return Ok(WriteProgress { bytes, is_stored: true });
        }
        self.allocate_unwritten(&wanted, Touch::NOTHING)?;
        Ok(WriteProgress { bytes: 0, is_stored: false })
    }

    /// First the contents, to blocks that read as zeros; then a transaction says that they are written.
    fn write_to_unwritten(&mut self, piece: &Piece, new: NewContents<'_>) -> Result<WriteProgress> {
        let new = new.before(self.byte_of(piece.end()));
        self.require_own(piece)?;
        let start = piece.extent().ok_or(OperationError::NoSuchGroup)?.start;
        // The blocks had contents before they were zeroed, which another file may have again after a crash.
        self.file_system.wait_for_moved_contents(start, piece.length_blocks)?;
        self.device_writer().write_blocks(start, new.with_zeros_around(self.geometry()))?;
        let behind = self.block_behind(new.end_bytes());
        let growth = list::division_growth(self.inode.extents(Fork::Data), &(piece.file_block..behind));
        let mut tx = self.begin_remap(growth)?;
        let blocks = behind.checked_distance_from(piece.file_block).unwrap_or(0);
        tx.extent_maps().convert_blocks(self.inode, piece.file_block, blocks, false)?;
        tx.depends_on_data();
        self.grow_to(new.end_bytes());
        self.end_step(&mut tx, new.touch)?;
        Ok(WriteProgress { bytes: new.bytes.len(), is_stored: true })
    }

    /// Writes to blocks that have contents: in place, unless other files share them.
    fn overwrite(&mut self, piece: &Piece, new: NewContents<'_>) -> Result<WriteProgress> {
        let (alone, shared) = sharing_of(self.file_system, self.inode, piece)?;
        if alone == 0 {
            let bytes = self.write_copy(&piece.first(shared.max(1)), new)?;
            return Ok(WriteProgress { bytes, is_stored: true });
        }
        let piece = piece.first(alone);
        self.require_own(&piece)?;
        let new = new.before(self.byte_of(piece.end()));
        let start = piece.extent().ok_or(OperationError::NoSuchGroup)?.start;
        let skipped = new.offset_bytes.saturating_sub(self.byte_of(piece.file_block));
        self.file_system.wait_for_moved_contents(start, piece.length_blocks)?;
        self.device_writer().write_in_place(start, skipped, new.bytes)?;
        self.grow_to(new.end_bytes());
        Ok(WriteProgress { bytes: new.bytes.len(), is_stored: false })
    }

    /// The file is at least so large.
    pub(super) fn grow_to(&mut self, size_bytes: u64) {
        if !self.keeps_size && size_bytes > self.inode.size_bytes() {
            self.inode.set_size_bytes(size_bytes);
        }
    }

    /// Sees to it that what comes into the file when it grows, with contents from `offset_bytes` to `end_bytes`, reads as
    /// zeros (invariant 2). The size stays for now.
    #[doc(alias = "xfs_zero_range")]
    pub(super) fn prepare_growth(&mut self, offset_bytes: u64, end_bytes: u64) -> Result<()> {
        let size_bytes = self.inode.size_bytes();
        if end_bytes <= size_bytes {
            return Ok(());
        }
        let behind = self.block_behind(size_bytes);
        if offset_bytes > size_bytes {
            self.zero(size_bytes..offset_bytes.min(self.byte_of(behind)), Touch::NOTHING)?;
        }
        let (mut next, end) = (behind, self.block_behind(end_bytes));
        while next < end
            && self.inode.extents(Fork::Data).last().is_some_and(|last| last.end() > next)
            && let Some(found) = self.next_written(next..end)
        {
            self.unmap(&found, Touch::NOTHING)?;
            next = found.end;
        }
        Ok(())
    }

    /// The next run of blocks with contents.
    fn next_written(&self, range: Range<FileBlock>) -> Option<Range<FileBlock>> {
        let mut pieces = Pieces::new(self.inode.extents(Fork::Data), range.start, range.end);
        let is_written = |piece: &Piece| matches!(piece.state, PieceState::Written(_));
        let first = pieces.find(is_written)?;
        let last = pieces.take_while(is_written).last().unwrap_or(first);
        Some(first.file_block..last.end())
    }

    /// Makes bytes zero where there are contents; what reads as zeros stays as it is. For parts of blocks.
    pub(super) fn zero(&mut self, range: Range<u64>, touch: Touch) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let end = self.block_behind(range.end);
            let piece = first_piece(self.inode.extents(Fork::Data), self.block_of(at), end);
            let piece = piece.ok_or(OperationError::FileTooLarge)?;
            let piece_end = self.byte_of(piece.end()).min(range.end);
            if !matches!(piece.state, PieceState::Written(_)) {
                at = piece_end;
                continue;
            }
            let length = ((piece_end - at) as usize).min(ZEROS.len());
            // Zeros behind the end are no contents, not even for as long as it takes to write what comes behind them.
            self.keeps_size = true;
            let bytes = ZEROS.get(..length).unwrap_or_default();
            let step = self.overwrite(&piece, NewContents { offset_bytes: at, bytes, touch });
            self.keeps_size = false;
            at += step?.bytes as u64;
        }
        Ok(())
    }

    /// Blocks to allocate, as unwritten, ahead of a program that appends: contents written in small pieces would otherwise be
    /// allocated in small pieces between those of other files. The blocks are freed when the file is closed.
    #[doc(alias = "xfs_iomap_prealloc_size")]
    fn blocks_ahead(&self, offset_bytes: u64, end_bytes: u64) -> u64 {
        const LEAST_BYTES: u64 = 64 << 10;
        const MOST_BYTES: u64 = 16 << 20;
        let size_bytes = self.inode.size_bytes();
        // The first write may be the only one, and a program that leaves holes does not append.
        let appends = self.block_of(offset_bytes) <= self.block_behind(size_bytes);
        if size_bytes == 0 || end_bytes <= size_bytes || offset_bytes < size_bytes || !appends {
            return 0;
        }
        let blocks = end_bytes.clamp(LEAST_BYTES, MOST_BYTES) >> self.geometry().block_log;
        blocks.min(self.file_system.free_blocks() / 256)
    }
}
