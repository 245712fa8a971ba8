//! Inodes and blocks of files that lie at the place of another: a write went to the wrong place, or two places were swapped. Where the
//! place that they name is damaged, they are put there.
//!
//! A stretch of the device that was moved or swapped was so as a whole: what is missing at a damaged place is looked for at the distances
//! at which others were found from their places, wherever that is.
//!
//! Invariants:
//! 1. Only what has a right checksum, and passes the verifier of the place that it names, is moved; and only to a damaged place.
//! 2. Everything is read before the first of it is written: two that were swapped are each at the place of the other.
//! 3. What is looked for at distances is read from the device as it was found: the stage may have something else there by now.

use std::collections::BTreeMap;

use uxfs_format::{
    checksum,
    fault::Structure,
    field_table::OnDisk,
    geometry::Geometry,
    inode::{InodeCore, core, verify_inode},
    seal::{lsn_of, own_sector, structure_of},
    units::{InodeNumber, Lsn, Sector},
};
use uxfs_volume::{error::Result, volume::Volume};

use super::{
    action::{Action, InodeSource},
    identity::{is_sound_at, owner_of},
    log_copies::{DamagedBlock, is_in_one_piece, length_bytes},
    stage::Stage,
    work::Work,
};
use crate::inode::gather::{byte_of, put_inode, read_inode};

/// Bytes that are moved in one pass; the next pass moves the rest.
const MOST_BYTES: usize = 64 << 20;
/// Damaged places that are asked for distances.
const MOST_PLACES: usize = 1 << 16;
/// Distances at which what is missing is looked for.
const MOST_DISTANCES: usize = 8;
const SECTOR_BYTES: u64 = 512;

/// Moves damaged inodes and these damaged blocks to their places.
///
/// # Errors
/// The device.
pub(super) fn put_home(
    volume: &Volume,
    stage: &Stage,
    work: &Work,
    blocks: &[DamagedBlock],
    actions: &mut Vec<Action>,
) -> Result<()> {
    let distances = Distances::of(stage, work, blocks)?.most_frequent();
    move_inodes(stage, work, actions)?;
    move_blocks(volume, stage, blocks, actions)?;
    for distance in distances {
        take_inodes(stage, work, distance, actions)?;
        take_blocks(volume, stage, blocks, distance, actions)?;
    }
    Ok(())
}

/// How far from their places inodes and blocks lie, in 512-byte units, and how many.
#[derive(Debug, Default)]
struct Distances(BTreeMap<i64, usize>);

impl Distances {
    /// Of what lies at damaged places.
    fn of(stage: &Stage, work: &Work, blocks: &[DamagedBlock]) -> Result<Self> {
        let (geometry, mut found) = (stage.geometry(), Self::default());
        for place in work.damaged_inodes.iter().take(MOST_PLACES) {
            let bytes = read_inode(stage, *place)?;
            if let Some(home) = number_elsewhere(&bytes, *place, stage) {
                found.add(sector_of_inode(geometry, *place), sector_of_inode(geometry, home));
            }
        }
        for block in blocks.iter().take(MOST_PLACES) {
            let mut bytes = vec![0; length_bytes(block.structure, geometry)];
            if stage.read_found_at(block.sector, &mut bytes).is_err() {
                continue;
            }
            if let Some(home) =
                own_sector(&bytes, geometry).filter(|home| is_sound_at(&bytes, *home, geometry))
            {
                found.add(Some(block.sector), Some(home));
            }
        }
        Ok(found)
    }

    /// Two stretches that were swapped lie at this distance before and behind their places.
    fn add(&mut self, place: Option<Sector>, home: Option<Sector>) {
        let (Some(place), Some(home)) = (place, home) else { return };
        let distance = place.get().cast_signed().wrapping_sub(home.get().cast_signed());
        if distance != 0 {
            *self.0.entry(distance).or_default() += 1;
            *self.0.entry(distance.wrapping_neg()).or_default() += 1;
        }
    }

    fn most_frequent(self) -> Vec<i64> {
        let mut all: Vec<(i64, usize)> = self.0.into_iter().collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        all.into_iter().take(MOST_DISTANCES).map(|(distance, _)| distance).collect()
    }
}

fn sector_of_inode(geometry: &Geometry, inode: InodeNumber) -> Option<Sector> {
    Some(Sector::new(byte_of(geometry, inode)? / SECTOR_BYTES))
}

/// Puts damaged inodes back that lie at this distance from their places.
fn take_inodes(stage: &Stage, work: &Work, distance: i64, actions: &mut Vec<Action>) -> Result<()> {
    let geometry = stage.geometry();
    for inode in &work.damaged_inodes {
        let there = read_inode(stage, *inode)?;
        let fault = match verify_inode(&there, *inode, geometry) {
            Ok(core) if !core.is_free() => continue,
            Ok(_) => None,
            Err(fault) => Some(fault),
        };
        let home = sector_of_inode(geometry, *inode);
        let Some(from) = home.and_then(|home| home.get().checked_add_signed(distance)).map(Sector::new)
        else {
            continue;
        };
        let mut bytes = vec![0; geometry.inode_size()];
        let is_found = stage.read_found_at(from, &mut bytes).is_ok()
            && verify_inode(&bytes, *inode, geometry).is_ok_and(|core| !core.is_free());
        if is_found {
            put_inode(stage, *inode, &bytes)?;
            let source = InodeSource::Displaced(from);
            actions.push(Action::InodeRebuilt { inode: *inode, source, fault });
        }
    }
    Ok(())
}

/// Puts these damaged blocks back where they lie at this distance from their places.
fn take_blocks(
    volume: &Volume,
    stage: &Stage,
    blocks: &[DamagedBlock],
    distance: i64,
    actions: &mut Vec<Action>,
) -> Result<()> {
    let geometry = stage.geometry();
    for block in blocks {
        let length = length_bytes(block.structure, geometry);
        let is_of_block = |bytes: &[u8]| {
            let owner = structure_of(bytes, geometry).and_then(|structure| owner_of(structure, bytes));
            owner == Some(block.inode.get())
                && own_sector(bytes, geometry) == Some(block.sector)
                && is_sound_at(bytes, block.sector, geometry)
        };
        let Some(from) = block.sector.get().checked_add_signed(distance).map(Sector::new) else { continue };
        let mut bytes = vec![0; length];
        if stage.read_found_at(from, &mut bytes).is_err() || !is_of_block(&bytes) {
            continue;
        }
        let mut there = vec![0; length];
        stage.read_at(block.sector, &mut there)?;
        let is_split = length > geometry.block_size() && !is_in_one_piece(volume, block, length);
        if let (false, false, Some(structure)) =
            (is_of_block(&there), is_split, structure_of(&bytes, geometry))
        {
            stage.write_at(block.sector, &bytes)?;
            actions.push(Action::BlockMoved { structure, inode: block.inode, sector: block.sector, from });
        }
    }
    Ok(())
}

/// The number that a whole inode says, where it lies at the place of another one.
pub(crate) fn number_elsewhere(bytes: &[u8], place: InodeNumber, stage: &Stage) -> Option<InodeNumber> {
    let core = InodeCore::prefix_of(bytes)?;
    let number = InodeNumber::new(core.number.get());
    let is_whole = core.magic.get() == core::MAGIC
        && core.uuid == stage.geometry().metadata_uuid
        && checksum::check(bytes, core::CHECKSUM_OFFSET_BYTES).is_ok();
    (is_whole && number != place).then_some(number)
}

fn move_inodes(stage: &Stage, work: &Work, actions: &mut Vec<Action>) -> Result<()> {
    let geometry = stage.geometry();
    let mut homes: BTreeMap<InodeNumber, (Lsn, InodeNumber, Vec<u8>)> = BTreeMap::new();
    // An inode that is free by the index may hold one in use, or the other way round.
    let damaged = [&work.damaged_inodes, &work.free_inodes, &work.free_in_use];
    let is_damaged = |inode: &InodeNumber| damaged.iter().any(|set| set.contains(inode));
    for place in damaged.into_iter().flatten() {
        if homes.len().saturating_mul(geometry.inode_size()) >= MOST_BYTES {
            break;
        }
        let bytes = read_inode(stage, *place)?;
        let Some(home) = number_elsewhere(&bytes, *place, stage) else { continue };
        // A free inode was moved with its neighbours: it is put where a free one belongs.
        let sound = verify_inode(&bytes, home, geometry);
        let sound = sound.ok().filter(|core| !core.is_free() || !work.damaged_inodes.contains(&home));
        let Some(lsn) = sound.map(|core| Lsn::new(core.lsn.get())) else { continue };
        let is_newest = homes.get(&home).is_none_or(|(other, ..)| *other < lsn);
        if is_newest && is_damaged(&home) {
            homes.insert(home, (lsn, *place, bytes));
        }
    }
    for (home, (lsn, from, bytes)) in homes {
        let there = read_inode(stage, home)?;
        let there = verify_inode(&there, home, geometry);
        if there.as_ref().is_ok_and(|core| core.lsn.get() >= lsn.get()) {
            // It is home already, or newer there: the index is wrong.
            continue;
        }
        let fault = there.err();
        put_inode(stage, home, &bytes)?;
        let is_free = InodeCore::prefix_of(&bytes).is_none_or(InodeCore::is_free);
        actions.push(match is_free {
            true => Action::FreeInode { inode: home },
            false => Action::InodeRebuilt { inode: home, source: InodeSource::Elsewhere(from), fault },
        });
    }
    Ok(())
}

fn move_blocks(
    volume: &Volume,
    stage: &Stage,
    blocks: &[DamagedBlock],
    actions: &mut Vec<Action>,
) -> Result<()> {
    let damaged: BTreeMap<Sector, &DamagedBlock> = blocks.iter().map(|block| (block.sector, block)).collect();
    let mut homes: BTreeMap<Sector, Moved> = BTreeMap::new();
    let mut held_bytes = 0_usize;
    for block in blocks {
        if held_bytes >= MOST_BYTES {
            break;
        }
        let Some(moved) = moved_block(volume, stage, block, &damaged) else { continue };
        if homes.get(&moved.home).is_none_or(|other| other.lsn < moved.lsn) {
            held_bytes = held_bytes.saturating_add(moved.bytes.len());
            homes.insert(moved.home, moved);
        }
    }
    for (sector, Moved { structure, inode, from, bytes, .. }) in homes {
        let mut there = vec![0; bytes.len()];
        stage.read_at(sector, &mut there)?;
        if there == bytes {
            // It is home already: what it belongs to is damaged elsewhere.
            continue;
        }
        stage.write_at(sector, &bytes)?;
        actions.push(Action::BlockMoved { structure, inode, sector, from });
    }
    Ok(())
}

struct Moved {
    structure: Structure,
    inode: InodeNumber,
    home: Sector,
    from: Sector,
    lsn: Lsn,
    bytes: Vec<u8>,
}

/// A block that lies at the place of `block`, and belongs to another damaged place.
fn moved_block(
    volume: &Volume,
    stage: &Stage,
    block: &DamagedBlock,
    damaged: &BTreeMap<Sector, &DamagedBlock>,
) -> Option<Moved> {
    let geometry = stage.geometry();
    let length = length_bytes(block.structure, geometry);
    let mut bytes = vec![0; length];
    stage.read_at(block.sector, &mut bytes).ok()?;
    let home = own_sector(&bytes, geometry).filter(|home| *home != block.sector)?;
    let owner = damaged.get(&home).filter(|home| length_bytes(home.structure, geometry) == length)?;
    let is_split = |block| length > geometry.block_size() && !is_in_one_piece(volume, block, length);
    if is_split(block) || is_split(owner) {
        return None;
    }
    let structure = structure_of(&bytes, geometry)?;
    let is_of_owner = owner_of(structure, &bytes) == Some(owner.inode.get());
    let is_whole = is_sound_at(&bytes, home, geometry);
    let lsn = lsn_of(&bytes, geometry).unwrap_or(Lsn::new(0));
    let (inode, from) = (owner.inode, block.sector);
    (is_of_owner && is_whole).then_some(Moved { structure, inode, home, from, lsn, bytes })
}
