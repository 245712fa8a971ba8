//! Reading a live file system through handles: as it is before or after each operation, never in the middle of one.

use std::ops::ControlFlow;

use uxfs_format::inode::{DeviceNumber, Timestamp};

use super::check::is_dot;
use crate::operations::check::open_entry;
use crate::{filesystem::FileSystem, inode::table::InodeHandle};
use uxfs_engine::directory::{expect_name, lookup_open};
use uxfs_format::units::InodeNumber;
use uxfs_volume::{
    directory::DirectoryEntry,
    error::{OperationError, Result},
    inode::{FileType, Inode, InodeFlags, InodeFlags2},
};

/// The attributes of a file, as for `stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Its number.
    pub number: InodeNumber,
    /// Tells apart the successive files that had this number.
    pub generation: u32,
    /// File type.
    pub file_type: FileType,
    /// File type and permissions as one word.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Project.
    pub project_id: u32,
    /// Names; of a directory 2 more than its directories.
    pub link_count: u32,
    /// Length.
    pub size_bytes: u64,
    /// Allocated file system blocks.
    pub blocks: u64,
    /// Of device files.
    pub device: DeviceNumber,
    /// Last access.
    pub access_time: Timestamp,
    /// Last change of contents.
    pub modification_time: Timestamp,
    /// Last change of anything.
    pub change_time: Timestamp,
    /// When it was made.
    pub creation_time: Timestamp,
    /// Counts changes.
    pub change_count: u64,
    /// Flags.
    pub flags: InodeFlags,
    /// More flags.
    pub flags2: InodeFlags2,
    /// Extent size hint.
    pub extent_size_blocks: u32,
    /// Extent size hint for copies on write.
    pub cow_extent_size_blocks: u32,
    /// False where it has no extended attribute at all, whatever the namespace: parent pointers are none.
    pub may_have_attributes: bool,
}

impl Status {
    /// Of an inode that the caller has locked.
    ///
    /// # Errors
    /// [`OperationError::NoSuchInode`] for one that has been freed.
    pub fn of(inode: &Inode) -> Result<Self> {
        Ok(Self {
            number: inode.number,
            generation: inode.generation(),
            file_type: inode.file_type().ok_or(OperationError::NoSuchInode)?,
            mode: inode.mode(),
            uid: inode.uid(),
            gid: inode.gid(),
            project_id: inode.project_id(),
            link_count: inode.link_count(),
            size_bytes: inode.size_bytes(),
            blocks: inode.blocks(),
            device: inode.device_number(),
            access_time: inode.access_time(),
            modification_time: inode.modification_time(),
            change_time: inode.change_time(),
            creation_time: inode.creation_time(),
            change_count: inode.change_count(),
            flags: inode.flags(),
            flags2: inode.flags2(),
            extent_size_blocks: inode.extent_size_blocks(),
            cow_extent_size_blocks: inode.cow_extent_size_blocks(),
            may_have_attributes: inode.may_have_attributes(),
        })
    }
}

/// Opens the inode that a name in a directory leads to; with the file type in the entry, if it has one.
///
/// # Errors
/// As for [`FileSystem::find`].
pub(super) fn find_entry(
    file_system: &FileSystem,
    directory: &InodeHandle,
    name: &[u8],
) -> Result<(InodeHandle, Option<FileType>)> {
    // The lock is held until the inode is open: it can neither be freed meanwhile nor can its number get another.
    let parent = directory.read();
    if name == b".." && parent.number == file_system.geometry().root_inode {
        return Ok((directory.clone(), Some(FileType::Directory)));
    }
    let found = lookup_open(file_system, &parent, name)?.0.ok_or(OperationError::NotFound)?;
    if is_dot(name) && found.inode == parent.number {
        return Ok((directory.clone(), found.file_type));
    }
    Ok((open_entry(file_system, parent.number, found.inode)?, found.file_type))
}

impl FileSystem {
    /// Opens what a name in a directory leads to, "." and ".." included.
    ///
    /// # Errors
    /// No such name; not a directory; damage; the device.
    #[doc(alias = "xfs_lookup")]
    pub fn find(&self, directory: &InodeHandle, name: &[u8]) -> Result<InodeHandle> {
        find_entry(self, directory, name).map(|(handle, _)| handle)
    }

    /// The attributes of a file.
    ///
    /// # Errors
    /// The inode has been freed.
    pub fn stat(&self, inode: &InodeHandle) -> Result<Status> {
        Status::of(&inode.read())
    }

    /// Calls `visit` for the entries of a directory from `cookie` on, until it breaks. The directory is locked meanwhile:
    /// `visit` must not ask for it, and may open other inodes.
    ///
    /// # Errors
    /// Not a directory; damage; the device.
    #[doc(alias = "xfs_readdir")]
    pub fn read_entries(
        &self,
        directory: &InodeHandle,
        cookie: u64,
        mut visit: impl FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let directory = directory.read();
        let mut reader = self.open_directory(&directory, cookie)?;
        while let Some(entry) = reader.next_entry()? {
            if visit(entry).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// A hint: the next lookup is for `name`, which was just read from a directory as the entry with this cookie. A lookup that
    /// does not find it there looks everywhere, as without.
    pub fn expect_name(&self, directory: &InodeHandle, name: &[u8], cookie: u64) {
        expect_name(self, &mut directory.write(), name, cookie);
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// Not a symbolic link; damage; the device.
    #[doc(alias = "xfs_readlink")]
    pub fn read_link(&self, link: &InodeHandle) -> Result<Vec<u8>> {
        self.read_symlink(&link.read())
    }
}
