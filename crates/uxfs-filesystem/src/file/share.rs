//! Clones: files that have the same blocks until one of them is written to.

use std::ops::Range;

use uxfs_format::{
    btree::extent_map::Extent,
    inode::{Fork, InodeFlags2},
    log::reference_count::ReferenceCountOperation,
    units::FileBlock,
};
use zerocopy::big_endian::U64;

use super::{
    FileEdit, Touch, is_refusal,
    pieces::{Piece, PieceState, first_piece},
    require_regular,
};
use uxfs_engine::extent_map::{ATOMIC_EXTENTS, STEP_EXTENTS};
use uxfs_engine::{extent_map::list, inode::edit::EditInode, transaction::Transaction};
use uxfs_volume::error::{OperationError, Result};

/// Which bytes of a file are to be shared with which of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloneRange {
    /// First byte in the file that has them.
    pub source_bytes: u64,
    /// First byte in the file that gets them.
    pub target_bytes: u64,
    /// How many; 0 is all up to the end of the source.
    pub length_bytes: u64,
}

/// A range of blocks to be cloned.
struct Blocks {
    source: Range<FileBlock>,
    target: FileBlock,
}

impl FileEdit<'_> {
    /// Lets a range of this file have the blocks of a range of `source`, or of itself where that is `None`. What was there
    /// before is taken away. Gives how many bytes are shared: fewer than all where space ends in the middle.
    ///
    /// # Errors
    /// [`CannotShare`](OperationError::CannotShare); [`InvalidRange`](OperationError::InvalidRange): unaligned, not in the
    /// source, over itself, or a part of a block into the middle of this file; [`FileTooLarge`](OperationError::FileTooLarge);
    /// [`NoSpace`](OperationError::NoSpace); damage; the device.
    #[doc(alias = "FICLONERANGE")]
    pub fn clone_from(
        &mut self,
        source: Option<&mut EditInode>,
        range: &CloneRange,
        touch: Touch,
    ) -> Result<u64> {
        Cloning { target: self, source }.run(range, touch)
    }

    /// Lets a range of this file have the blocks of a range of another, if both hold the same bytes: gives whether they do.
    /// Both ranges lie within their files; the end need not be aligned where both files end there.
    ///
    /// # Errors
    /// As [`clone_from`](Self::clone_from).
    #[doc(alias = "FIDEDUPERANGE")]
    pub fn share_if_equal(&mut self, source: Option<&mut EditInode>, range: &CloneRange) -> Result<bool> {
        Cloning { target: self, source }.run_if_equal(range)
    }
}

/// A file that gets the blocks of another, or of another range of itself.
#[derive(Debug)]
struct Cloning<'e, 'a, 's> {
    target: &'e mut FileEdit<'a>,
    /// The file that has the blocks; `None` where it is the target itself.
    source: Option<&'s mut EditInode>,
}

impl Cloning<'_, '_, '_> {
    /// The inode of the file that has the blocks.
    fn source(&self) -> &EditInode {
        self.source.as_deref().unwrap_or(self.target.inode)
    }

    fn run(&mut self, range: &CloneRange, touch: Touch) -> Result<u64> {
        let Some(length_bytes) = self.length_bytes(range)? else { return Ok(0) };
        let target = &mut *self.target;
        let end_bytes = range.target_bytes + length_bytes;
        let is_whole =
            range.source_bytes == 0 && range.target_bytes == 0 && length_bytes >= target.inode.size_bytes();
        target.prepare_growth(range.target_bytes, end_bytes)?;
        let source_end = target.block_behind(range.source_bytes + length_bytes);
        let blocks = Blocks {
            source: target.block_of(range.source_bytes)..source_end,
            target: target.block_of(range.target_bytes),
        };
        let block_log = target.geometry().block_log;
        self.begin_sharing(is_whole)?;
        let done_blocks = self.clone_blocks(&blocks, end_bytes, touch)?;
        Ok((done_blocks << block_log).min(length_bytes))
    }

    fn run_if_equal(&mut self, range: &CloneRange) -> Result<bool> {
        let within =
            |offset: u64, size: u64| offset.checked_add(range.length_bytes).is_some_and(|end| end <= size);
        if range.length_bytes == 0 {
            return Ok(true);
        }
        if !within(range.source_bytes, self.source().size_bytes())
            || !within(range.target_bytes, self.target.inode.size_bytes())
        {
            return Err(OperationError::InvalidRange.into());
        }
        self.length_bytes(range)?;
        if !self.is_equal(range)? {
            return Ok(false);
        }
        // The blocks are others, the contents are not.
        self.run(range, Touch::NOTHING)?;
        Ok(true)
    }

    fn is_equal(&self, range: &CloneRange) -> Result<bool> {
        const PIECE_BYTES: u64 = 256 << 10;
        let piece_bytes = range.length_bytes.min(PIECE_BYTES) as usize;
        let (mut ours, mut theirs) = (vec![0; piece_bytes], vec![0; piece_bytes]);
        let mut done = 0;
        while done < range.length_bytes {
            let length = (range.length_bytes - done).min(PIECE_BYTES) as usize;
            let (Some(ours), Some(theirs)) = (ours.get_mut(..length), theirs.get_mut(..length)) else {
                break;
            };
            let file_system = self.target.file_system;
            file_system.read_file(self.target.inode, range.target_bytes + done, ours)?;
            file_system.read_file(self.source(), range.source_bytes + done, theirs)?;
            if ours != theirs {
                return Ok(false);
            }
            done += length as u64;
        }
        Ok(true)
    }

    /// How many bytes are to be cloned: nothing where none are wanted.
    #[doc(alias = "generic_remap_file_range_prep")]
    fn length_bytes(&self, range: &CloneRange) -> Result<Option<u64>> {
        let invalid = || OperationError::InvalidRange;
        let (target, source) = (&*self.target, self.source());
        if !target.geometry().features.has_reflink() {
            return Err(OperationError::CannotShare.into());
        }
        require_regular(source)?;
        let left_bytes = source.size_bytes().checked_sub(range.source_bytes).ok_or_else(invalid)?;
        let length_bytes = if range.length_bytes == 0 { left_bytes } else { range.length_bytes };
        if length_bytes == 0 {
            return Ok(None);
        }
        let end_bytes = target.range_end(range.target_bytes, length_bytes)?;
        let is_whole_blocks = target.is_aligned(length_bytes)
            || (length_bytes == left_bytes && end_bytes >= target.inode.size_bytes());
        let is_aligned = target.is_aligned(range.source_bytes) && target.is_aligned(range.target_bytes);
        if length_bytes > left_bytes || !is_aligned || !is_whole_blocks {
            return Err(invalid().into());
        }
        let distance_bytes = range.source_bytes.abs_diff(range.target_bytes);
        if self.source.is_none() && distance_bytes < target.byte_of(target.block_behind(length_bytes)) {
            return Err(invalid().into());
        }
        Ok(Some(length_bytes))
    }

    /// Both files say from now on that they may share blocks.
    #[doc(alias = "xfs_reflink_set_inode_flag")]
    fn begin_sharing(&mut self, is_whole: bool) -> Result<()> {
        let (target, source) = (&mut *self.target, self.source.as_deref_mut());
        let has_hint =
            |inode: &EditInode| inode.core.flags2().contains(InodeFlags2::COPY_ON_WRITE_EXTENT_SIZE);
        let is_said = target.inode.may_share_extents()
            && source.as_deref().is_none_or(|source| source.may_share_extents());
        let takes_hint = source
            .as_deref()
            .filter(|source| is_whole && has_hint(source) && !has_hint(target.inode))
            .map(|source| source.core.cow_extent_size_blocks);
        if is_said && takes_hint.is_none() {
            return Ok(());
        }
        let mut tx = target.begin_remap(0)?;
        if let Some(hint) = takes_hint {
            let flags = target.inode.core.flags2() | InodeFlags2::COPY_ON_WRITE_EXTENT_SIZE;
            target.inode.core.flags2 = U64::new(flags.bits());
            target.inode.core.cow_extent_size_blocks = hint;
        }
        for inode in source.into_iter().chain([&mut *target.inode]) {
            say_sharing(inode);
            tx.store_inode(inode)?;
        }
        tx.commit()
    }

    /// Gives how many blocks have been cloned.
    #[doc(alias = "xfs_reflink_remap_blocks")]
    fn clone_blocks(&mut self, blocks: &Blocks, end_bytes: u64, touch: Touch) -> Result<u64> {
        let total = blocks.source.end.checked_distance_from(blocks.source.start).unwrap_or(0);
        let behind = |done: u64| FileBlock::new(blocks.target.get().saturating_add(done));
        let from = self.source().extents(Fork::Data);
        let most = list::overlapping(from, blocks.source.start, blocks.source.end).len()
            + self.target.extents_in(&(blocks.target..behind(total)));
        let is_atomic = most <= ATOMIC_EXTENTS;
        let (mut done, mut changed) = (0, 0);
        let mut tx = self.target.begin_remap(2)?;
        while done < total {
            if !is_atomic && changed >= STEP_EXTENTS {
                self.end_step(&mut tx, touch)?;
                (tx, changed) = (self.target.begin_remap(0)?, 0);
            }
            let from = self.source().extents(Fork::Data);
            let at = FileBlock::new(blocks.source.start.get().saturating_add(done));
            let piece = first_piece(from, at, blocks.source.end).ok_or(OperationError::InvalidRange)?;
            let piece = piece.first(self.step_blocks(behind(done), piece.length_blocks));
            match self.clone_piece(&mut tx, &piece, behind(done)) {
                Ok(count) => changed += count,
                Err(error) if is_refusal(&error) => {
                    // The part that has been cloned stays.
                    self.end_step(&mut tx, touch)?;
                    return if done > 0 { Ok(done) } else { Err(error) };
                }
                Err(error) => return Err(error),
            }
            done += piece.length_blocks;
            self.target.grow_to(self.target.byte_of(behind(done)).min(end_bytes));
        }
        self.end_step(&mut tx, touch)?;
        Ok(done)
    }

    /// Ends a step. It may make the file larger, after [`prepare_growth`](FileEdit::prepare_growth) wrote zeros in place.
    fn end_step(&mut self, tx: &mut Transaction<'_>, touch: Touch) -> Result<()> {
        tx.depends_on_data();
        self.target.end_step(tx, touch)
    }

    /// How many blocks from one on hold no more extents than a step may change.
    fn step_blocks(&self, start: FileBlock, most_blocks: u64) -> u64 {
        let extents = self.target.inode.extents(Fork::Data);
        let index = list::index_at_or_after(extents, start).saturating_add(STEP_EXTENTS);
        let behind = extents.get(index).and_then(|extent| extent.file_block.checked_distance_from(start));
        behind.unwrap_or(u64::MAX).min(most_blocks).max(1)
    }

    /// Lets a run of this file be what a piece of the source is. Gives how many extents that changed.
    fn clone_piece(&mut self, tx: &mut Transaction<'_>, piece: &Piece, target: FileBlock) -> Result<usize> {
        let new = Piece { file_block: target, ..*piece };
        let old = first_piece(self.target.inode.extents(Fork::Data), target, new.end());
        if old == Some(new) && !matches!(new.state, PieceState::Unwritten(_)) {
            return Ok(0);
        }
        let changed = 1 + self.target.extents_in(&(target..new.end()));
        tx.extent_maps().ready_extents(self.target.inode, Fork::Data, 2)?;
        // Unwritten extents are not shared: the target gets a hole.
        let shared = match new.state {
            PieceState::Written(_) => new.extent(),
            PieceState::Hole | PieceState::Unwritten(_) => None,
        };
        if let Some(extent) = &shared {
            ready_owners(tx, extent)?;
        }
        tx.extent_maps().unmap_blocks(self.target.inode, Fork::Data, target, piece.length_blocks)?;
        if let Some(extent) = shared {
            let increase = ReferenceCountOperation::Increase;
            tx.defer_reference_count(increase, extent.start, extent.length_blocks)?;
            tx.extent_maps().map_existing(self.target.inode, Fork::Data, extent)?;
        }
        Ok(changed)
    }
}

/// The file may share blocks from now on.
pub(super) fn say_sharing(inode: &mut EditInode) {
    inode.core.flags2 = U64::new((inode.core.flags2() | InodeFlags2::REFLINK).bits());
}

/// Sees to it that blocks can have one more owner.
///
/// # Errors
/// [`NoSpace`](OperationError::NoSpace): their group is short of blocks for its reverse map.
#[doc(alias = "xfs_reflink_ag_has_free_space")]
fn ready_owners(tx: &mut Transaction<'_>, extent: &Extent) -> Result<()> {
    let place = tx.engine().geometry().split_fs_block(extent.start);
    let (group, _) = place.ok_or(OperationError::NoSuchGroup)?;
    let group = tx.group(group)?;
    let headers = group.state.headers()?;
    if headers.reservation.is_reverse_map_short(headers) {
        return Err(OperationError::NoSpace.into());
    }
    Ok(())
}
