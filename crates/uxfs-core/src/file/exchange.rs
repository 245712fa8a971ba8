//! Exchanging the contents of two files, or of two ranges of one.
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
    /// Also where the file system knows no exchange intents, if one transaction can do it all: that needs none.
    pub without_intents: bool,
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

/// The files that exchange: often two.
struct Files<'a> {
    first: &'a mut EditInode,
    /// `None` where two ranges of the first one change places.
    second: Option<&'a mut EditInode>,
}

impl Files<'_> {
    fn get(&self, side: usize) -> &EditInode {
        match &self.second {
            Some(second) if side == 1 => second,
            _ => self.first,
        }
    }

    fn get_mut(&mut self, side: usize) -> &mut EditInode {
        match &mut self.second {
            Some(second) if side == 1 => second,
            _ => self.first,
        }
    }

    /// Each file once.
    fn each(&mut self) -> impl Iterator<Item = &mut EditInode> {
        [Some(&mut *self.first), self.second.as_deref_mut()].into_iter().flatten()
    }

    fn set_sizes(&mut self, sizes: [u64; 2]) {
        for (inode, size_bytes) in self.each().zip(sizes) {
            inode.set_size_bytes(size_bytes);
        }
    }

    /// Mappings of both ranges from `done` blocks on.
    fn mappings(&self, plan: &Plan, done: u64) -> [usize; 2] {
        SIDES.map(|side| {
            let (start, end) = (plan.at(side, done), plan.at(side, plan.length_blocks));
            list::overlapping(self.get(side).data.extents(), start, end).len()
        })
    }
}

const SIDES: [usize; 2] = [0, 1];

impl FileSystem {
    /// Exchanges a range of two files; without a second one, two ranges of the first, which must be apart.
    ///
    /// # Errors
    /// [`CannotExchange`](OperationError::CannotExchange); [`InvalidRange`](OperationError::InvalidRange): unaligned,
    /// behind the ends, a part of a block into the middle of a file, ranges of one file that overlap or go up to its end
    /// by [`to_end`](ExchangeRange::to_end); [`FileTooLarge`](OperationError::FileTooLarge);
    /// [`NoSpace`](OperationError::NoSpace), with nothing changed; damage; the device.
    #[doc(alias = "XFS_IOC_EXCHANGE_RANGE")]
    pub fn exchange_range(
        &self,
        first: &mut EditInode,
        second: Option<&mut EditInode>,
        range: &ExchangeRange,
        touch: Touch,
    ) -> Result<()> {
        let mut files = Files { first, second };
        let Some(mut plan) = self.plan_exchange(&mut files, range)? else { return Ok(()) };
        let counts = files.mappings(&plan, 0);
        let is_atomic = counts.iter().sum::<usize>() <= ATOMIC_MAPPINGS;
        if !is_atomic && !self.has_exchange_intents() {
            return Err(OperationError::CannotExchange.into());
        }
        let growth = |of_other: usize| u32::try_from(of_other).unwrap_or(u32::MAX / 4) + 2;
        // Both may take blocks of one group.
        let growth = growth(counts[0]).saturating_add(growth(counts[1]));
        let mut tx = self.begin_exchange(&mut files, growth)?;
        if range.dry_run {
            return tx.commit();
        }
        if SIDES.iter().any(|side| files.get(*side).may_share_extents()) {
            files.each().for_each(say_sharing);
        }
        let (mut done, mut changed, mut promise) = (0, 0, None);
        if !is_atomic {
            tx.exchange_ends_first(&mut files, &mut plan, range.only_written)?;
            // At the first turn there is something to promise, and nothing before it.
            changed = STEP_EXTENTS;
        }
        while done < plan.length_blocks {
            if !is_atomic && changed >= STEP_EXTENTS / 2 {
                let next = tx.promise_exchange(&files, &plan, (done, range.only_written));
                tx.end_promise(std::mem::replace(&mut promise, next));
                end_exchange(&mut tx, &mut files, Touch::NOTHING)?;
                // What is promised is done: whether there is space was asked before the first step.
                (tx, changed) = (Transaction::begin_for(self, Operation::Release)?, 0);
            }
            let (blocks, is_changed) = tx.exchange_piece(&mut files, &plan, done, range.only_written)?;
            done += blocks.max(1);
            changed += usize::from(is_changed);
        }
        if let Some(sizes) = plan.sizes {
            files.set_sizes(sizes);
        }
        tx.end_promise(promise);
        tx.depends_on_data();
        end_exchange(&mut tx, &mut files, touch)
    }

    fn has_exchange_intents(&self) -> bool {
        self.geometry().features.incompatible.contains(Incompatible::EXCHANGE_RANGE)
    }

    fn begin_exchange(&self, files: &mut Files<'_>, growth: u32) -> Result<Transaction<'_>> {
        let mut tx = Transaction::begin_for(self, Operation::Remap)?;
        let ready = files.each().try_for_each(|inode| tx.ready_extents(inode, Fork::Data, growth));
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
    fn plan_exchange(&self, files: &mut Files<'_>, range: &ExchangeRange) -> Result<Option<Plan>> {
        if !self.has_exchange_intents() && !range.without_intents {
            return Err(OperationError::CannotExchange.into());
        }
        SIDES.iter().try_for_each(|side| require_regular(files.get(*side)))?;
        let sizes = SIDES.map(|side| files.get(side).size_bytes());
        let invalid = || OperationError::InvalidRange;
        let left_bytes = [
            sizes[0].checked_sub(range.first_bytes).ok_or_else(invalid)?,
            sizes[1].checked_sub(range.second_bytes).ok_or_else(invalid)?,
        ];
        let file = self.edit_file(files.first)?;
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
        if files.second.is_none() {
            let apart_bytes = range.first_bytes.abs_diff(range.second_bytes);
            // Up to the end goes only what overlaps, but for a range behind the end: then there would be nothing to keep
            // what comes there.
            if range.to_end || apart_bytes < length_bytes {
                return Err(invalid().into());
            }
        }
        let new_sizes = [range.first_bytes + left_bytes[1], range.second_bytes + left_bytes[0]];
        Ok(Some(Plan {
            starts: [file.block_of(range.first_bytes), file.block_of(range.second_bytes)],
            length_blocks: file.block_behind(length_bytes).get(),
            common_blocks: file.block_behind(length_bytes.min(left_bytes[0]).min(left_bytes[1])).get(),
            sizes: range.to_end.then_some(new_sizes),
        }))
    }
}

fn end_exchange(tx: &mut Transaction<'_>, files: &mut Files<'_>, touch: Touch) -> Result<()> {
    for inode in files.each() {
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
        files: &mut Files<'_>,
        plan: &mut Plan,
        only_written: bool,
    ) -> Result<()> {
        let Some(sizes) = plan.sizes else { return Ok(()) };
        let common = plan.common_blocks;
        let is_little = files.mappings(plan, common).iter().sum::<usize>() <= STEP_EXTENTS;
        if is_little {
            let mut done = common;
            while done < plan.length_blocks {
                done += self.exchange_piece(files, plan, done, only_written)?.0.max(1);
            }
            (plan.length_blocks, plan.sizes) = (common, None);
        }
        for (inode, size_bytes) in files.each().zip(sizes) {
            let least = if is_little { 0 } else { inode.size_bytes() };
            inode.set_size_bytes(size_bytes.max(least));
        }
        Ok(())
    }

    /// Says in the log what is left of an exchange behind the first `done` blocks. Nothing where there is no log.
    fn promise_exchange(
        &mut self,
        files: &Files<'_>,
        plan: &Plan,
        (done, only_written): (u64, bool),
    ) -> Option<IntentId> {
        let (first, second) = (files.get(0), files.get(1));
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
        files: &mut Files<'_>,
        plan: &Plan,
        done: u64,
        only_written: bool,
    ) -> Result<(u64, bool)> {
        let piece = |side| {
            let extents = files.get(side).data.extents();
            first_piece(extents, plan.at(side, done), plan.at(side, plan.length_blocks))
        };
        let (Some(one), Some(other)) = (piece(0), piece(1)) else {
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
        self.put_mapping(files.get_mut(0), one.extent(), to_first)?;
        self.put_mapping(files.get_mut(1), other.extent(), to_second)?;
        // Both lose their owners before they get others: a block has one at a time, unless it is shared.
        for (side, old) in [(0, one.extent()), (1, other.extent())] {
            if let Some(old) = old {
                self.note_moved_contents(old.start, old.length_blocks);
                self.defer_unmap(files.get(side), Fork::Data, &old)?;
            }
        }
        for (side, new) in [(0, to_first), (1, to_second)] {
            if let Some(new) = new {
                self.defer_map(files.get(side), Fork::Data, &new)?;
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
    /// Exchanges a range of this file with one of another, or of itself: see [`FileSystem::exchange_range`].
    ///
    /// # Errors
    /// As there.
    pub fn exchange_with(
        &mut self,
        other: Option<&mut EditInode>,
        range: &ExchangeRange,
        touch: Touch,
    ) -> Result<()> {
        self.file_system.exchange_range(self.inode, other, range, touch)
    }
}
