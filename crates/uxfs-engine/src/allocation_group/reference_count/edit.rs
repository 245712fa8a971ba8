//! Counting owners of blocks.
//!
//! Only counts from 2 on are recorded: blocks without a record have one owner, or none. Records of equal count that
//! touch are one record. A change goes from record to record and gap to gap through its range; one more or less for
//! all cannot make neighbours within the range equal, so records are merged at the borders of what was changed.

use uxfs_format::{
    btree::{
        BtreeKind,
        reference_count::{
            MAX_REFERENCE_COUNT, ReferenceCount, ReferenceCountFault, ReferenceCountPosition,
            ReferenceCountRecord, SharedExtent,
        },
    },
    units::AgBlock,
};

use crate::allocation_group::record_tree::RecordTree;
use uxfs_volume::error::Result;

/// One owner more or less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// One owner more.
    Increase,
    /// One owner less.
    Decrease,
}

/// Adds an owner to all blocks of a range, or takes one away; blocks that lose their last one are handed to `unowned`,
/// in order. Stops after `most_changes` records or gaps and says how many blocks it has done: the rest is for another
/// transaction.
#[doc(alias = "xfs_refcount_adjust")]
pub fn adjust<T: RecordTree<ReferenceCount>>(
    tree: &mut T,
    start: AgBlock,
    length_blocks: u32,
    change: Change,
    most_changes: u32,
    mut unowned: impl FnMut(AgBlock, u32),
) -> Result<u32> {
    let first = start.get();
    let end = first.saturating_add(length_blocks);
    let mut at = split_before(tree, first, end)?;
    let mut changes = 0;
    while at < end && changes < most_changes {
        changes += 1;
        let found = shared_from(tree, at)?;
        let gap_end = found.map_or(end, |found| found.start.get()).min(end);
        if at < gap_end {
            match change {
                Change::Increase => {
                    tree.insert(shared(at, gap_end - at, 2).into())?;
                    merge_at(tree, at)?;
                }
                Change::Decrease => unowned(AgBlock::new(at), gap_end - at),
            }
            at = gap_end;
            continue;
        }
        let Some(record) = found else { break };
        at = adjust_record(tree, record, end, change)?;
    }
    merge_at(tree, at)?;
    Ok(at.saturating_sub(first))
}

/// Changes the count of a record, up to `end`; gives where that was.
fn adjust_record<T: RecordTree<ReferenceCount>>(
    tree: &mut T,
    record: SharedExtent,
    end: u32,
    change: Change,
) -> Result<u32> {
    let (at, record_end) = (record.start.get(), end_of(&record));
    if record.count == MAX_REFERENCE_COUNT {
        // The one before may have come to the limit just now.
        merge_at(tree, at)?;
        return Ok(record_end.min(end));
    }
    let changed_end = record_end.min(end);
    if changed_end < record_end {
        tree.update(position_of(&record), shared(at, changed_end - at, record.count).into())?;
        tree.insert(shared(changed_end, record_end - changed_end, record.count).into())?;
    }
    let count = match change {
        Change::Increase => record.count + 1,
        Change::Decrease => record.count.saturating_sub(1),
    };
    if count < 2 {
        tree.delete(position_of(&record))?;
    } else {
        tree.update(position_of(&record), shared(at, changed_end - at, count).into())?;
        merge_at(tree, at)?;
    }
    Ok(changed_end)
}

/// Sees to it that a record begins at `at` where one goes on there. Gives where changes begin: behind a record there
/// whose count cannot change.
fn split_before<T: RecordTree<ReferenceCount>>(tree: &mut T, at: u32, end: u32) -> Result<u32> {
    let found = tree.at_or_before(position(at))?.map(|record| record.get());
    let Some(record) = found.filter(|record| record.start.get() < at && at < end_of(record)) else {
        return Ok(at);
    };
    if record.count == MAX_REFERENCE_COUNT {
        return Ok(end_of(&record).min(end));
    }
    let start = record.start.get();
    tree.update(position_of(&record), shared(start, at - start, record.count).into())?;
    tree.insert(shared(at, end_of(&record) - at, record.count).into())?;
    Ok(at)
}

/// Makes one record of two that touch at `at` and agree.
fn merge_at<T: RecordTree<ReferenceCount>>(tree: &mut T, at: u32) -> Result<()> {
    let Some(right) = tree.at_or_before(position(at))?.map(|record| record.get()) else { return Ok(()) };
    if right.start.get() != at {
        return Ok(());
    }
    let Some(left) = tree.previous()?.map(|record| record.get()) else { return Ok(()) };
    if end_of(&left) == at && left.count == right.count {
        tree.delete(position_of(&right))?;
        tree.update(position_of(&left), longer(&left, right.length_blocks).into())?;
    }
    Ok(())
}

/// Sets blocks aside for a copy-on-write.
#[doc(alias = "XFS_REFCOUNT_ADJUST_COW_ALLOC")]
pub fn stage<T: RecordTree<ReferenceCount>>(tree: &mut T, start: AgBlock, length_blocks: u32) -> Result<()> {
    let new = SharedExtent { start, length_blocks, count: 1, is_cow_staging: true };
    let left = tree.at_or_before(position_of(&new))?;
    let right = match left {
        Some(_) => tree.next()?,
        None => tree.at_or_after(position_of(&new))?,
    };
    let staged = |record: Option<ReferenceCountRecord>| {
        record.map(|record| record.get()).filter(|record| record.is_cow_staging)
    };
    let (left, right) = (staged(left), staged(right));
    let end = start.get().saturating_add(length_blocks);
    if left.is_some_and(|left| start.get() < end_of(&left))
        || right.is_some_and(|right| right.start.get() < end)
    {
        return Err(tree.damaged(ReferenceCountFault::AlreadyStaged { start, length_blocks }.into()));
    }
    let left = left.filter(|left| end_of(left) == start.get());
    let right = right.filter(|right| right.start.get() == end);
    match (left, right) {
        (Some(left), right) => {
            let mut whole = longer(&left, length_blocks);
            if let Some(right) = right {
                whole = longer(&whole, right.length_blocks);
                tree.delete(position_of(&right))?;
            }
            tree.update(position_of(&left), whole.into())
        }
        (None, Some(right)) => tree.update(position_of(&right), longer(&new, right.length_blocks).into()),
        (None, None) => tree.insert(new.into()),
    }
}

/// Ends the setting aside of blocks.
#[doc(alias = "XFS_REFCOUNT_ADJUST_COW_FREE")]
pub fn unstage<T: RecordTree<ReferenceCount>>(
    tree: &mut T,
    start: AgBlock,
    length_blocks: u32,
) -> Result<()> {
    let gone = SharedExtent { start, length_blocks, count: 1, is_cow_staging: true };
    let end = end_of(&gone);
    let found = tree.at_or_before(position_of(&gone))?.map(|record| record.get());
    let Some(record) = found.filter(|record| record.is_cow_staging && end <= end_of(record)) else {
        return Err(tree.damaged(ReferenceCountFault::NotStaged { start, length_blocks }.into()));
    };
    let before_blocks = start.get().saturating_sub(record.start.get());
    let behind = SharedExtent {
        start: AgBlock::new(end),
        length_blocks: end_of(&record).saturating_sub(end),
        ..record
    };
    match (before_blocks, behind.length_blocks) {
        (0, 0) => tree.delete(position_of(&record)),
        (0, _) => tree.update(position_of(&record), behind.into()),
        (length_blocks, behind_blocks) => {
            tree.update(position_of(&record), SharedExtent { length_blocks, ..record }.into())?;
            if behind_blocks > 0 { tree.insert(behind.into()) } else { Ok(()) }
        }
    }
}

/// The first blocks of a range that have several owners: where they begin and how many there are.
#[doc(alias = "xfs_refcount_find_shared")]
pub fn find_shared<T: RecordTree<ReferenceCount>>(
    tree: &mut T,
    start: AgBlock,
    length_blocks: u32,
) -> Result<Option<(AgBlock, u32)>> {
    let end = start.get().saturating_add(length_blocks);
    let covering = tree.at_or_before(position(start.get()))?.map(|record| record.get());
    let mut found = match covering.filter(|record| start.get() < end_of(record)) {
        Some(record) => Some(record),
        None => shared_from(tree, start.get())?,
    };
    let Some(first) = found.map(|record| record.start.get().max(start.get())).filter(|first| *first < end)
    else {
        return Ok(None);
    };
    let mut last = first;
    while let Some(record) = found.filter(|record| record.start.get() <= last && last < end) {
        last = end_of(&record).min(end);
        found = tree.next()?.map(|record| record.get()).filter(|record| !record.is_cow_staging);
    }
    Ok(Some((AgBlock::new(first), last - first)))
}

/// The first record of shared blocks that begins at or behind `at`.
fn shared_from<T: RecordTree<ReferenceCount>>(tree: &mut T, at: u32) -> Result<Option<SharedExtent>> {
    let found = tree.at_or_after(position(at))?.map(|record| record.get());
    Ok(found.filter(|record| !record.is_cow_staging))
}

fn shared(start: u32, length_blocks: u32, count: u32) -> SharedExtent {
    SharedExtent { start: AgBlock::new(start), length_blocks, count, is_cow_staging: false }
}

fn longer(extent: &SharedExtent, more_blocks: u32) -> SharedExtent {
    SharedExtent { length_blocks: extent.length_blocks.saturating_add(more_blocks), ..*extent }
}

fn end_of(extent: &SharedExtent) -> u32 {
    extent.start.get().saturating_add(extent.length_blocks)
}

fn position(start: u32) -> ReferenceCountPosition {
    ReferenceCountPosition { is_cow_staging: false, start: AgBlock::new(start) }
}

fn position_of(extent: &SharedExtent) -> ReferenceCountPosition {
    ReferenceCount::position_of_record(&ReferenceCountRecord::from(*extent))
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
