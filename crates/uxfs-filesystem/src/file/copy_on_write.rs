//! Writing to blocks that other files have too.
//!
//! A transaction allocates new blocks. Between its two steps, while it holds nothing, the blocks are filled with what is written
//! and, at the edges, with what the old blocks hold. Its second step maps them in the place of the old blocks, which lose an
//! owner. So a crash finds either the old blocks or the new ones; blocks that it catches between the steps recovery frees
//! (`uxfs_engine::transaction::staged`), so that no blocks need to be recorded as copy-on-write staging.

use std::ops::Range;

use uxfs_format::{
    btree::extent_map::Extent,
    inode::{Fork, InodeFlags2},
    units::FileBlock,
};
use zerocopy::big_endian::U64;

use super::{
    FileEdit, Touch,
    new_contents::NewContents,
    pieces::{Piece, PieceState, Pieces, first_piece},
    space::SizeChange,
};
use crate::file::mappings::sharing_of;
use uxfs_volume::error::{OperationError, Result};

/// Bytes that are copied in one transaction.
const COPY_BYTES: u64 = 1 << 20;
/// Extents that are asked whether any of them is shared before a file is no longer said to share.
const ASKED_EXTENTS: usize = 1024;

impl FileEdit<'_> {
    /// Writes bytes to a run of shared blocks: to copies of them. Gives how many were written.
    #[doc(alias = "xfs_reflink_end_cow")]
    pub(super) fn write_copy(&mut self, shared: &Piece, new: NewContents<'_>) -> Result<usize> {
        let old_start = shared.extent().ok_or(OperationError::NoSuchGroup)?.start;
        let new = new.before(self.byte_of(shared.end()));
        let end = self.block_behind(new.end_bytes());
        let blocks = end.checked_distance_from(shared.file_block).unwrap_or(0);
        let most_blocks = (COPY_BYTES >> self.geometry().block_log).max(1);
        let head = self.contents(self.byte_of(shared.file_block)..new.offset_bytes)?;
        let (mut tx, copy) = self.allocator().for_copy(shared.file_block, blocks.min(most_blocks))?;
        let new = new.before(self.byte_of(copy.end()));
        self.fill_staged(&mut tx, &copy, |file| {
            let tail = file.contents(new.end_bytes()..file.byte_of(copy.end()))?;
            file.device_writer().write_blocks(copy.start, [&head, new.bytes, &tail])
        })?;
        let copy = Extent { is_unwritten: false, ..copy };
        let old = Extent { start: old_start, ..copy };
        tx.extent_maps().replace_mapping(self.inode, &copy)?;
        tx.defer_unmap(self.inode, Fork::Data, &old)?;
        tx.defer_decrease(old.start, old.length_blocks)?;
        tx.defer_map(self.inode, Fork::Data, &copy)?;
        tx.depends_on_data();
        self.grow_to(new.end_bytes());
        self.end_step(&mut tx, new.touch)?;
        Ok(new.bytes.len())
    }

    /// The contents of a range of the file, with zeros past EOF.
    fn contents(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = vec![0; range.end.saturating_sub(range.start) as usize];
        if !bytes.is_empty() {
            self.file_system.read_file(self.inode, range.start, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// Gives the file blocks of its own for all that it shares in a range of its contents.
    ///
    /// # Errors
    /// [`InvalidRange`](OperationError::InvalidRange) for no length; [`NoSpace`](OperationError::NoSpace), perhaps with
    /// part of it done; damage; the device.
    #[doc(alias = "xfs_reflink_unshare")]
    pub fn unshare(
        &mut self,
        offset_bytes: u64,
        length_bytes: u64,
        size: SizeChange,
        touch: Touch,
    ) -> Result<()> {
        let end_bytes = self.range_end(offset_bytes, length_bytes)?.min(self.inode.size_bytes());
        let (mut next, end) = (self.block_of(offset_bytes), self.block_behind(end_bytes));
        while let Some(piece) = first_piece(self.inode.extents(Fork::Data), next, end) {
            next = if matches!(piece.state, PieceState::Written(_)) {
                self.unshare_piece(&piece)?
            } else {
                piece.end()
            };
        }
        self.stop_sharing_if_unshared()?;
        // As in Linux, no later write to the range runs out of space.
        self.allocate_range(offset_bytes, length_bytes, size, touch)
    }

    /// Copies what a piece begins with, if it is shared; gives where to go on.
    fn unshare_piece(&mut self, piece: &Piece) -> Result<FileBlock> {
        let (alone, shared) = sharing_of(self.file_system, self.inode, piece)?;
        if alone > 0 {
            return Ok(piece.first(alone).end());
        }
        let most_blocks = (COPY_BYTES >> self.geometry().block_log).max(1);
        let shared = piece.first(shared.clamp(1, most_blocks));
        let start = self.byte_of(shared.file_block);
        let contents = self.contents(start..self.byte_of(shared.end()))?;
        let size_bytes = self.inode.size_bytes();
        let inside = usize::try_from(size_bytes.saturating_sub(start)).unwrap_or(usize::MAX);
        let inside = contents.get(..inside.min(contents.len())).unwrap_or_default();
        let new = NewContents { offset_bytes: start, bytes: inside, touch: Touch::NOTHING };
        let written = self.write_copy(&shared, new)?;
        Ok(self.block_behind(start + written as u64))
    }

    /// A file that shares nothing any more, and has few enough extents to look, is no longer asked at every write.
    #[doc(alias = "xfs_reflink_try_clear_inode_flag")]
    fn stop_sharing_if_unshared(&mut self) -> Result<()> {
        if !self.inode.may_share_extents() || self.inode.extents(Fork::Data).len() > ASKED_EXTENTS {
            return Ok(());
        }
        let extents = self.inode.extents(Fork::Data);
        let end = extents.end();
        for piece in Pieces::new(extents, FileBlock::new(0), end) {
            let (alone, _) = sharing_of(self.file_system, self.inode, &piece)?;
            if piece.extent().is_some() && alone != piece.length_blocks {
                return Ok(());
            }
        }
        let flags = self.inode.core.flags2() - InodeFlags2::REFLINK;
        self.inode.core.flags2 = U64::new(flags.bits());
        self.touch(Touch::NOTHING)
    }
}
