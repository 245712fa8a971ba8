//! Inodes and blocks of files that lie at the place of another: a write went to the wrong place, or two places were swapped. Where the
//! place that they name is damaged, they are put there.
//!
//! Invariants:
//! 1. Only what has a right checksum, and passes the verifier of the place that it names, is moved; and only to a damaged place.
//! 2. Everything is read before the first of it is written: two that were swapped are each at the place of the other.

use std::collections::BTreeMap;

use uxfs_format::{
    checksum,
    fault::Structure,
    field_table::OnDisk,
    inode::{InodeCore, core, verify_inode},
    seal::{checksum_offset_of, lsn_of, own_sector, structure_of},
    units::{InodeNumber, Lsn, Sector},
    verify::{VerifyContext, verify},
};
use uxfs_volume::{error::Result, volume::Volume};

use super::{
    action::{Action, InodeSource},
    identity::owner_of,
    log_copies::{DamagedBlock, is_in_one_piece, length_bytes},
    stage::Stage,
    work::Work,
};
use crate::inode::gather::{put_inode, read_inode};

/// Bytes that are moved in one pass; the next pass moves the rest.
const MOST_BYTES: usize = 64 << 20;

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
    move_inodes(stage, work, actions)?;
    move_blocks(volume, stage, blocks, actions)
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
    let is_whole = checksum::check(&bytes, checksum_offset_of(structure)?).is_ok()
        && verify(structure, &bytes, &VerifyContext::new(geometry, home)).is_ok();
    let lsn = lsn_of(&bytes, geometry).unwrap_or(Lsn::new(0));
    let (inode, from) = (owner.inode, block.sector);
    (is_of_owner && is_whole).then_some(Moved { structure, inode, home, from, lsn, bytes })
}
