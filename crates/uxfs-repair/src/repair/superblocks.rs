//! Superblocks: the primary one from a copy, copies from it, and the counters from the groups.

use uxfs_filesystem::recovery::counters;
use uxfs_format::{
    checksum,
    field_table::OnDisk,
    superblock::{CHECKSUM_OFFSET_BYTES, Superblock},
};
use uxfs_volume::{error::Result, volume::Volume};

use super::{action::Action, stage::Stage, work::Work};

/// Writes what is wrong of the superblocks.
pub(super) fn write(volume: &Volume, stage: &Stage, work: &Work, actions: &mut Vec<Action>) -> Result<()> {
    if work.primary_superblock {
        // The volume has chosen one, and has named root directory and realtime inodes in it.
        write_superblock(stage, 0, volume.superblock())?;
        actions.push(Action::PrimarySuperblock);
    }
    for group in &work.superblock_copies {
        let mut copy = *volume.superblock();
        // As mkfs.xfs leaves copies.
        copy.in_progress = 1;
        write_superblock(stage, group.get(), &copy)?;
        actions.push(Action::SuperblockCopy { group: *group });
    }
    if work.counters || work.primary_superblock {
        // Groups that are still damaged are counted in a later pass.
        if counters::of_groups(volume).is_ok() {
            correct_counters(stage)?;
            actions.push(Action::Counters);
        }
    }
    Ok(())
}

fn correct_counters(stage: &Stage) -> Result<()> {
    let options = uxfs_volume::volume::VolumeOptions::default();
    let volume = Volume::open(stage.device(), &options)?;
    counters::correct(&volume)
}

fn write_superblock(stage: &Stage, group: u32, superblock: &Superblock) -> Result<()> {
    let geometry = stage.geometry();
    let group = uxfs_format::units::AgNumber::new(group);
    let sector =
        geometry.sector_of_group_header(group, 0).ok_or(uxfs_volume::error::OperationError::NoSuchGroup)?;
    let mut bytes = vec![0; geometry.sector_size_bytes as usize];
    if let Some(place) = bytes.get_mut(..Superblock::SIZE_BYTES) {
        place.copy_from_slice(superblock.disk_bytes());
    }
    checksum::seal(&mut bytes, CHECKSUM_OFFSET_BYTES);
    stage.write_at(sector, &bytes)
}
