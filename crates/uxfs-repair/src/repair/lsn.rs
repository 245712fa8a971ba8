//! Log sequence numbers that no log can have reached: they are cleared, where a log ahead of them could not be used.

use uxfs_format::{
    checksum,
    describe::{describe, leaves::leaves},
    fault::{Location, Structure},
    field_table::{FieldFormat, OnDisk},
    geometry::Geometry,
    inode::InodeCore,
    seal::{lsn_of, structure_of},
    units::Lsn,
};
use uxfs_volume::error::Result;

use super::{action::Action, stage::Stage};

/// Cycles from here on are damage: no log is written so often, and twice as many would be taken for negative numbers.
const FIRST_ABSURD_CYCLE: u32 = 1 << 30;

/// Whether a log sequence number is damaged, and not of a log that was replaced.
pub(crate) fn is_absurd(lsn: Lsn) -> bool {
    lsn.cycle() >= FIRST_ABSURD_CYCLE
}

/// Whether a structure that was put right can have the log sequence number that it has: that with which it was found, or one that the
/// log has reached.
pub(super) fn is_possible(bytes: &[u8], found: &[u8], newest: Option<Lsn>, geometry: &Geometry) -> bool {
    let number_of = |bytes: &[u8]| match structure_of(bytes, geometry) {
        Some(Structure::InodeCluster) => InodeCore::prefix_of(bytes).map(|core| Lsn::new(core.lsn.get())),
        _ => lsn_of(bytes, geometry),
    };
    let lsn = number_of(bytes);
    let is_reached = |lsn: Lsn| !is_absurd(lsn) && newest.is_none_or(|newest| lsn <= newest);
    lsn == number_of(found) || lsn.is_none_or(is_reached)
}

/// Clears the log sequence number of a block, and makes its checksum right. A block in several pieces stays as it is.
pub(super) fn clear(
    stage: &Stage,
    (structure, location): &(Structure, Location),
    actions: &mut Vec<Action>,
) -> Result<()> {
    let geometry = stage.geometry();
    let (Some(sector), Some(length_bytes)) = (location.sector, length_of(*structure, geometry)) else {
        return Ok(());
    };
    let mut bytes = vec![0; length_bytes];
    stage.read_at(sector, &mut bytes)?;
    // A finding may leave open whether an index block is a leaf or a node: its magic number says it.
    let structure = match structure {
        Structure::DirectoryAnyIndex | Structure::AttributeAnyIndex => structure_of(&bytes, geometry),
        known => Some(*known),
    };
    let Some(structure) = structure else { return Ok(()) };
    let fields = leaves(&describe(structure, &bytes, geometry));
    let is_checksum = FieldFormat::Checksum.into();
    let checksum = fields.iter().find(|field| field.place.format == is_checksum);
    let lsn = fields.iter().find(|field| field.name == "lsn" || field.name.ends_with(".lsn"));
    let (Some(checksum), Some(lsn)) = (checksum, lsn) else { return Ok(()) };
    let (first, length) = (lsn.place.bit_offset as usize / 8, lsn.place.bit_length as usize / 8);
    let Some(place) = bytes.get_mut(first..first + length) else { return Ok(()) };
    // Linux writes values of attributes outside the log, and refuses to write any number but this one.
    place.fill(if structure == Structure::AttributeRemoteValue { 0xff } else { 0 });
    checksum::seal(&mut bytes, checksum.place.bit_offset / 8);
    stage.write_at(sector, &bytes)?;
    actions.push(Action::LsnCleared { structure, sector });
    Ok(())
}

/// Bytes of a structure that lies in one piece.
fn length_of(structure: Structure, geometry: &Geometry) -> Option<usize> {
    use Structure as S;
    match structure {
        S::Superblock | S::FreeSpaceHeader | S::InodeHeader | S::FreeList => {
            Some(geometry.sector_size_bytes as usize)
        }
        S::DirectoryBlock
        | S::DirectoryData
        | S::DirectoryLeaf
        | S::DirectoryLeafNode
        | S::DirectoryNode
        | S::DirectoryAnyIndex
        | S::DirectoryFreeIndex => {
            (geometry.blocks_per_directory_block() == 1).then_some(geometry.block_size())
        }
        S::Symlink | S::AttributeRemoteValue => Some(geometry.block_size()),
        S::ExtentMap | S::AttributeLeaf | S::AttributeNode | S::AttributeAnyIndex => {
            Some(geometry.block_size())
        }
        _ => structure.is_group_btree().then_some(geometry.block_size()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use uxfs_block::engine::sync::SyncDevice;
    use uxfs_testkit::{golden::GoldenImage, structures};
    use uxfs_volume::volume::{Volume, VolumeOptions};

    use super::*;

    #[test]
    fn a_number_that_no_log_has_reached_is_not_put_in() {
        let image = GoldenImage::named("default").unwrap().unpacked().unwrap();
        let device = Arc::new(SyncDevice::open_read_only(&image, 0).unwrap());
        let (_, all) = structures::list(device.as_ref()).unwrap();
        let volume = Volume::open(Arc::<SyncDevice>::clone(&device), &VolumeOptions::default()).unwrap();
        let (geometry, newest) = (volume.geometry(), Some(Lsn::new(3 << 32)));
        let block = all.iter().find(|instance| instance.structure == Structure::DirectoryBlock).unwrap();
        let with = |lsn: u64| {
            let mut bytes = block.read(device.as_ref()).unwrap();
            bytes[16..24].copy_from_slice(&lsn.to_be_bytes());
            bytes
        };
        let is_possible =
            |lsn: u64, found: u64| super::is_possible(&with(lsn), &with(found), newest, geometry);
        assert!(is_possible(2 << 32, 1 << 32));
        assert!(!is_possible(4 << 32, 1 << 32));
        // What is ahead of the log was so before.
        assert!(is_possible(4 << 32, 4 << 32));
        let absurd = 1 << 63 | 1 << 32;
        assert!(!super::is_possible(&with(absurd), &with(1 << 32), None, geometry));
    }
}
