//! Changing owner, permissions, times and flags of an inode.

use uxfs_format::inode::{InodeFlags2, Timestamp, verify::EXTENT_LENGTH_MAX_BLOCKS};
use zerocopy::big_endian::{U16, U32, U64};

use super::{
    check::{check_may_change, check_mutable},
    create::SET_GROUP,
};
use crate::{filesystem::FileSystem, inode::table::InodeHandle};
use uxfs_engine::{
    inode::edit::{EditInode, TimeKind},
    transaction::{Transaction, reservation::Operation},
};
use uxfs_volume::{
    error::{OperationError, Result},
    inode::{FileType, Fork, InodeFlags},
};

/// The set-user-id bit.
#[doc(alias = "S_ISUID")]
const SET_USER: u16 = 0o4000;
/// Execute permission of the group.
#[doc(alias = "S_IXGRP")]
const GROUP_RUNS: u16 = 0o010;

/// The attributes to change; those that are `None` stay.
#[doc(alias = "iattr")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttributeChanges {
    /// Permissions with set-id bits and the sticky bit.
    pub permissions: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Project.
    pub project_id: Option<u32>,
    /// Last access.
    pub access_time: Option<Timestamp>,
    /// Last change of contents.
    pub modification_time: Option<Timestamp>,
    /// Last change of anything; the present without one.
    pub change_time: Option<Timestamp>,
    /// When it was made.
    pub creation_time: Option<Timestamp>,
    /// Where the times come from.
    pub times: TimeSource,
    /// Flags and hints, all of them.
    pub flags: Option<FlagChanges>,
}

/// Where times come from, and so what may forbid them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeSource {
    /// A user chose them: an immutable file and one that is only to be appended to keep theirs.
    #[default]
    Chosen,
    /// They are the present: an immutable file keeps its times.
    Touch,
    /// The file is open, and was written before: nothing forbids them.
    Written,
}

/// The flags that users may change, and their hints. Flags that mean nothing for the file type are ignored, as in Linux.
#[doc(alias = "fsxattr")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlagChanges {
    /// First word.
    pub flags: InodeFlags,
    /// Direct access, and the hint for copies on write.
    pub flags2: InodeFlags2,
    /// Extent size hint in bytes.
    pub extent_size_bytes: u32,
    /// Extent size hint for copies on write in bytes.
    pub cow_extent_size_bytes: u32,
}

/// Flags for any file.
const COMMON: InodeFlags = InodeFlags::IMMUTABLE
    .union(InodeFlags::APPEND)
    .union(InodeFlags::SYNCHRONOUS)
    .union(InodeFlags::NO_ACCESS_TIME)
    .union(InodeFlags::NO_DUMP)
    .union(InodeFlags::NO_DEFRAGMENT)
    .union(InodeFlags::FILE_STREAM);
/// Flags of directories.
const OF_DIRECTORIES: InodeFlags = InodeFlags::REALTIME_INHERIT
    .union(InodeFlags::PROJECT_INHERIT)
    .union(InodeFlags::NO_SYMLINKS)
    .union(InodeFlags::EXTENT_SIZE_INHERIT);
/// Flags of files.
const OF_FILES: InodeFlags = InodeFlags::REALTIME.union(InodeFlags::EXTENT_SIZE);
/// Flags of the second word that users may change.
const SECOND: InodeFlags2 = InodeFlags2::DAX.union(InodeFlags2::COPY_ON_WRITE_EXTENT_SIZE);

/// The user whose write clears the set-user-ID and set-group-ID bits of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// A member of the file's group, or a privileged user.
    OfGroup,
    /// Any other user.
    Stranger,
}

/// The mode after a user without `CAP_FSETID` wrote to the file or changed its owner: without the set-id bits. A file that its group cannot
/// execute keeps set-group-ID when a member of that group writes.
#[doc(alias = "setattr_should_drop_suidgid")]
#[must_use]
pub fn mode_without_set_id(mode: u16, writer: Writer) -> u16 {
    let drops_group = mode & GROUP_RUNS != 0 || writer == Writer::Stranger;
    mode & !SET_USER & !(if drops_group { SET_GROUP } else { 0 })
}

impl FileSystem {
    /// Changes an inode's attributes.
    ///
    /// # Errors
    /// The inode is immutable or only to be appended to, and not just its flags are to change; flags or hints that
    /// cannot be; damage; the device.
    #[doc(alias = "xfs_setattr_nonsize")]
    pub fn set_attributes(&self, handle: &InodeHandle, changes: &AttributeChanges) -> Result<()> {
        let mut inode = handle.write();
        let beside_flags =
            AttributeChanges { flags: None, project_id: None, times: TimeSource::Chosen, ..*changes };
        let keeps = changes.permissions.is_none() && changes.uid.is_none() && changes.gid.is_none();
        if beside_flags != AttributeChanges::default() {
            match changes.times {
                TimeSource::Written if keeps => {}
                TimeSource::Touch if keeps => check_mutable(&inode)?,
                _ => check_may_change(&inode)?,
            }
        }
        if let Some(flags) = &changes.flags {
            flags.check(&inode, self)?;
        }
        let mut transaction = Transaction::begin_for(self, operation_of(self, &inode, changes)?)?;
        if let Some(permissions) = changes.permissions {
            transaction.attributes().set_permissions(&mut inode, permissions)?;
        }
        changes.apply(&mut inode, self);
        transaction.store_inode(&mut inode)?;
        transaction.commit()
    }
}

impl AttributeChanges {
    /// All but the permissions.
    fn apply(&self, inode: &mut EditInode, file_system: &FileSystem) {
        let core = &mut inode.core;
        if let Some(uid) = self.uid {
            core.uid = U32::new(uid);
        }
        if let Some(gid) = self.gid {
            core.gid = U32::new(gid);
        }
        if let Some(project_id) = self.project_id {
            core.project_id_low = U16::new(project_id as u16);
            core.project_id_high = U16::new((project_id >> 16) as u16);
        }
        if let Some(flags) = &self.flags {
            flags.apply(inode, file_system);
        }
        let change_time = self.change_time.unwrap_or_else(|| file_system.now());
        let times = [
            (TimeKind::Access, self.access_time),
            (TimeKind::Modification, self.modification_time),
            (TimeKind::Change, Some(change_time)),
            (TimeKind::Creation, self.creation_time),
        ];
        for (kind, time) in times {
            if let Some(time) = time {
                inode.set_time(kind, time);
            }
        }
        inode.count_change();
    }
}

impl FlagChanges {
    /// The flags that this kind of file can have, without those whose hint says nothing.
    fn of_kind(&self, file_type: Option<FileType>) -> (InodeFlags, InodeFlags2) {
        let (possible, possible2) = match file_type {
            Some(FileType::Directory) => (COMMON | OF_DIRECTORIES, SECOND),
            Some(FileType::Regular) => (COMMON | OF_FILES, SECOND),
            _ => (COMMON, InodeFlags2::empty()),
        };
        let (mut flags, mut flags2) = (self.flags & possible, self.flags2 & possible2);
        if self.extent_size_bytes == 0 {
            flags.remove(InodeFlags::EXTENT_SIZE | InodeFlags::EXTENT_SIZE_INHERIT);
        }
        if self.cow_extent_size_bytes == 0 {
            flags2.remove(InodeFlags2::COPY_ON_WRITE_EXTENT_SIZE);
        }
        (flags, flags2)
    }

    #[doc(alias = "xfs_ioctl_setattr_check_extsize")]
    fn check(&self, inode: &EditInode, file_system: &FileSystem) -> Result<()> {
        let geometry = file_system.geometry();
        let invalid = Err(OperationError::InvalidArgument.into());
        let file_type = inode.file_type();
        let (is_file, is_directory) =
            (file_type == Some(FileType::Regular), file_type == Some(FileType::Directory));
        let (flags, flags2) = self.of_kind(file_type);
        let asked = |flag| self.flags.contains(flag);
        if (asked(InodeFlags::EXTENT_SIZE) && !is_file)
            || (asked(InodeFlags::EXTENT_SIZE_INHERIT) && !is_directory)
            || (!self.flags2.is_empty() && !is_file && !is_directory)
        {
            return invalid;
        }
        // There is no realtime allocation. Without the flag the numbers of a file's blocks would mean other blocks.
        let [is_realtime, becomes_realtime] =
            [inode.core.flags(), flags].map(|flags| flags.contains(InodeFlags::REALTIME));
        let has_blocks = is_file && !inode.extents(Fork::Data).is_empty();
        if is_realtime != becomes_realtime && (becomes_realtime || has_blocks) {
            return invalid;
        }
        if flags2.contains(InodeFlags2::COPY_ON_WRITE_EXTENT_SIZE) && !geometry.features.has_reflink() {
            return invalid;
        }
        let is_possible = |bytes: u32| {
            let blocks = bytes >> geometry.block_log;
            bytes & (geometry.block_size_bytes - 1) == 0
                && blocks <= EXTENT_LENGTH_MAX_BLOCKS
                && blocks <= geometry.ag_blocks / 2
        };
        if !is_possible(self.extent_size_bytes) || !is_possible(self.cow_extent_size_bytes) {
            return invalid;
        }
        let extent_size_blocks = self.extent_size_bytes >> geometry.block_log;
        let changes_hint = inode.core.extent_size_blocks.get() != extent_size_blocks;
        if changes_hint && has_blocks {
            return invalid;
        }
        Ok(())
    }

    fn apply(&self, inode: &mut EditInode, file_system: &FileSystem) {
        let block_log = file_system.geometry().block_log;
        let (flags, flags2) = self.of_kind(inode.file_type());
        let core = &mut inode.core;
        let kept = core.flags() - COMMON - OF_DIRECTORIES - OF_FILES;
        core.flags = U16::new((kept | flags).bits());
        core.flags2 = U64::new(((core.flags2() - SECOND) | flags2).bits());
        let has_hint = flags.intersects(InodeFlags::EXTENT_SIZE | InodeFlags::EXTENT_SIZE_INHERIT);
        let hint = |is_set: bool, bytes: u32| U32::new(if is_set { bytes >> block_log } else { 0 });
        core.extent_size_blocks = hint(has_hint, self.extent_size_bytes);
        let has_cow_hint = flags2.contains(InodeFlags2::COPY_ON_WRITE_EXTENT_SIZE);
        core.cow_extent_size_blocks = hint(has_cow_hint, self.cow_extent_size_bytes);
    }
}

/// The access control list follows the permissions, and may lie in blocks of its own.
fn operation_of(
    file_system: &FileSystem,
    inode: &EditInode,
    changes: &AttributeChanges,
) -> Result<Operation> {
    if changes.permissions.is_none() {
        return Ok(Operation::SetAttributes);
    }
    let value_bytes = file_system.access_acl_bytes(inode)?;
    Ok(value_bytes.map_or(Operation::SetAttributes, |value_bytes| Operation::SetXattr { value_bytes }))
}
