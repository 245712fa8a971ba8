//! Inodes and blocks of files that are older than the log says: the log's changes are put over what lies on the device. Where structures
//! of a group are older, so may all of its inodes be: those that the log has in use come back.
//!
//! Where the ring no longer has all that changed, or the result would not pass its verifier, the device's version stays and gets the
//! number of the last change: what it contradicts decides about it, as about any other damage.

use std::collections::BTreeSet;

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    checksum,
    fault::Structure,
    field_table::OnDisk,
    geometry::Geometry,
    inode::{Fork, InodeCore, core, verify_inode},
    seal::{seal, structure_of},
    units::{AgInode, AgNumber, InodeNumber, Lsn, Sector},
};
use uxfs_journal::copies::{LogCopies, Wanted};
use uxfs_volume::{
    error::Result,
    metadata::{MetadataOwner, OlderMetadata},
    volume::Volume,
};

use super::{
    action::{Action, InodeSource},
    identity::is_sound_block_of,
    log_copies::length_bytes,
    stage::Stage,
};
use crate::inode::gather::{change_core, put_inode, read_inode};

/// Brings inodes and blocks up to date. `log` is the device with the log as it was found, where its copies may be used.
///
/// # Errors
/// The device; temporary files.
pub(super) fn bring_up_to_date(
    volume: &Volume,
    stage: &Stage,
    log: Option<&dyn BlockDevice>,
    (older, given_up): (&[OlderMetadata], &BTreeSet<InodeNumber>),
    actions: &mut Vec<Action>,
) -> Result<()> {
    let (mut wanted, mut groups) = (Wanted::default(), BTreeSet::new());
    for older in older {
        match older.owner {
            MetadataOwner::Group(group) => {
                groups.insert(group);
            }
            MetadataOwner::Inode(inode) if older.structure == Structure::Inode => wanted.add_inode(inode),
            MetadataOwner::Inode(inode) => {
                let length_bytes = length_bytes(older.structure, stage.geometry());
                for (sector, length) in pieces(volume, inode, older.sector, length_bytes) {
                    wanted.add_block(sector.get(), length as u64 / 512);
                }
            }
        }
    }
    groups.iter().for_each(|group| wanted.add_group(stage.geometry(), *group));
    let copies = log.and_then(|log| LogCopies::gather(log, stage.geometry(), &wanted).ok());
    let copies = copies.unwrap_or_default();
    for older in older {
        match older.owner {
            MetadataOwner::Group(_) => {}
            MetadataOwner::Inode(inode) if older.structure == Structure::Inode => {
                bring_inode(stage, &copies, inode, older, actions)?;
            }
            MetadataOwner::Inode(inode) => bring_block(volume, stage, &copies, inode, older, actions)?,
        }
    }
    bring_inodes_of(stage, &copies, (&groups, given_up), actions)
}

/// Inodes of groups whose headers or btrees are older than the log says: what is on the device may be from a time before an inode was
/// made, and then has no number of a transaction.
fn bring_inodes_of(
    stage: &Stage,
    copies: &LogCopies,
    (groups, given_up): (&BTreeSet<AgNumber>, &BTreeSet<InodeNumber>),
    actions: &mut Vec<Action>,
) -> Result<()> {
    let geometry = stage.geometry();
    for (inode, copy) in copies.inodes() {
        let is_of_group =
            geometry.split_inode_number(inode).is_some_and(|(group, _)| groups.contains(&group));
        let is_in_use = copy.core().is_some_and(|core| !core.is_free());
        if !is_of_group || !is_in_use || !copy.is_whole() || given_up.contains(&inode) {
            continue;
        }
        let device = read_inode(stage, inode)?;
        let is_current = verify_inode(&device, inode, geometry)
            .is_ok_and(|core| Lsn::new(core.lsn.get()) >= copy.lsn && core.lsn.get() != Lsn::NULL.get());
        if is_current {
            continue;
        }
        let mut bytes = copy.bytes.clone();
        let Some(core) = InodeCore::prefix_of_mut(&mut bytes) else { continue };
        core.next_unlinked.set(AgInode::NULL.get());
        checksum::seal(&mut bytes, core::CHECKSUM_OFFSET_BYTES);
        if verify_inode(&bytes, inode, geometry).is_ok() {
            put_inode(stage, inode, &bytes)?;
            actions.push(Action::InodeRebuilt { inode, source: InodeSource::Log, fault: None });
        }
    }
    Ok(())
}

fn bring_inode(
    stage: &Stage,
    copies: &LogCopies,
    inode: InodeNumber,
    older: &OlderMetadata,
    actions: &mut Vec<Action>,
) -> Result<()> {
    let device = read_inode(stage, inode)?;
    let made = copies.inode(inode).and_then(|copy| copy.over(&device)).and_then(|mut bytes| {
        let core = InodeCore::prefix_of_mut(&mut bytes)?;
        // The list of unlinked inodes is logged with their cluster, not with them.
        core.next_unlinked = InodeCore::prefix_of(&device)?.next_unlinked;
        core.lsn.set(older.logged.get().max(core.lsn.get()));
        checksum::seal(&mut bytes, core::CHECKSUM_OFFSET_BYTES);
        verify_inode(&bytes, inode, stage.geometry()).is_ok().then_some(bytes)
    });
    match made {
        Some(bytes) => {
            put_inode(stage, inode, &bytes)?;
            actions.push(Action::InodeRebuilt { inode, source: InodeSource::Log, fault: None });
        }
        None => {
            change_core(stage, inode, |core, _| core.lsn.set(older.logged.get()))?;
            let (structure, sector) = (Structure::Inode, older.sector);
            actions.push(Action::OlderKept { structure, inode, sector });
        }
    }
    Ok(())
}

fn bring_block(
    volume: &Volume,
    stage: &Stage,
    copies: &LogCopies,
    inode: InodeNumber,
    older: &OlderMetadata,
    actions: &mut Vec<Action>,
) -> Result<()> {
    let geometry = stage.geometry();
    let OlderMetadata { structure, sector, logged, .. } = *older;
    let pieces = pieces(volume, inode, sector, length_bytes(structure, geometry));
    let (mut device, mut made, mut is_logged) = (Vec::new(), Vec::new(), false);
    for (sector, length) in &pieces {
        let mut bytes = vec![0; *length];
        stage.read_at(*sector, &mut bytes)?;
        device.extend_from_slice(&bytes);
        is_logged |= copies.read(sector.get(), &mut bytes).contains(&true);
        made.extend_from_slice(&bytes);
    }
    seal(&mut made, Some(logged), geometry);
    let is_made = is_logged && is_whole(&made, inode, sector, geometry);
    if !is_made {
        made = device;
        // The same number again would be compared again.
        let kept = if older.found == logged { Lsn::new(0) } else { logged };
        seal(&mut made, Some(kept), geometry);
    }
    let mut rest = made.as_slice();
    for (sector, length) in pieces {
        let Some((piece, behind)) = rest.split_at_checked(length) else { break };
        stage.write_at(sector, piece)?;
        rest = behind;
    }
    actions.push(match is_made {
        true => Action::BlockFromLog { structure, inode, sector },
        false => Action::OlderKept { structure, inode, sector },
    });
    Ok(())
}

fn is_whole(bytes: &[u8], inode: InodeNumber, sector: Sector, geometry: &Geometry) -> bool {
    structure_of(bytes, geometry)
        .is_some_and(|structure| is_sound_block_of(inode, structure, bytes, sector, geometry))
}

/// Where a block of a file lies that begins at a sector: blocks of directories may lie in several extents. A block of which a part is
/// not mapped is one piece.
fn pieces(volume: &Volume, inode: InodeNumber, sector: Sector, length_bytes: usize) -> Vec<(Sector, usize)> {
    let whole = vec![(sector, length_bytes)];
    if length_bytes <= volume.geometry().block_size() {
        return whole;
    }
    pieces_by_map(volume, inode, sector, length_bytes).unwrap_or(whole)
}

fn pieces_by_map(
    volume: &Volume,
    inode: InodeNumber,
    sector: Sector,
    length_bytes: usize,
) -> Option<Vec<(Sector, usize)>> {
    let geometry = volume.geometry();
    let inode = volume.inode(inode).ok()?;
    let map = volume.extent_map(&inode, Fork::Data).ok()?;
    let sectors_per_block = u64::from(geometry.sectors_per_block());
    let place_of = |file_block: u64| {
        map.iter().find_map(|extent| {
            let skipped = file_block.checked_sub(extent.file_block.get())?;
            let first = geometry.sector_of_block(extent.start)?;
            let sector = first.get().saturating_add(skipped.saturating_mul(sectors_per_block));
            (skipped < extent.length_blocks).then_some(Sector::new(sector))
        })
    };
    let first = map.iter().find_map(|extent| {
        let start = geometry.sector_of_block(extent.start)?;
        let skipped = sector.get().checked_sub(start.get())? / sectors_per_block.max(1);
        (skipped < extent.length_blocks).then(|| extent.file_block.get().saturating_add(skipped))
    })?;
    let blocks = length_bytes.div_ceil(geometry.block_size().max(1)) as u64;
    let pieces =
        (first..first.saturating_add(blocks)).map(|block| Some((place_of(block)?, geometry.block_size())));
    pieces.collect()
}
