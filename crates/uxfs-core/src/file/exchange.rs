//! Exchanging the contents of two files.
//!
//! Mappings change places; no contents are copied and no count of owners changes. Up to a number of extents an exchange is
//! one transaction. A larger one goes in steps, and an intent (XMI) in the log says what is left: whoever recovers the log
//! does that. So a crash finds every exchange done or not begun.

use uxfs_format::{
    btree::extent_map::Extent,
    features::Incompatible,
    inode::Fork,
    log::{
        exchange::{ExchangeFlags, ExchangeIntent},
        item::ItemType,
    },
    units::FileBlock,
};
use uxfs_journal::journal::IntentId;
use zerocopy::IntoBytes;

use super::{
    FileEdit, STEP_EXTENTS, Touch,
    pieces::{Piece, PieceState, first_piece},
    require_regular,
    share::say_sharing,
};
use crate::{
    error::{OperationError, Result},
    extent_map::edit::list,
    filesystem::FileSystem,
    inode::edit::EditInode,
    transaction::{Transaction, reservation::Operation},
};

/// Exchanges of no more extents, of both files together, are one step.
const ATOMIC_MAPPINGS: usize = 512;

/// What is to be exchanged.
#[doc(alias = "xfs_exchange_range")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExchangeRange {
    /// First byte in the first file.
    pub first_bytes: u64,
    /// First byte in the second file.
    pub second_bytes: u64,
    /// How many.
    pub length_bytes: u64,
    /// Instead of a length: all up to the end of both files, which change their sizes with it.
    #[doc(alias = "XFS_EXCHANGE_RANGE_TO_EOF")]
    pub to_end: bool,
    /// Only what the first file has written.
    #[doc(alias = "XFS_EXCHANGE_RANGE_FILE1_WRITTEN")]
    pub only_written: bool,
    /// Only say whether it would go.
    #[doc(alias = "XFS_EXCHANGE_RANGE_DRY_RUN")]
    pub dry_run: bool,
}

/// The range in blocks, and what the sizes become.
#[derive(Debug, Clone, Copy)]
struct Plan {
    starts: [FileBlock; 2],
    length_blocks: u64,
    /// Those before the end of either file.
    common_blocks: u64,
    sizes: Option<[u64; 2]>,
}

impl Plan {
    fn at(&self, side: usize, done: u64) -> FileBlock {
        let start = self.starts.get(side).map_or(0, |start| start.get());
        FileBlock::new(start.saturating_add(done))
    }
}

impl FileSystem {
    /// Exchanges a range of two different files.
    ///
    /// # Errors
    /// [`CannotExchange`](OperationError::CannotExchange); [`InvalidRange`](OperationError::InvalidRange): unaligned,
    /// behind the ends, a part of a block into the middle of a file; [`FileTooLarge`](OperationError::FileTooLarge);
    /// [`NoSpace`](OperationError::NoSpace), with nothing changed; damage; the device.
    #[doc(alias = "XFS_IOC_EXCHANGE_RANGE")]
    pub fn exchange_range(
        &self,
        first: &mut EditInode,
        second: &mut EditInode,
        range: &ExchangeRange,
        touch: Touch,
    ) -> Result<()> {
        let Some(mut plan) = self.plan_exchange(first, second, range)? else { return Ok(()) };
        let counts = [(&*first, 0), (&*second, 1)].map(|(inode, side)| {
            let (start, end) = (plan.at(side, 0), plan.at(side, plan.length_blocks));
            list::overlapping(inode.data.extents(), start, end).len()
        });
        let is_atomic = counts.iter().sum::<usize>() <= ATOMIC_MAPPINGS;
        let growth = |of_other: usize| u32::try_from(of_other).unwrap_or(u32::MAX / 4) + 2;
        // Both may take blocks of one group.
        let growth = growth(counts[0]).saturating_add(growth(counts[1]));
        if range.dry_run {
            return self.begin_exchange(first, second, growth)?.commit();
        }
        let mut tx = self.begin_exchange(first, second, growth)?;
        if first.may_share_extents() || second.may_share_extents() {
            [&mut *first, &mut *second].into_iter().for_each(say_sharing);
        }
        let (mut done, mut changed, mut promise) = (0, 0, None);
        if !is_atomic {
            tx.exchange_ends_first(first, second, &mut plan, range.only_written)?;
            // At the first turn there is something to promise, and nothing before it.
            changed = STEP_EXTENTS;
        }
        while done < plan.length_blocks {
            if !is_atomic && changed >= STEP_EXTENTS / 2 {
                let next = tx.promise_exchange(first, second, &plan, (done, range.only_written));
                tx.end_promise(std::mem::replace(&mut promise, next));
                end_exchange(&mut tx, first, second, Touch::NOTHING)?;
                // What is promised is done: whether there is space was asked before the first step.
                (tx, changed) = (Transaction::begin_for(self, Operation::Release)?, 0);
            }
            let (blocks, is_changed) = tx.exchange_piece(first, second, &plan, done, range.only_written)?;
            done += blocks.max(1);
            changed += usize::from(is_changed);
        }
        if let Some([first_bytes, second_bytes]) = plan.sizes {
            first.set_size_bytes(first_bytes);
            second.set_size_bytes(second_bytes);
        }
        tx.end_promise(promise);
        tx.depends_on_data();
        end_exchange(&mut tx, first, second, touch)
    }

    fn begin_exchange(
        &self,
        first: &mut EditInode,
        second: &mut EditInode,
        growth: u32,
    ) -> Result<Transaction<'_>> {
        let mut tx = Transaction::begin_for(self, Operation::Remap)?;
        let ready = tx
            .ready_extents(first, Fork::Data, growth)
            .and_then(|()| tx.ready_extents(second, Fork::Data, growth));
        match ready {
            Ok(()) => Ok(tx),
            Err(error) => {
                tx.commit()?;
                Err(error)
            }
        }
    }

    /// Nothing where there is nothing to do.
    #[doc(alias = "xfs_exchange_range_checks")]
    fn plan_exchange(
        &self,
        first: &mut EditInode,
        second: &mut EditInode,
        range: &ExchangeRange,
    ) -> Result<Option<Plan>> {
        if !self.geometry().features.incompatible.contains(Incompatible::EXCHANGE_RANGE) {
            return Err(OperationError::CannotExchange.into());
        }
        require_regular(first)?;
        require_regular(second)?;
        let sizes = [first.size_bytes(), second.size_bytes()];
        let invalid = || OperationError::InvalidRange;
        if first.number == second.number {
            return Err(invalid().into());
        }
        let left_bytes = [
            sizes[0].checked_sub(range.first_bytes).ok_or_else(invalid)?,
            sizes[1].checked_sub(range.second_bytes).ok_or_else(invalid)?,
        ];
        let file = self.edit_file(first)?;
        let length_bytes = if range.to_end { left_bytes[0].max(left_bytes[1]) } else { range.length_bytes };
        let is_possible = file.is_aligned(range.first_bytes)
            && file.is_aligned(range.second_bytes)
            && (range.to_end || left_bytes.iter().all(|left| length_bytes <= *left))
            // A part of a block only where both files end with it.
            && (range.to_end
                || file.is_aligned(length_bytes)
                || left_bytes.iter().all(|left| length_bytes == *left));
        if !is_possible {
            return Err(invalid().into());
        }
        if length_bytes == 0 {
            return Ok(None);
        }
        file.range_end(range.first_bytes, length_bytes)?;
        file.range_end(range.second_bytes, length_bytes)?;
        let new_sizes = [range.first_bytes + left_bytes[1], range.second_bytes + left_bytes[0]];
        Ok(Some(Plan {
            starts: [file.block_of(range.first_bytes), file.block_of(range.second_bytes)],
            length_blocks: file.block_behind(length_bytes).get(),
            common_blocks: file.block_behind(length_bytes.min(left_bytes[0]).min(left_bytes[1])).get(),
            sizes: range.to_end.then_some(new_sizes),
        }))
    }
}

fn end_exchange(
    tx: &mut Transaction<'_>,
    first: &mut EditInode,
    second: &mut EditInode,
    touch: Touch,
) -> Result<()> {
    for inode in [first, second] {
        touch.apply(inode);
        tx.store_inode(inode)?;
    }
    tx.commit()
}

impl Transaction<'_> {
    /// Sees to the ends of files of different sizes, in an exchange that will go on in further steps. What lies behind the
    /// end of one of them changes places at once, with the sizes, if it is little; then all that is left is within both,
    /// and whoever recovers it need not know of sizes.
    ///
    /// Else a file that becomes larger is so from now on, and the log says what the sizes become. Linux (6.18) would free,
    /// when it goes on after a crash, what it finds behind the end that a file had then; and it takes the sizes from the
    /// files instead of the log, so that the other one stays too large, with zeros at its end.
    fn exchange_ends_first(
        &mut self,
        first: &mut EditInode,
        second: &mut EditInode,
        plan: &mut Plan,
        only_written: bool,
    ) -> Result<()> {
        let Some(sizes) = plan.sizes else { return Ok(()) };
        let common = plan.common_blocks;
        let extents_behind = [(&*first, 0), (&*second, 1)].map(|(inode, side)| {
            let (start, end) = (plan.at(side, common), plan.at(side, plan.length_blocks));
            list::overlapping(inode.data.extents(), start, end).len()
        });
        let is_little = extents_behind.iter().sum::<usize>() <= STEP_EXTENTS;
        if is_little {
            let mut done = common;
            while done < plan.length_blocks {
                done += self.exchange_piece(first, second, plan, done, only_written)?.0.max(1);
            }
            (plan.length_blocks, plan.sizes) = (common, None);
        }
        for (inode, size_bytes) in [first, second].into_iter().zip(sizes) {
            let least = if is_little { 0 } else { inode.size_bytes() };
            inode.set_size_bytes(size_bytes.max(least));
        }
        Ok(())
    }

    /// Says in the log what is left of an exchange behind the first `done` blocks. Nothing where there is no log.
    fn promise_exchange(
        &mut self,
        first: &EditInode,
        second: &EditInode,
        plan: &Plan,
        (done, only_written): (u64, bool),
    ) -> Option<IntentId> {
        let mut flags = ExchangeFlags::empty();
        flags.set(ExchangeFlags::SET_SIZES, plan.sizes.is_some());
        flags.set(ExchangeFlags::FIRST_WRITTEN, only_written);
        let [first_bytes, second_bytes] = plan.sizes.unwrap_or_default();
        let ticket = self.buffers().ticket()?;
        Some(ticket.intent(|id| {
            let intent = ExchangeIntent {
                kind: ItemType::ExchangeIntent.raw().into(),
                region_count: 1.into(),
                padding: 0.into(),
                id: id.into(),
                first_inode: first.number.get().into(),
                second_inode: second.number.get().into(),
                first_generation: first.core.generation.get().into(),
                second_generation: second.core.generation.get().into(),
                first_offset_blocks: plan.at(0, done).get().into(),
                second_offset_blocks: plan.at(1, done).get().into(),
                length_blocks: plan.length_blocks.saturating_sub(done).into(),
                flags: flags.bits().into(),
                first_size_bytes: first_bytes.cast_signed().into(),
                second_size_bytes: second_bytes.cast_signed().into(),
            };
            vec![intent.as_bytes().to_vec()]
        }))
    }

    /// What an intent said is done, or another says what is left of it.
    fn end_promise(&mut self, promise: Option<IntentId>) {
        if let Some(id) = promise {
            self.intent_done(ItemType::ExchangeDone, id, &[]);
        }
    }

    /// Exchanges the next pieces of both files: gives how many blocks, and whether anything changed.
    fn exchange_piece(
        &mut self,
        first: &mut EditInode,
        second: &mut EditInode,
        plan: &Plan,
        done: u64,
        only_written: bool,
    ) -> Result<(u64, bool)> {
        let piece = |inode: &EditInode, side| {
            first_piece(inode.data.extents(), plan.at(side, done), plan.at(side, plan.length_blocks))
        };
        let (Some(one), Some(other)) = (piece(first, 0), piece(second, 1)) else {
            return Err(OperationError::InvalidRange.into());
        };
        let blocks = one.length_blocks.min(other.length_blocks);
        let (one, other) = (one.first(blocks), other.first(blocks));
        let is_passed_over = only_written && !matches!(one.state, PieceState::Written(_));
        if one.state == other.state || is_passed_over {
            return Ok((blocks, false));
        }
        let to_first = Piece { file_block: one.file_block, ..other }.extent();
        let to_second = Piece { file_block: other.file_block, ..one }.extent();
        self.put_mapping(first, one.extent(), to_first)?;
        self.put_mapping(second, other.extent(), to_second)?;
        // Both lose their owners before they get others: a block has one at a time, unless it is shared.
        for (inode, old) in [(&*first, one.extent()), (&*second, other.extent())] {
            if let Some(old) = old {
                self.note_moved_contents(old.start, old.length_blocks);
                self.defer_unmap(inode, Fork::Data, &old)?;
            }
        }
        for (inode, new) in [(&*first, to_first), (&*second, to_second)] {
            if let Some(new) = new {
                self.defer_map(inode, Fork::Data, &new)?;
            }
        }
        Ok((blocks, true))
    }

    /// Changes what a run of blocks of a file is, in its extents.
    fn put_mapping(&mut self, inode: &mut EditInode, old: Option<Extent>, new: Option<Extent>) -> Result<()> {
        match (old, new) {
            (Some(_), Some(new)) => self.replace_mapping(inode, &new),
            (Some(old), None) => self.remove_mapping(inode, &old),
            (None, Some(new)) => self.insert_mapping(inode, &new),
            (None, None) => Ok(()),
        }
    }
}

impl FileEdit<'_> {
    /// Exchanges a range of this file with one of another: see [`FileSystem::exchange_range`].
    ///
    /// # Errors
    /// As there.
    pub fn exchange_with(
        &mut self,
        other: &mut EditInode,
        range: &ExchangeRange,
        touch: Touch,
    ) -> Result<()> {
        self.file_system.exchange_range(self.inode, other, range, touch)
    }
}
