//! A first superblock that all copies contradict in one voice. Where there is one copy, what is wrong with its word alone decides.

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    features::{Features2, VersionBits},
    geometry::Geometry,
    superblock::Superblock,
    units::{AgNumber, InodeNumber},
};
use uxfs_volume::{tolerant::search::read_group_superblock, volume::Volume};

use super::check::is_other;

/// The superblock that the copies say the first one should be, where all of them agree, and it does not. What only the first one
/// keeps up to date is taken from it.
pub(crate) fn outvoted(volume: &Volume) -> Option<Superblock> {
    let geometry = volume.geometry();
    let device: &dyn BlockDevice = volume.device().as_ref();
    let mut copies = Vec::new();
    for group in geometry.groups().filter(|group| *group != AgNumber::new(0)) {
        let sector = geometry.sector_of_group_header(group, 0)?;
        copies.push(read_group_superblock(device, Geometry::byte_of_sector(sector)).ok()?);
    }
    let first = *copies.first()?;
    let agreed = Geometry::new(&first);
    let is_one_voice = !copies.iter().any(|copy| is_other(copy, &first, &agreed));
    let is_outvoted = is_one_voice && is_other(volume.superblock(), &first, &agreed);
    is_outvoted.then(|| with_own_fields(first, volume.superblock()))
}

/// A copy with the fields that the kernel changes in the first superblock only.
fn with_own_fields(mut copy: Superblock, primary: &Superblock) -> Superblock {
    copy.in_progress = 0;
    copy.lsn = primary.lsn;
    copy.inode_count = primary.inode_count;
    copy.free_inodes = primary.free_inodes;
    copy.free_data_blocks = primary.free_data_blocks;
    copy.user_quota_inode = primary.user_quota_inode;
    copy.group_quota_inode = primary.group_quota_inode;
    copy.project_quota_inode = primary.project_quota_inode;
    copy.quota_flags = primary.quota_flags;
    // Copies that mkfs.xfs made early do not name them.
    let pairs = [
        (&mut copy.root_inode, primary.root_inode),
        (&mut copy.realtime_bitmap_inode, primary.realtime_bitmap_inode),
        (&mut copy.realtime_summary_inode, primary.realtime_summary_inode),
    ];
    for (inode, of_primary) in pairs {
        if inode.get() == InodeNumber::NULL.get() {
            *inode = of_primary;
        }
    }
    let own = (VersionBits::ATTRIBUTES | VersionBits::QUOTA).bits();
    copy.version_number.set(copy.version_number.get() & !own | primary.version_number.get() & own);
    let own = Features2::ATTRIBUTES_V2.bits();
    copy.features2.set(copy.features2.get() & !own | primary.features2.get() & own);
    copy.bad_features2 = copy.features2;
    copy
}
