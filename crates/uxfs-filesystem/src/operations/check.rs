//! Checks of an operation before its first change.

use uxfs_format::{
    directory::{MAX_NAME_BYTES, is_valid_name},
    units::InodeNumber,
};

use crate::{filesystem::FileSystem, inode::table::InodeHandle};
use uxfs_engine::inode::edit::{EditInode, TimeKind};
use uxfs_volume::{
    error::{Error, OperationError, Result},
    inode::{FileType, InodeFlags, Timestamp},
};

/// Flags that forbid every user to remove or change a file.
const FIXED: InodeFlags = InodeFlags::IMMUTABLE.union(InodeFlags::APPEND);

/// Checks a name. `.` and `..` pass, because each operation has its own error for them.
pub(super) fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > MAX_NAME_BYTES {
        return Err(OperationError::NameTooLong.into());
    }
    if !is_valid_name(name) {
        return Err(OperationError::InvalidName.into());
    }
    Ok(())
}

pub(super) fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

pub(super) fn is_directory(inode: &EditInode) -> bool {
    inode.file_type() == Some(FileType::Directory)
}

/// Checks that entries may be added to a directory: it has links and is not immutable.
#[doc(alias = "may_create")]
pub(super) fn check_may_add(directory: &EditInode) -> Result<()> {
    if !is_directory(directory) {
        return Err(OperationError::NotADirectory.into());
    }
    if directory.link_count() == 0 {
        return Err(OperationError::NotFound.into());
    }
    if directory.core.flags().contains(InodeFlags::IMMUTABLE) {
        return Err(OperationError::NotPermitted.into());
    }
    Ok(())
}

/// Checks that the entry of `inode` may be removed or replaced.
#[doc(alias = "may_delete")]
pub(super) fn check_may_remove(directory: &EditInode, inode: &EditInode) -> Result<()> {
    if directory.core.flags().intersects(FIXED) || inode.core.flags().intersects(FIXED) {
        return Err(OperationError::NotPermitted.into());
    }
    Ok(())
}

/// Checks that an inode itself may be changed.
pub(super) fn check_may_change(inode: &EditInode) -> Result<()> {
    if inode.core.flags().intersects(FIXED) {
        return Err(OperationError::NotPermitted.into());
    }
    Ok(())
}

/// Checks that what Linux changes by itself, as times of what is written, may change.
pub(super) fn check_mutable(inode: &EditInode) -> Result<()> {
    if inode.core.flags().contains(InodeFlags::IMMUTABLE) {
        return Err(OperationError::NotPermitted.into());
    }
    Ok(())
}

/// Checks that a directory that hands its project down gets only files of that project. Special files without a project pass,
/// because their project cannot be set.
#[doc(alias = "xfs_projid_differ")]
pub(super) fn check_project(directory: &EditInode, inode: &EditInode) -> Result<()> {
    let (wanted, own) = (directory.core.project_id(), inode.core.project_id());
    let is_special = inode.file_type().is_some_and(FileType::is_special);
    if directory.core.flags().contains(InodeFlags::PROJECT_INHERIT)
        && wanted != own
        && !(is_special && own == 0)
    {
        return Err(OperationError::CrossesProjects.into());
    }
    Ok(())
}

/// Sets the given times, and increases the change count.
pub(super) fn touch(inode: &mut EditInode, now: Timestamp, kinds: &[TimeKind]) {
    for kind in kinds {
        inode.set_time(*kind, now);
    }
    inode.count_change();
}

/// Sets the times of a directory whose entries have changed.
pub(super) fn touch_directory(directory: &mut EditInode, now: Timestamp) {
    touch(directory, now, &[TimeKind::Modification, TimeKind::Change]);
}

/// Opens the inode of an entry in a directory that the caller has locked.
pub(super) fn open_entry(
    file_system: &FileSystem,
    directory: InodeNumber,
    inode: InodeNumber,
) -> Result<InodeHandle> {
    file_system.open(inode).map_err(|error| match error {
        Error::Operation(OperationError::NoSuchInode) => uxfs_volume::resolve::unused_inode(directory, inode),
        other => other,
    })
}
