//! Exchanging the contents of two files, or of two ranges of one.
//!
//! Mappings change places; no contents are copied and no count of owners changes. Up to a number of extents an exchange is
//! one transaction. A larger one goes in steps, and an intent (XMI) in the log names the remaining part, which
//! recovery completes. So a crash finds every exchange done or not begun.

use uxfs_format::{
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
    FileEdit, Touch,
    exchange_step::{ExchangedRanges, exchange_step},
    require_regular,
    share::say_sharing,
};
use crate::filesystem::FileSystem;
use uxfs_engine::extent_map::STEP_EXTENTS;
use uxfs_engine::{
    extent_map::list,
    inode::edit::EditInode,
    transaction::{Transaction, reservation::Operation},
};
use uxfs_volume::error::{OperationError, Result};

/// Exchanges of no more extents, of both files together, are one step.
const ATOMIC_MAPPINGS: usize = 512;

/// The range to exchange.
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

    /// The ranges without their first `done` blocks.
    fn ranges(&self, done: u64, only_written: bool) -> ExchangedRanges {
        let length_blocks = self.length_blocks.saturating_sub(done);
        ExchangedRanges { starts: SIDES.map(|side| self.at(side, done)), length_blocks, only_written }
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

    /// Each file once.
    fn each(&mut self) -> impl Iterator<Item = &mut EditInode> {
        [Some(&mut *self.first), self.second.as_deref_mut()].into_iter().flatten()
    }

    fn set_sizes(&mut self, sizes: [u64; 2]) {
        for (inode, size_bytes) in self.each().zip(sizes) {
            inode.set_size_bytes(size_bytes);
        }
    }

    fn exchange_step(
        &mut self,
        tx: &mut Transaction<'_>,
        ranges: &ExchangedRanges,
        most_changes: usize,
    ) -> Result<u64> {
        let second = self.second.as_deref_mut();
        let done = exchange_step(tx, self.first, second, Fork::Data, ranges, most_changes)?;
        // Both ranges have pieces up to their end.
        if done > 0 { Ok(done) } else { Err(OperationError::InvalidRange.into()) }
    }

    /// Mappings of both ranges from `done` blocks on.
    fn mappings(&self, plan: &Plan, done: u64) -> [usize; 2] {
        SIDES.map(|side| {
            let (start, end) = (plan.at(side, done), plan.at(side, plan.length_blocks));
            list::overlapping(self.get(side).extents(Fork::Data), start, end).len()
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
        let Some(mut plan) = plan_exchange(self, &mut files, range)? else { return Ok(()) };
        let counts = files.mappings(&plan, 0);
        let is_atomic = counts.iter().sum::<usize>() <= ATOMIC_MAPPINGS;
        if !is_atomic && !has_exchange_intents(self) {
            return Err(OperationError::CannotExchange.into());
        }
        let growth = |of_other: usize| u32::try_from(of_other).unwrap_or(u32::MAX / 4) + 2;
        // Both may take blocks of one group.
        let growth = growth(counts[0]).saturating_add(growth(counts[1]));
        let mut tx = begin_exchange(self, &mut files, growth)?;
        if range.dry_run {
            return tx.commit();
        }
        if SIDES.iter().any(|side| files.get(*side).may_share_extents()) {
            files.each().for_each(say_sharing);
        }
        let (mut done, mut intent) = (0, None);
        let mut most_changes = usize::MAX;
        if !is_atomic {
            exchange_ends_first(&mut tx, &mut files, &mut plan, range.only_written)?;
            most_changes = STEP_EXTENTS / 2;
        }
        while done < plan.length_blocks {
            if !is_atomic {
                // At the first turn there is something to promise, and nothing before it.
                let next = log_exchange_intent(&mut tx, &files, &plan, (done, range.only_written));
                finish_intent(&mut tx, std::mem::replace(&mut intent, next));
                end_exchange(&mut tx, &mut files, Touch::NOTHING)?;
                // The intent is logged, and the space was checked before the first step: the exchange must finish.
                tx = Transaction::begin_for(self, Operation::Release)?;
            }
            let ranges = plan.ranges(done, range.only_written);
            done += files.exchange_step(&mut tx, &ranges, most_changes)?;
        }
        if let Some(sizes) = plan.sizes {
            files.set_sizes(sizes);
        }
        finish_intent(&mut tx, intent);
        tx.depends_on_data();
        end_exchange(&mut tx, &mut files, touch)
    }
}

fn end_exchange(tx: &mut Transaction<'_>, files: &mut Files<'_>, touch: Touch) -> Result<()> {
    for inode in files.each() {
        touch.apply(inode);
        tx.store_inode(inode)?;
    }
    tx.commit()
}

/// Sees to the ends of files of different sizes, in an exchange that will go on in further steps. What lies behind the
/// end of one of them changes places at once, with the sizes, if it is little; then all that is left is within both,
/// and recovery need not know of sizes.
///
/// Else a file that becomes larger is so from now on, and the log says what the sizes become. Linux (6.18) would free,
/// when it goes on after a crash, what it finds behind the end that a file had then; and it takes the sizes from the
/// files instead of the log, so that the other one stays too large, with zeros at its end.
fn exchange_ends_first(
    tx: &mut Transaction<'_>,
    files: &mut Files<'_>,
    plan: &mut Plan,
    only_written: bool,
) -> Result<()> {
    let Some(sizes) = plan.sizes else { return Ok(()) };
    let common = plan.common_blocks;
    let is_little = files.mappings(plan, common).iter().sum::<usize>() <= STEP_EXTENTS;
    if is_little {
        if common < plan.length_blocks {
            files.exchange_step(tx, &plan.ranges(common, only_written), usize::MAX)?;
        }
        (plan.length_blocks, plan.sizes) = (common, None);
    }
    for (inode, size_bytes) in files.each().zip(sizes) {
        let least = if is_little { 0 } else { inode.size_bytes() };
        inode.set_size_bytes(size_bytes.max(least));
    }
    Ok(())
}

/// Logs an intent for the rest of an exchange after `done` blocks; `None` in bulk mode.
fn log_exchange_intent(
    tx: &mut Transaction<'_>,
    files: &Files<'_>,
    plan: &Plan,
    (done, only_written): (u64, bool),
) -> Option<IntentId> {
    let (first, second) = (files.get(0), files.get(1));
    let mut flags = ExchangeFlags::empty();
    flags.set(ExchangeFlags::SET_SIZES, plan.sizes.is_some());
    flags.set(ExchangeFlags::FIRST_WRITTEN, only_written);
    let [first_bytes, second_bytes] = plan.sizes.unwrap_or_default();
    let ticket = tx.buffers().ticket()?;
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

/// Logs that an intent is done, or that another replaces it.
fn finish_intent(tx: &mut Transaction<'_>, intent: Option<IntentId>) {
    if let Some(id) = intent {
        tx.intent_done(ItemType::ExchangeDone, id, &[]);
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

fn has_exchange_intents(file_system: &FileSystem) -> bool {
    file_system.geometry().features.incompatible.contains(Incompatible::EXCHANGE_RANGE)
}

fn begin_exchange<'fs>(
    file_system: &'fs FileSystem,
    files: &mut Files<'_>,
    growth: u32,
) -> Result<Transaction<'fs>> {
    let mut tx = Transaction::begin_for(file_system, Operation::Remap)?;
    let ready = files.each().try_for_each(|inode| tx.extent_maps().ready_extents(inode, Fork::Data, growth));
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
    file_system: &FileSystem,
    files: &mut Files<'_>,
    range: &ExchangeRange,
) -> Result<Option<Plan>> {
    if !has_exchange_intents(file_system) && !range.without_intents {
        return Err(OperationError::CannotExchange.into());
    }
    SIDES.iter().try_for_each(|side| require_regular(files.get(*side)))?;
    let sizes = SIDES.map(|side| files.get(side).size_bytes());
    let invalid = || OperationError::InvalidRange;
    let left_bytes = [
        sizes[0].checked_sub(range.first_bytes).ok_or_else(invalid)?,
        sizes[1].checked_sub(range.second_bytes).ok_or_else(invalid)?,
    ];
    let file = file_system.edit_file(files.first)?;
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
