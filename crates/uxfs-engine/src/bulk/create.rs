//! New files and further names.

use uxfs_format::inode::{InodeFlags2, timestamp::DiskTimestamp};
use uxfs_volume::parent_pointer::ParentPointer;
use zerocopy::big_endian::{U16, U32};

use crate::bulk::BulkFiles;
use crate::{
    directory::NameCheck,
    inode::{create::NewInode, edit::EditInode},
};
use uxfs_volume::{
    error::{OperationError, Result},
    inode::{DeviceNumber, FileType, Timestamp},
};

/// Most names that an inode can have.
#[doc(alias = "XFS_MAXLINK")]
pub const MAX_LINKS: u32 = (1 << 31) - 1;

/// Kinds of new files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewKind<'a> {
    /// A regular file without contents.
    Regular,
    /// An empty directory.
    Directory,
    /// A symbolic link to this target.
    Symlink(&'a [u8]),
    /// A device, fifo or socket; the last two have the number 0:0.
    Special(FileType, DeviceNumber),
}

impl NewKind<'_> {
    /// The file type.
    pub fn file_type(&self) -> FileType {
        match self {
            Self::Regular => FileType::Regular,
            Self::Directory => FileType::Directory,
            Self::Symlink(_) => FileType::SymbolicLink,
            Self::Special(file_type, _) => *file_type,
        }
    }
}

/// Owner, permissions and times of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileAttributes {
    /// Permissions with set-id bits and the sticky bit.
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Project, unless the directory decides it.
    pub project_id: u32,
    /// Last access.
    pub access_time: Timestamp,
    /// Last change of contents.
    pub modification_time: Timestamp,
    /// Last change of anything.
    pub change_time: Timestamp,
    /// When the inode was made.
    pub creation_time: Timestamp,
}

impl FileAttributes {
    /// Gives an inode these attributes; its type, project and flags stay.
    pub fn apply(&self, inode: &mut EditInode) {
        let core = &mut inode.core;
        let is_big = core.flags2().contains(InodeFlags2::BIG_TIME);
        let time = |time| DiskTimestamp::encode_clamped(time, is_big);
        core.mode = U16::new(core.mode.get() & !0o7777 | self.permissions & 0o7777);
        core.uid = U32::new(self.uid);
        core.gid = U32::new(self.gid);
        core.access_time = time(self.access_time);
        core.modification_time = time(self.modification_time);
        core.change_time = time(self.change_time);
        core.creation_time = time(self.creation_time);
    }

    fn new_inode(&self, kind: &NewKind<'_>) -> NewInode {
        let mode = kind.file_type().mode_bits() | self.permissions & 0o7777;
        let device = match kind {
            NewKind::Special(_, device) => *device,
            _ => DeviceNumber::default(),
        };
        NewInode {
            uid: self.uid,
            gid: self.gid,
            project_id: self.project_id,
            device,
            access_time: self.access_time,
            modification_time: self.modification_time,
            change_time: self.change_time,
            creation_time: self.creation_time,
            ..NewInode::new(mode, self.change_time)
        }
    }
}

impl BulkFiles<'_, '_> {
    /// Makes a file under `name` in a directory. The caller stores it, after more has been put into it, and the
    /// directory; times of the directory are the caller's too.
    ///
    /// # Errors
    /// The name exists or is impossible; too many directories in one; no space; damage; the device.
    pub fn create(
        &mut self,
        parent: &mut EditInode,
        name: &[u8],
        kind: &NewKind<'_>,
        attributes: &FileAttributes,
        check: NameCheck,
    ) -> Result<EditInode> {
        if check == NameCheck::Check && self.transaction.directories().lookup_name(parent, name)?.is_some() {
            return Err(OperationError::Exists.into());
        }
        let inode = self.create_child(parent, name, kind, attributes)?;
        self.transaction.directories().add_name(
            parent,
            name,
            inode.number,
            kind.file_type(),
            NameCheck::KnownToBeNew,
        )?;
        Ok(inode)
    }

    /// As [`create`](Self::create) for a name that the directory does not have, without adding it: the caller adds
    /// many names at once by [`fill_directory`](crate::directory::editor::DirectoryEditor::fill_directory).
    ///
    /// # Errors
    /// As there.
    pub fn create_child(
        &mut self,
        parent: &mut EditInode,
        name: &[u8],
        kind: &NewKind<'_>,
        attributes: &FileAttributes,
    ) -> Result<EditInode> {
        let is_directory = matches!(kind, NewKind::Directory);
        let links = parent.core.link_count.get();
        if is_directory && links >= MAX_LINKS {
            return Err(OperationError::TooManyLinks.into());
        }
        let geometry = self.transaction.engine().geometry();
        let new = attributes.new_inode(kind).inherit(&parent.core, geometry);
        let mut inode = self.transaction.inodes().create_inode(parent.number, &new)?;
        match kind {
            NewKind::Directory => {
                self.transaction.directories().init_directory(&mut inode, parent.number)?;
                parent.core.link_count = U32::new(links + 1);
            }
            NewKind::Symlink(target) => self.transaction.symlinks().set_symlink_target(&mut inode, target)?,
            NewKind::Regular | NewKind::Special(..) => {}
        }
        self.transaction.parent_pointers().add_parent_pointer(&mut inode, pointer_to(parent, name))?;
        Ok(inode)
    }

    /// Gives a file a further name. The caller stores both inodes.
    ///
    /// # Errors
    /// The name exists or is impossible; a directory; too many names; no space; damage; the device.
    pub fn link(
        &mut self,
        parent: &mut EditInode,
        name: &[u8],
        inode: &mut EditInode,
        check: NameCheck,
    ) -> Result<()> {
        let file_type = inode.file_type().ok_or(OperationError::NoSuchInode)?;
        if file_type == FileType::Directory {
            return Err(OperationError::IsADirectory.into());
        }
        let links = inode.core.link_count.get();
        if links >= MAX_LINKS {
            return Err(OperationError::TooManyLinks.into());
        }
        self.transaction.directories().add_name(parent, name, inode.number, file_type, check)?;
        self.transaction.parent_pointers().add_parent_pointer(inode, pointer_to(parent, name))?;
        inode.core.link_count = U32::new(links + 1);
        Ok(())
    }
}

/// The parent pointer of an inode for a name in `parent`.
pub fn pointer_to<'a>(parent: &EditInode, name: &'a [u8]) -> ParentPointer<'a> {
    ParentPointer { parent: parent.number, generation: parent.core.generation.get(), name }
}
