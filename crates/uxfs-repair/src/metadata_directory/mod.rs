//! The metadata directory tree: files of the file system itself, to which no path of users leads. Quota files lie in `quota`, those of
//! realtime groups in `rtgroups`, which mkfs.xfs always makes.
//!
//! Linux does not mount a file system whose superblock names no root of the tree: a directory in use with the flag and the type of the
//! tree's directories.

pub(crate) mod check;
pub(crate) mod mend;

use uxfs_format::{
    inode::{FileType, InodeCore, InodeFlags, InodeFlags2},
    quota::QuotaKind,
    units::InodeNumber,
};
use uxfs_volume::{inode::Inode, volume::Volume};

/// Directory of the quota files.
pub(crate) const QUOTA: &[u8] = b"quota";
/// Directory of the files of realtime groups.
pub(crate) const REALTIME_GROUPS: &[u8] = b"rtgroups";
/// The type of directories of the tree.
#[doc(alias = "XFS_METAFILE_DIR")]
const TYPE_DIRECTORY: u16 = 1;
#[doc(alias = "XFS_METAFILE_USRQUOTA")]
const TYPE_USER_QUOTA: u16 = 2;
#[doc(alias = "XFS_METAFILE_GRPQUOTA")]
const TYPE_GROUP_QUOTA: u16 = 3;
#[doc(alias = "XFS_METAFILE_PRJQUOTA")]
const TYPE_PROJECT_QUOTA: u16 = 4;
#[doc(alias = "XFS_METAFILE_RTBITMAP")]
const TYPE_BITMAP: u16 = 5;
#[doc(alias = "XFS_METAFILE_RTSUMMARY")]
const TYPE_SUMMARY: u16 = 6;
#[doc(alias = "XFS_METAFILE_RTRMAP")]
const TYPE_REVERSE_MAP: u16 = 7;
#[doc(alias = "XFS_METAFILE_RTREFCOUNT")]
const TYPE_REFERENCE_COUNT: u16 = 8;
const PERMISSIONS: u16 = 0o7777;

/// The root of the tree as the superblock names it; `None` where the file system has no such tree.
pub(crate) fn root(volume: &Volume) -> Option<InodeNumber> {
    let has_tree = volume.geometry().features.has_metadata_directory();
    has_tree.then(|| InodeNumber::new(volume.superblock().metadata_directory_inode.get()))
}

/// Whether an inode can be the root of the tree, as Linux judges at a mount.
pub(crate) fn is_directory(inode: &Inode) -> bool {
    inode.file_type() == Some(FileType::Directory)
        && inode.flags2().contains(InodeFlags2::METADATA)
        && inode.metadata_type() == TYPE_DIRECTORY
}

/// Marks an inode as the file with this name in the tree. Returns whether the name determines its type.
fn put_named(core: &mut InodeCore, name: &[u8]) -> bool {
    let metadata_type = match (core.file_type(), name) {
        (Some(FileType::Directory), _) => TYPE_DIRECTORY,
        (Some(FileType::Regular), b"user") => TYPE_USER_QUOTA,
        (Some(FileType::Regular), b"group") => TYPE_GROUP_QUOTA,
        (Some(FileType::Regular), b"project") => TYPE_PROJECT_QUOTA,
        (Some(FileType::Regular), name) if name.ends_with(b".bitmap") => TYPE_BITMAP,
        (Some(FileType::Regular), name) if name.ends_with(b".summary") => TYPE_SUMMARY,
        (Some(FileType::Regular), name) if name.ends_with(b".rmap") => TYPE_REVERSE_MAP,
        (Some(FileType::Regular), name) if name.ends_with(b".refcount") => TYPE_REFERENCE_COUNT,
        _ => return false,
    };
    let flags = match metadata_type {
        TYPE_DIRECTORY => InodeFlags::METADATA_DIRECTORY,
        _ => InodeFlags::METADATA_FILE,
    };
    put(core, flags, metadata_type);
    true
}

/// Makes an inode one of users.
fn take_out(core: &mut InodeCore) {
    core.flags.set(core.flags().difference(InodeFlags::METADATA_DIRECTORY).bits());
    core.flags2.set(core.flags2().difference(InodeFlags2::METADATA).bits());
    core.metadata_type.set(0);
}

/// Makes the inode of a directory one of the tree.
pub(crate) fn put_directory(core: &mut InodeCore) {
    put(core, InodeFlags::METADATA_DIRECTORY, TYPE_DIRECTORY);
}

/// Makes the inode of a regular file the quota file of the tree that holds records of this kind.
pub(crate) fn put_quota_file(core: &mut InodeCore, kind: QuotaKind) {
    let metadata_type = match kind {
        QuotaKind::User => TYPE_USER_QUOTA,
        QuotaKind::Group => TYPE_GROUP_QUOTA,
        QuotaKind::Project => TYPE_PROJECT_QUOTA,
    };
    put(core, InodeFlags::METADATA_FILE, metadata_type);
}

/// Users have no part in the tree.
fn put(core: &mut InodeCore, flags: InodeFlags, metadata_type: u16) {
    core.mode.set(core.mode.get() & !PERMISSIONS);
    core.uid.set(0);
    core.gid.set(0);
    core.dmapi_event_mask.set(0);
    core.dmapi_state.set(0);
    core.flags.set(core.flags().union(flags).bits());
    let flags2 = core.flags2().difference(InodeFlags2::DAX).union(InodeFlags2::METADATA);
    core.flags2.set(flags2.bits());
    core.metadata_type.set(metadata_type);
}
