//! Superblocks: the primary one from a copy, copies from it, and the counters from the groups.

use uxfs_filesystem::recovery::counters;
use uxfs_format::{
    checksum,
    features::VersionBits,
    field_table::OnDisk,
    superblock::{CHECKSUM_OFFSET_BYTES, Superblock},
    units::{AgNumber, Sector},
};
use uxfs_volume::{
    error::{OperationError, Result},
    volume::Volume,
};

use zerocopy::big_endian::U16;

use super::{action::Action, stage::Stage, work::Work};
use crate::superblock::fields;

/// Writes what is wrong of the superblocks.
pub(super) fn write(volume: &Volume, stage: &Stage, work: &Work, actions: &mut Vec<Action>) -> Result<()> {
    if work.primary_superblock {
        // The volume has chosen one, and has named root directory and realtime inodes in it.
        write_superblock(stage, 0, volume.superblock())?;
        actions.push(Action::PrimarySuperblock);
    }
    if work.superblock_fields || work.attribute_bit {
        let sector = sector_of(stage, AgNumber::new(0))?;
        let mut bytes = vec![0; stage.geometry().sector_size_bytes as usize];
        stage.read_at(sector, &mut bytes)?;
        if work.superblock_fields {
            actions.push(Action::SuperblockFields);
        }
        if work.attribute_bit
            && let Some(superblock) = Superblock::prefix_of_mut(&mut bytes)
        {
            superblock.version_number |= U16::new(VersionBits::ATTRIBUTES.bits());
            actions.push(Action::SuperblockAttributes);
        }
        write_sector(stage, sector, bytes)?;
    }
    for group in &work.superblock_copies {
        let mut copy = *volume.superblock();
        // As mkfs.xfs leaves copies.
        copy.in_progress = 1;
        // Linux sets them in the first superblock only, while its log needs them.
        copy.log_incompatible.set(0);
        if !stage.geometry().features.has_metadata_directory() {
            copy.user_quota_inode.set(0);
            copy.group_quota_inode.set(0);
            copy.project_quota_inode.set(0);
            copy.quota_flags.set(0);
        }
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
    let sector = sector_of(stage, AgNumber::new(group))?;
    let mut bytes = vec![0; stage.geometry().sector_size_bytes as usize];
    if let Some(place) = bytes.get_mut(..Superblock::SIZE_BYTES) {
        place.copy_from_slice(superblock.disk_bytes());
    }
    write_sector(stage, sector, bytes)
}

fn sector_of(stage: &Stage, group: AgNumber) -> Result<Sector> {
    Ok(stage.geometry().sector_of_group_header(group, 0).ok_or(OperationError::NoSuchGroup)?)
}

/// Writes a superblock without values that it may not have.
fn write_sector(stage: &Stage, sector: Sector, mut bytes: Vec<u8>) -> Result<()> {
    fields::make_neutral(&mut bytes);
    checksum::seal(&mut bytes, CHECKSUM_OFFSET_BYTES);
    stage.write_at(sector, &bytes)
}

/// Puts the superblock of group 0 in place that all copies ask for. Gives the bytes that lay there.
pub(super) fn replace_primary(stage: &Stage, superblock: &Superblock) -> Result<Vec<u8>> {
    let sector = sector_of(stage, AgNumber::new(0))?;
    let mut before = vec![0; stage.geometry().sector_size_bytes as usize];
    stage.read_at(sector, &mut before)?;
    write_superblock(stage, 0, superblock)?;
    Ok(before)
}

/// Puts back what lay in place of the superblock of group 0.
pub(super) fn put_back_primary(stage: &Stage, bytes: &[u8]) -> Result<()> {
    stage.write_at(sector_of(stage, AgNumber::new(0))?, bytes)
}
