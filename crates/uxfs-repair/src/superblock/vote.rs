//! A first superblock that all copies contradict in one voice. Where there is one copy, less must be wrong with its word, copies apart:
//! one against one decides nothing, unless Linux refuses the first one. What Linux would refuse is no word.

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    features::{Features2, Incompatible, VersionBits},
    geometry::Geometry,
    superblock::Superblock,
    units::{AgNumber, InodeNumber},
};
use uxfs_volume::{tolerant::search::read_group_superblock, volume::Volume};

use super::{accepted, check::is_other, fields};

/// What the copies say against the first superblock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outvoted {
    /// The superblock that the first one should be.
    pub superblock: Superblock,
    /// Whether that is believed where as much is wrong with it as without: several copies say so, or Linux refuses the first one.
    pub wins_ties: bool,
}

/// The word of the copies, where all of them agree, and the first superblock does not. What only the first one keeps up to date is
/// taken from it.
pub(crate) fn outvoted(volume: &Volume) -> Option<Outvoted> {
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
    let by_several = copies.len() > 1;
    if !is_outvoted {
        return None;
    }
    let sound = copies.iter().find(|copy| is_acceptable(copy, volume.superblock(), by_several))?;
    let wins_ties = by_several || !accepted::is_accepted(volume.superblock());
    Some(Outvoted { superblock: with_own_fields(*sound, volume.superblock()), wins_ties })
}

/// Whether Linux would mount with what a copy says. Features of the future that several copies have are no damage: a repair refuses them
/// once they are believed.
fn is_acceptable(copy: &Superblock, primary: &Superblock, by_several: bool) -> bool {
    (by_several || accepted::has_known_features(copy))
        && fields::unfit_alone(copy).is_none()
        && accepted::is_log_accepted(copy, primary)
}

/// A copy with the fields that the kernel changes in the first superblock only.
fn with_own_fields(mut copy: Superblock, primary: &Superblock) -> Superblock {
    copy.in_progress = 0;
    copy.lsn = primary.lsn;
    copy.log_incompatible = primary.log_incompatible;
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
    let own = Incompatible::NEEDS_REPAIR.bits();
    copy.incompatible.set(copy.incompatible.get() & !own | primary.incompatible.get() & own);
    copy
}
