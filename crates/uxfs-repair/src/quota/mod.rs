//! Quotas: records of how much each user, group and project uses, beside the inodes that use it.
//!
//! Linux counts at a mount what the superblock does not call complete, so that counts are compared only where it does; the records
//! themselves, which hold the limits, are verified in any case.
//!
//! | module | holds |
//! |---|---|
//! | here | which inodes hold quotas |
//! | [`usage`] | what inodes use, summed by owner |
//! | [`check`] | records beside the sums |
//! | [`mend`] | damaged records; counts that have to be made again |

pub(crate) mod check;
pub(crate) mod mend;
pub(crate) mod usage;

use uxfs_format::{
    features::VersionBits,
    quota::{QuotaFlags, QuotaKind},
    superblock::Superblock,
    units::InodeNumber,
};
use uxfs_volume::volume::Volume;

use crate::metadata_directory;

/// An inode that holds records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuotaInode {
    pub kind: QuotaKind,
    pub number: InodeNumber,
    /// The superblock says that the counts are complete.
    pub is_checked: bool,
}

/// The quota inodes of a file system.
pub(crate) fn inodes(volume: &Volume) -> Vec<QuotaInode> {
    let superblock = volume.superblock();
    let flags = QuotaFlags::from_bits_retain(superblock.quota_flags.get());
    let kinds = QuotaKind::ALL.into_iter();
    let found = kinds.filter_map(|kind| {
        let number = number_of(volume, superblock, kind)?;
        Some(QuotaInode { kind, number, is_checked: flags.contains(kind.checked()) })
    });
    found.collect()
}

fn number_of(volume: &Volume, superblock: &Superblock, kind: QuotaKind) -> Option<InodeNumber> {
    if volume.geometry().features.has_metadata_directory() {
        return in_metadata_directory(volume, superblock, kind);
    }
    let number = InodeNumber::new(field(superblock, kind));
    let has_quota =
        VersionBits::from_bits_retain(superblock.version_number.get()).contains(VersionBits::QUOTA);
    (has_quota && number.get() != 0 && number != InodeNumber::NULL).then_some(number)
}

fn field(superblock: &Superblock, kind: QuotaKind) -> u64 {
    let field = match kind {
        QuotaKind::User => superblock.user_quota_inode,
        QuotaKind::Group => superblock.group_quota_inode,
        QuotaKind::Project => superblock.project_quota_inode,
    };
    field.get()
}

/// Damage on the way is found by the passes over directories.
fn in_metadata_directory(volume: &Volume, superblock: &Superblock, kind: QuotaKind) -> Option<InodeNumber> {
    let root = volume.inode(InodeNumber::new(superblock.metadata_directory_inode.get())).ok()?;
    let directory = volume.lookup(&root, metadata_directory::QUOTA).ok()??.inode;
    let directory = volume.inode(directory).ok()?;
    let found = volume.lookup(&directory, kind.name().as_bytes()).ok()??;
    Some(found.inode)
}
