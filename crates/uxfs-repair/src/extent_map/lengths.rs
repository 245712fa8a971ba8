//! Corrects the length of one extent without a reverse map: di_nblocks minus all other blocks of the inode.
//!
//! An impossible extent is the wrong one. If all extents are possible, the free space decides: after an extent that is too short,
//! blocks are neither free nor owned; the last blocks of an extent that is too long are free or have another owner. An extent is corrected
//! only if it alone accounts for all such blocks.

mod records;

use std::{collections::BTreeSet, ops::ControlFlow};

use uxfs_format::{
    btree::extent_map::Extent,
    geometry::Geometry,
    inode::Fork,
    units::{AgBlock, AgNumber, InodeNumber},
};
use uxfs_volume::{
    error::Result,
    inode::{Inode, scan::ScanOptions},
    volume::Volume,
};

use self::records::{Place, Records};
use super::{check::blocks_or_fault, contradicted::Undecided, rebuild::staged_inode};
use crate::repair::{action::Action, stage::Stage, work::Work};

/// Corrects a single wrong extent in each damaged or miscounted map. Returns whether it corrected any. `undecided` receives forks with
/// several candidates.
///
/// # Errors
/// The device.
pub(crate) fn mend(
    volume: &Volume,
    stage: &Stage,
    work: &Work,
    actions: &mut Vec<Action>,
    undecided: &mut Undecided,
) -> Result<bool> {
    let before = actions.len();
    if volume.geometry().features.has_reverse_map() {
        return Ok(false);
    }
    let miscounted = work.inode_blocks.iter().map(|(inode, _)| *inode);
    let inodes: BTreeSet<InodeNumber> = work.extent_maps.iter().copied().chain(miscounted).collect();
    for number in inodes {
        let Some(inode) = staged_inode(stage, number)? else { continue };
        for (fork, other) in [(Fork::Data, Fork::Attribute), (Fork::Attribute, Fork::Data)] {
            let records = Records { stage, inode: &inode, fork };
            // Blocks of the realtime section have numbers of their own.
            if fork == Fork::Data && inode.is_realtime() {
                continue;
            }
            let options = ScanOptions::in_order();
            let Some(others) = blocks_or_fault(volume, &inode, other, options) else { continue };
            let Some(map) = Map::read(&records, others)? else { continue };
            let found = match map.impossible {
                Impossible::None => map.told_by_free_space(&records, work)?,
                Impossible::One(wrong) => map.corrected(&records, &wrong).into(),
                Impossible::Several => Told::Nothing,
            };
            match found {
                Told::One(place, corrected) if records.put(place, &corrected)? => {
                    undecided.remove(&(number, fork == Fork::Attribute));
                    actions.push(Action::ExtentMap { inode: number, fork, extents: map.count });
                    break;
                }
                Told::Part => {
                    undecided.insert((number, fork == Fork::Attribute));
                }
                _ => {}
            }
        }
    }
    Ok(actions.len() > before)
}

/// What the extents of a fork add up to.
struct Map {
    count: u64,
    blocks: u64,
    /// The same as the inode counts them.
    wanted: u64,
    impossible: Impossible,
}

/// An extent with its place, and where the next one begins in the file.
#[derive(Debug, Clone, Copy)]
struct Slot {
    extent: Extent,
    place: Place,
    next: u64,
}

enum Impossible {
    None,
    One(Slot),
    Several,
}

/// Which extent is wrong.
enum Told {
    Nothing,
    /// Several candidates.
    Part,
    /// This one, with what it should be.
    One(Place, Extent),
}

impl From<Option<(Place, Extent)>> for Told {
    fn from(found: Option<(Place, Extent)>) -> Self {
        found.map_or(Self::Nothing, |(place, extent)| Self::One(place, extent))
    }
}

impl Map {
    /// `others`: blocks of the other fork. `None` where more than lengths is wrong.
    fn read(records: &Records<'_>, others: u64) -> Result<Option<Self>> {
        let geometry = records.stage.geometry();
        let mut map = Self { count: 0, blocks: 0, wanted: 0, impossible: Impossible::None };
        let btree_blocks = visit_slots(records, &mut |slot| {
            map.count += 1;
            map.blocks = map.blocks.saturating_add(slot.extent.length_blocks);
            if !is_possible(&slot.extent, slot.next, geometry) {
                map.impossible = match map.impossible {
                    Impossible::None => Impossible::One(slot),
                    _ => Impossible::Several,
                };
            }
            ControlFlow::Continue(())
        })?;
        let counted = records.inode.blocks();
        let wanted = btree_blocks.and_then(|blocks| counted.checked_sub(others)?.checked_sub(blocks));
        let is_whole = map.count == records.inode.extent_count(records.fork);
        Ok(wanted.filter(|_| is_whole).map(|wanted| Self { wanted, ..map }))
    }

    /// An extent with which the blocks add up, if it can be.
    fn corrected(&self, records: &Records<'_>, slot: &Slot) -> Option<(Place, Extent)> {
        let others = self.blocks.checked_sub(slot.extent.length_blocks)?;
        let corrected = Extent { length_blocks: self.wanted.checked_sub(others)?, ..slot.extent };
        let is_right = is_possible(&corrected, slot.next, records.stage.geometry());
        is_right.then_some((slot.place, corrected))
    }

    /// The only extent that accounts for all contradicted blocks.
    fn told_by_free_space(&self, records: &Records<'_>, work: &Work) -> Result<Told> {
        let is_miscounted = work.inode_blocks.iter().any(|(inode, _)| *inode == records.inode.number);
        // Blocks that seem unused may be those of a map that cannot be read.
        if self.blocks == self.wanted || !is_miscounted || !work.extent_maps.is_empty() {
            return Ok(Told::Nothing);
        }
        let geometry = records.stage.geometry();
        let mut told = Told::Nothing;
        visit_slots(records, &mut |slot| {
            let Some(end) = end_of(&slot.extent, geometry) else { return ControlFlow::Continue(()) };
            let found = self.corrected(records, &slot).filter(|(_, corrected)| {
                let corrected_end = end_of(corrected, geometry);
                corrected_end.is_some_and(|corrected| are_contradicted(records.inode, work, end, corrected))
            });
            told = match (&told, found) {
                (Told::Nothing, Some((place, corrected))) => Told::One(place, corrected),
                (_, Some(_)) => Told::Part,
                (Told::Nothing, None) if self.blocks < self.wanted && work.unused.contains_key(&end) => {
                    Told::Part
                }
                _ => return ControlFlow::Continue(()),
            };
            ControlFlow::Continue(())
        })?;
        Ok(told)
    }
}

/// Whether an extent may be, before one that begins at this block of the file.
fn is_possible(extent: &Extent, next: u64, geometry: &Geometry) -> bool {
    extent.length_blocks > 0 && extent.verify_place(geometry).is_ok() && extent.end().get() <= next
}

/// Visits all extents of a fork. Gives the number of blocks of its btree; `None` where more than records is wrong.
fn visit_slots(records: &Records<'_>, visit: &mut dyn FnMut(Slot) -> ControlFlow<()>) -> Result<Option<u64>> {
    let mut last: Option<(Extent, Place)> = None;
    let blocks = records.visit(&mut |extent, place| {
        if let Some((extent_before, place)) = last.replace((extent, place)) {
            visit(Slot { extent: extent_before, place, next: extent.file_block.get() })?;
        }
        ControlFlow::Continue(())
    })?;
    if let Some((extent, place)) = last {
        let _ = visit(Slot { extent, place, next: u64::MAX });
    }
    Ok(blocks)
}

/// The block behind an extent.
fn end_of(extent: &Extent, geometry: &Geometry) -> Option<(AgNumber, AgBlock)> {
    let (group, start) = geometry.split_fs_block(extent.start)?;
    let end = u64::from(start.get()).checked_add(extent.length_blocks)?;
    Some((group, AgBlock::new(u32::try_from(end).ok()?)))
}

/// Whether all blocks between two ends of an extent support the second end: they are unused, or another owner has them.
fn are_contradicted(
    inode: &Inode,
    work: &Work,
    (group, end): (AgNumber, AgBlock),
    (_, corrected): (AgNumber, AgBlock),
) -> bool {
    let run_from = |start: AgBlock| {
        if corrected > end {
            return work.unused.get(&(group, start)).copied();
        }
        let free = (inode.number, group, start, 0)..=(inode.number, group, start, u32::MAX);
        let free = work.in_free_space.range(free).next().map(|(.., length)| *length);
        free.or_else(|| work.used_twice.get(&(inode.number, group, start)).copied())
    };
    let (mut at, behind) = (end.min(corrected), end.max(corrected));
    while at < behind {
        let Some(length) = run_from(at).filter(|length| *length > 0) else { return false };
        at = AgBlock::new(at.get().saturating_add(length));
    }
    at == behind
}
