//! The copies of the superblock beside the one in use.
//!
//! Counters, mount options and the root inode are not compared: the kernel updates them in the first superblock only, and copies that
//! mkfs.xfs made early name no root. The same is true of the bits for attributes and quota, which the kernel sets at their first use.

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    features::{Features2, Incompatible, LogIncompatible, VersionBits},
    geometry::Geometry,
    superblock::Superblock,
    units::{AgNumber, InodeNumber},
};
use uxfs_volume::{error::Error, tolerant::search::read_group_superblock};

use super::fields;
use crate::{check::Context, finding::Finding};

/// Compares the copy of a group.
pub(crate) fn check(context: &Context<'_>, group: AgNumber) {
    let volume = context.volume;
    let Some(sector) = volume.geometry().sector_of_group_header(group, 0) else { return };
    let device: &dyn BlockDevice = volume.device().as_ref();
    let copy = read_group_superblock(device, Geometry::byte_of_sector(sector));
    // Features are set in all superblocks: those that one copy has alone are damage of it.
    if group.get() != 0 && matches!(copy, Err(Error::Unsupported(_))) {
        context.sink.add(Finding::SuperblockCopy { group });
        return;
    }
    let Some(copy) = context.read(copy) else { return };
    check_fields(context, group, &copy, Geometry::byte_of_sector(sector));
    if is_other(&copy, volume.superblock(), volume.geometry()) {
        context.sink.add(Finding::SuperblockCopy { group });
    }
}

/// Linux sets the bit with the first attribute fork; without it online scrub reports each fork as corrupt.
pub(crate) fn check_attribute_bit(context: &Context<'_>, has_attribute_forks: bool) {
    let bits = context.volume.superblock().feature_words().version_bits;
    if has_attribute_forks && !bits.contains(VersionBits::ATTRIBUTES) {
        let (group, fields) = (AgNumber::new(0), fields::ATTRIBUTE_BIT);
        context.sink.add(Finding::SuperblockFields { group, fields });
    }
}

/// Looks at fields that no verifier knows.
fn check_fields(context: &Context<'_>, group: AgNumber, superblock: &Superblock, offset_bytes: u64) {
    let volume = context.volume;
    let mut sector = vec![0; volume.geometry().sector_size_bytes as usize];
    if volume.device().read(offset_bytes, &mut sector).is_err() {
        return;
    }
    let primary = Some(volume.superblock()).filter(|_| group.get() != 0);
    if let Some(fields) = fields::unfit(superblock, &sector, primary) {
        context.sink.add(Finding::SuperblockFields { group, fields });
    }
}

/// Whether two superblocks differ in what is equal in all copies. `geometry` is that of the second.
pub(crate) fn is_other(one: &Superblock, other: &Superblock, geometry: &Geometry) -> bool {
    of_all_copies(&Geometry::new(one)) != of_all_copies(geometry)
        || fields::of_all_copies(one) != fields::of_all_copies(other)
}

/// The part of the geometry that is equal in all copies of the superblock.
fn of_all_copies(geometry: &Geometry) -> Geometry {
    let mut geometry = geometry.clone();
    geometry.root_inode = InodeNumber::NULL;
    let features = &mut geometry.features;
    features.version_bits.remove(VersionBits::ATTRIBUTES | VersionBits::QUOTA);
    features.features2.remove(Features2::ATTRIBUTES_V2);
    features.log_incompatible = LogIncompatible::empty();
    features.incompatible.remove(Incompatible::NEEDS_REPAIR);
    geometry
}
