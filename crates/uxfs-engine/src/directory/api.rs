//! Directories, as operations change them.

use uxfs_format::{
    directory::{MAX_NAME_BYTES, is_plausible_inode, is_valid_name, shortform_edit},
    units::InodeNumber,
};

use super::{
    DOTS, Directory,
    names::{NameCheck, NameTarget, NewName},
    store::DirectoryFork,
};
use crate::directory::editor::DirectoryEditor;
use crate::inode::edit::{EditInode, InodeFork};
use uxfs_volume::{
    error::{OperationError, Result},
    inode::FileType,
};

fn check_name(name: &[u8]) -> Result<()> {
    match name {
        _ if DOTS.contains(&name) => Err(OperationError::Exists.into()),
        _ if name.len() > MAX_NAME_BYTES => Err(OperationError::NameTooLong.into()),
        _ if is_valid_name(name) => Ok(()),
        _ => Err(OperationError::InvalidName.into()),
    }
}

impl<'fs> DirectoryEditor<'_, 'fs> {
    /// Makes a new inode a directory without names, below `parent`.
    ///
    /// # Errors
    /// The inode is not one of a directory.
    pub fn init_directory(&mut self, directory: &mut EditInode, parent: InodeNumber) -> Result<()> {
        require_directory(directory)?;
        let bytes = shortform_edit::empty(parent);
        directory.set_size_bytes(bytes.len() as u64);
        directory.data = InodeFork::Local(bytes);
        Ok(())
    }

    /// Adds a name. Link counts, times and parent pointers are the caller's business.
    ///
    /// # Errors
    /// [`Exists`](OperationError::Exists); not a possible name; no space; damage; the device.
    #[doc(alias = "xfs_dir_createname")]
    pub fn add_name(
        &mut self,
        directory: &mut EditInode,
        name: &[u8],
        inode: InodeNumber,
        file_type: FileType,
        check: NameCheck,
    ) -> Result<()> {
        check_name(name)?;
        self.check_target(inode)?;
        let entry = NewName { name, inode, file_type }.entry();
        self.change_directory(directory, |names| {
            if check == NameCheck::Check && names.find(name)?.is_some() {
                return Err(OperationError::Exists.into());
            }
            names.insert(&entry)
        })
    }

    /// Adds all names of a directory, in this order. One that has none yet is built at once, every block written once.
    /// The caller knows that no name comes twice.
    ///
    /// # Errors
    /// As [`add_name`](Self::add_name).
    pub fn fill_directory(&mut self, directory: &mut EditInode, names: &[NewName<'_>]) -> Result<()> {
        for new in names {
            check_name(new.name)?;
            self.check_target(new.inode)?;
        }
        self.change_directory(directory, |directory| directory.filler().fill(names))
    }

    /// Removes a name. Gives what it led to.
    ///
    /// # Errors
    /// [`NotFound`](OperationError::NotFound); "." and ".."; damage; the device.
    #[doc(alias = "xfs_dir_removename")]
    pub fn remove_name(&mut self, directory: &mut EditInode, name: &[u8]) -> Result<NameTarget> {
        self.change_directory(directory, |names| {
            if let Some(target) = names.remove_at_hint(name)? {
                return Ok(target);
            }
            let found = match names.find_at_hint(name)? {
                Some(found) => found,
                None => names.find(name)?.ok_or(OperationError::NotFound)?,
            };
            names.remove(&found)?;
            Ok(found.target())
        })
    }

    /// Lets a name, which may be "..", lead to another inode. Gives what it led to before.
    ///
    /// # Errors
    /// [`NotFound`](OperationError::NotFound); "."; no space; damage; the device.
    #[doc(alias = "xfs_dir_replace")]
    pub fn replace_name(
        &mut self,
        directory: &mut EditInode,
        name: &[u8],
        inode: InodeNumber,
        file_type: FileType,
    ) -> Result<NameTarget> {
        self.check_target(inode)?;
        self.change_directory(directory, |names| {
            let found = names.find(name)?.ok_or(OperationError::NotFound)?;
            names.replace(name, &found, inode, file_type.directory_code())?;
            Ok(found.target())
        })
    }

    /// Finds a name, "." and ".." included, in a directory that is being changed.
    ///
    /// # Errors
    /// Not a directory; damage; the device.
    #[doc(alias = "xfs_dir_lookup")]
    pub fn lookup_name(&mut self, directory: &mut EditInode, name: &[u8]) -> Result<Option<NameTarget>> {
        if name.len() > MAX_NAME_BYTES {
            return Err(OperationError::NameTooLong.into());
        }
        self.change_directory(directory, |names| Ok(names.find(name)?.map(|found| found.target())))
    }

    /// Whether a directory has no names but "." and "..".
    ///
    /// # Errors
    /// Not a directory; damage; the device.
    #[doc(alias = "xfs_dir_isempty")]
    pub fn is_directory_empty(&mut self, directory: &EditInode) -> Result<bool> {
        require_directory(directory)?;
        match &directory.data {
            InodeFork::Local(bytes) => Ok(bytes.first() == Some(&0)),
            // Linux and uxfs bring an empty directory back into its inode: this is for what others made.
            _ => self.change_directory(&mut directory.clone(), |names| names.is_empty()),
        }
    }

    /// Gives back what a directory without names has, so that its inode can be freed.
    ///
    /// # Errors
    /// Not a directory; damage; the device.
    pub fn remove_directory_blocks(&mut self, directory: &mut EditInode) -> Result<()> {
        self.change_directory(directory, |names| names.free_all())
    }

    /// Moves the names of a directory out of its inode, because attributes need the room.
    pub fn directory_to_block(&mut self, directory: &mut EditInode) -> Result<()> {
        self.change_directory(directory, |names| names.shortform_to_block())
    }

    pub(super) fn change_directory<T>(
        &mut self,
        inode: &mut EditInode,
        change: impl FnOnce(&mut Directory<'_, DirectoryFork<'_, 'fs>>) -> Result<T>,
    ) -> Result<T> {
        require_directory(inode)?;
        let mut hint = inode.directory_hint;
        let mut store = DirectoryFork::new(self.transaction, inode);
        let result = change(&mut Directory::new(&mut store, &mut hint));
        inode.directory_hint = hint;
        result
    }

    fn check_target(&self, inode: InodeNumber) -> Result<()> {
        if is_plausible_inode(self.transaction.engine().geometry(), inode) {
            return Ok(());
        }
        Err(OperationError::NoSuchInode.into())
    }
}

fn require_directory(inode: &EditInode) -> Result<()> {
    if inode.file_type() == Some(FileType::Directory) {
        return Ok(());
    }
    Err(OperationError::NotADirectory.into())
}
