//! Giving blocks to owners and taking them away.
//!
//! Every change finds the records that it is about, computes what takes their place ([`change`](mod@super::change)) and
//! makes the difference. Only the finding depends on whether other files may share the blocks: then records overlap, the
//! neighbour that a mapping goes on from may lie anywhere before it, and a record whose start moves must be put
//! elsewhere.

use uxfs_format::{
    btree::{
        BtreeKind,
        reverse_map::{Mapping, Owner, ReverseMap, ReverseMapFault, ReverseMapPosition, ReverseMapRecord},
    },
    units::{AgBlock, FileBlock},
};

use super::change::{self, Pieces};
use crate::allocation_group::record_tree::OwnerTree;
use uxfs_volume::error::{Error, Result};

/// Whether other owners may have the same blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// No.
    Exclusive,
    /// Data of an inode that carries the "reflink" flag.
    Possible,
}

/// Gives the blocks of `new` to its owner.
#[doc(alias = "xfs_rmap_map")]
#[doc(alias = "xfs_rmap_map_shared")]
pub fn map<T: OwnerTree>(tree: &mut T, new: Mapping, sharing: Sharing) -> Result<()> {
    let (left, right) = match sharing {
        Sharing::Exclusive => neighbours(tree, &new)?,
        Sharing::Possible => (shared_left(tree, &new)?, shared_right(tree, &new)?),
    };
    let (old, new) = change::mapped(left, new, right);
    replace(tree, old, new, sharing)
}

/// Adds many unshared mappings in ascending order. Between two that follow each other in the tree nothing is looked up.
#[derive(Debug, Default)]
pub struct Ascending {
    /// The last record, and the one behind it, where that is known.
    neighbours: Option<(Mapping, Option<Mapping>)>,
}

impl Ascending {
    /// Gives the blocks of `new` to its owner. Nothing else may have changed the tree since the last call.
    pub fn map<T: OwnerTree>(&mut self, tree: &mut T, new: Mapping) -> Result<()> {
        let known = self.neighbours.take();
        let known = known.filter(|(left, right)| {
            left.start < new.start && right.is_none_or(|right| new.start < right.start)
        });
        let (left, right) = match known {
            Some((left, right)) => checked(tree, &new, Some(left), right)?,
            None => neighbours(tree, &new)?,
        };
        let (old, changed) = change::mapped(left, new, right);
        let is_right_apart = right.is_none_or(|right| !change::continues(&new, &right));
        if let Some(last) = changed.iter().next().filter(|_| is_right_apart) {
            self.neighbours = Some((*last, right));
        }
        replace(tree, old, changed, Sharing::Exclusive)
    }
}

/// Takes the blocks of `gone` from its owner. The record may hold more; file block and flags must agree.
#[doc(alias = "xfs_rmap_unmap")]
#[doc(alias = "xfs_rmap_unmap_shared")]
pub fn unmap<T: OwnerTree>(tree: &mut T, gone: Mapping, sharing: Sharing) -> Result<()> {
    let record = record_of(tree, &gone, sharing)?;
    let (old, new) = change::unmapped(record, &gone);
    replace(tree, old, new, sharing)
}

/// Makes the blocks of `new` written or unwritten as it says; so far they are the opposite.
#[doc(alias = "xfs_rmap_convert")]
#[doc(alias = "xfs_rmap_convert_shared")]
pub fn convert<T: OwnerTree>(tree: &mut T, new: Mapping, sharing: Sharing) -> Result<()> {
    let record = record_of(tree, &Mapping { is_unwritten: !new.is_unwritten, ..new }, sharing)?;
    let is_at_start = record.start == new.start;
    let is_at_end = record.end() == new.end();
    let (mut left, mut right) = (None, None);
    match sharing {
        Sharing::Possible => {
            if is_at_start {
                left = shared_left(tree, &new)?;
            }
            if is_at_end {
                right = shared_right(tree, &new)?;
            }
        }
        // The place is at the record.
        Sharing::Exclusive => {
            if is_at_end {
                right = tree.next()?.map(|record| record.get());
            }
            if is_at_start {
                let found = tree.at_or_before(position_before(&record))?;
                left = found.map(|record| record.get());
            }
        }
    }
    let (old, new) = change::converted(left, record, new, right);
    replace(tree, old, new, sharing)
}

/// Removes the mapping of blocks whose owner is unknown: an intent to free in a log does not name it. If the intent was
/// carried out before, but its end was not logged, the blocks have no owner any more. The blocks of a file's contents lose
/// their owner by an intent of its own, which recovery has carried out before: those that still have one belong to a file, and
/// the intent is damage.
#[doc(alias = "XFS_RMAP_OWN_UNKNOWN")]
pub fn unmap_unknown<T: OwnerTree>(tree: &mut T, start: AgBlock, length_blocks: u32) -> Result<()> {
    let last = ReverseMapPosition { start, owner: u64::MAX, offset: u64::MAX };
    let end = AgBlock::new(start.get().saturating_add(length_blocks));
    let found = tree.at_or_before(last)?.map(|record| record.get());
    let unknown = || ReverseMapFault::NotOwned { start, length_blocks, owner: Owner::Other(-2) };
    let Some(record) = found.filter(|record| record.end() > start) else {
        let next = match found {
            Some(_) => tree.next()?,
            None => tree.at_or_after(last)?,
        };
        return match next {
            Some(next) if next.get().start < end => Err(tree.damaged(unknown().into())),
            _ => Ok(()),
        };
    };
    let is_whole = end <= record.end() && !record.has_file_blocks();
    let Some(gone) = change::part(&record, start, end).filter(|_| is_whole) else {
        return Err(tree.damaged(unknown().into()));
    };
    let (old, new) = change::unmapped(record, &gone);
    replace(tree, old, new, Sharing::Exclusive)
}

/// The records before and behind an unshared mapping, which must leave room for it.
fn neighbours<T: OwnerTree>(tree: &mut T, new: &Mapping) -> Result<(Option<Mapping>, Option<Mapping>)> {
    let position = position_of(new);
    let left = tree.at_or_before(position)?;
    let right = match left {
        Some(_) => tree.next()?,
        None => tree.at_or_after(position)?,
    };
    checked(tree, new, left.map(|record| record.get()), right.map(|record| record.get()))
}

/// The neighbours of an unshared mapping, if they leave room for it.
fn checked<T: OwnerTree>(
    tree: &T,
    new: &Mapping,
    left: Option<Mapping>,
    right: Option<Mapping>,
) -> Result<(Option<Mapping>, Option<Mapping>)> {
    let overlaps = |other: &&Mapping| other.overlaps(new.start, new.end());
    if let Some(other) = left.as_ref().filter(overlaps).or(right.as_ref().filter(overlaps)) {
        let Mapping { start, length_blocks, owner, .. } = *new;
        let fault = ReverseMapFault::AlreadyOwned { start, length_blocks, owner, found: other.owner };
        return Err(tree.damaged(fault.into()));
    }
    Ok((left, right))
}

/// The record that holds all of `wanted`. An unshared one lies at or before the position of `wanted`.
fn record_of<T: OwnerTree>(tree: &mut T, wanted: &Mapping, sharing: Sharing) -> Result<Mapping> {
    let holds = |record: &Mapping| change::contains(record, wanted);
    let found = tree.at_or_before(position_of(wanted))?.map(|record| record.get()).filter(holds);
    let found = match (found, sharing) {
        (None, Sharing::Possible) => tree.find_covering(wanted.start, &holds)?,
        (found, _) => found,
    };
    found.ok_or_else(|| not_owned(tree, wanted))
}

/// The record that `new` goes on from, among those that overlap.
fn shared_left<T: OwnerTree>(tree: &mut T, new: &Mapping) -> Result<Option<Mapping>> {
    let Some(before) = new.start.get().checked_sub(1).map(AgBlock::new) else { return Ok(None) };
    let goes_on = |record: &Mapping| change::continues(record, new);
    let nearest = tree.at_or_before(position_before(new))?.map(|record| record.get()).filter(goes_on);
    match nearest {
        Some(nearest) => Ok(Some(nearest)),
        None => tree.find_covering(before, &goes_on),
    }
}

/// The record that goes on from `new`: there is one place where it can stand.
fn shared_right<T: OwnerTree>(tree: &mut T, new: &Mapping) -> Result<Option<Mapping>> {
    let advance = if new.has_file_blocks() { u64::from(new.length_blocks) } else { 0 };
    let file_block = FileBlock::new(new.file_block.get().saturating_add(advance));
    let right = position_of(&Mapping { start: new.end(), file_block, ..*new });
    let found = tree.at_or_after(right)?.map(|record| record.get());
    Ok(found.filter(|found| change::continues(new, found)))
}

/// Makes `new` out of `old`. Records that stay where they stand are changed there.
fn replace<T: OwnerTree>(tree: &mut T, mut old: Pieces, mut new: Pieces, sharing: Sharing) -> Result<()> {
    let before = old;
    for record in before.iter() {
        let position = position_of(record);
        let Some(changed) = new.take(|mapping| position_of(mapping) == position) else { continue };
        old.take(|mapping| mapping == record);
        if changed != *record {
            tree.update(position, changed.into())?;
        }
    }
    // Nothing of another owner lies between, so that the order cannot change.
    if sharing == Sharing::Exclusive
        && let Some(record) = old.take(|_| true)
    {
        match new.take(|_| true) {
            Some(moved) => tree.update(position_of(&record), moved.into())?,
            None => tree.delete(position_of(&record))?,
        }
    }
    for record in old.iter() {
        tree.delete(position_of(record))?;
    }
    for record in new.iter() {
        tree.insert((*record).into())?;
    }
    Ok(())
}

fn position_of(mapping: &Mapping) -> ReverseMapPosition {
    ReverseMap::position_of_record(&ReverseMapRecord::from(*mapping))
}

/// The last possible position before that of a mapping.
fn position_before(mapping: &Mapping) -> ReverseMapPosition {
    let position = position_of(mapping);
    match position.owner.checked_sub(1) {
        Some(owner) => ReverseMapPosition { owner, offset: u64::MAX, ..position },
        None => ReverseMapPosition {
            start: AgBlock::new(position.start.get().saturating_sub(1)),
            owner: u64::MAX,
            offset: u64::MAX,
        },
    }
}

fn not_owned<T: OwnerTree>(tree: &T, wanted: &Mapping) -> Error {
    let Mapping { start, length_blocks, owner, .. } = *wanted;
    tree.damaged(ReverseMapFault::NotOwned { start, length_blocks, owner }.into())
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
