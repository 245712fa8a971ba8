//! From a path to an inode, as Linux resolves it with the image's root as root.
//!
//! Symbolic links never lead out of the image: an absolute target begins at its root, and ".." of the root is the
//! root. Every step takes a name off the path; links put names on it, but 40 links at most.

use std::sync::Arc;

use uxfs_format::{
    directory::MAX_NAME_BYTES,
    fault::{Corruption, Location, Structure},
    name_tree::fault::NameTreeFault,
    units::InodeNumber,
};

use crate::{
    error::{Error, OperationError, Result},
    inode::{FileType, Inode},
    volume::Volume,
};

/// Most symbolic links on one path.
#[doc(alias = "MAXSYMLINKS")]
pub const MAX_SYMLINKS: u32 = 40;

impl Volume {
    /// The root directory.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn root(&self) -> Result<Arc<Inode>> {
        self.inode(self.geometry().root_inode)
    }

    /// Finds the inode at `path`, from the root directory, with or without a slash in front. The empty path is the
    /// root directory, too. The last name, if it is a symbolic link, is followed only if `follow_last` says so or a
    /// slash is behind it.
    ///
    /// # Errors
    /// [`OperationError::NotFound`], [`OperationError::NotADirectory`], [`OperationError::TooManySymlinks`],
    /// [`OperationError::NameTooLong`]; damage; the device.
    pub fn resolve(&self, path: &[u8], follow_last: bool) -> Result<Arc<Inode>> {
        self.resolve_from(&self.root()?, path, follow_last)
    }

    /// Like [`resolve`](Self::resolve), but a path without a slash in front begins at `start`.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn resolve_from(&self, start: &Arc<Inode>, path: &[u8], follow_last: bool) -> Result<Arc<Inode>> {
        let mut walk = Walk { volume: self, current: Arc::clone(start), symlinks: 0 };
        // The rest of the path. A symbolic link's target is put before it.
        let mut rest = path.to_vec();
        walk.go_to_root_if_absolute(&rest)?;
        while let Some((name, after)) = first_name(&rest) {
            let is_last = after.iter().all(|byte| *byte == b'/');
            let must_be_directory = !after.is_empty();
            let next = walk.step(name)?;
            if next.file_type() == Some(FileType::SymbolicLink)
                && (!is_last || follow_last || must_be_directory)
            {
                let mut target = walk.target(&next)?;
                target.extend_from_slice(after);
                walk.go_to_root_if_absolute(&target)?;
                rest = target;
                continue;
            }
            if must_be_directory && next.file_type() != Some(FileType::Directory) {
                return Err(OperationError::NotADirectory.into());
            }
            walk.current = next;
            rest = after.to_vec();
        }
        Ok(walk.current)
    }

    /// The inode that an entry of `directory` leads to.
    ///
    /// # Errors
    /// Damage, also where the inode is not in use; the device.
    pub fn inode_of_entry(&self, directory: &Inode, inode: InodeNumber) -> Result<Arc<Inode>> {
        self.inode(inode).map_err(|error| match error {
            Error::Operation(OperationError::NoSuchInode) => unused_inode(directory.number, inode),
            other => other,
        })
    }
}

/// A directory leads to an inode that is not in use.
pub fn unused_inode(directory: InodeNumber, inode: InodeNumber) -> Error {
    let fault = NameTreeFault::UnusedInode { inode };
    Corruption::new(Structure::DirectoryAnyData, Location::of_inode(directory), fault).into()
}

struct Walk<'a> {
    volume: &'a Volume,
    current: Arc<Inode>,
    symlinks: u32,
}

impl Walk<'_> {
    fn go_to_root_if_absolute(&mut self, path: &[u8]) -> Result<()> {
        if path.first() == Some(&b'/') {
            self.current = self.volume.root()?;
        }
        Ok(())
    }

    /// The inode of one name in the current directory.
    fn step(&self, name: &[u8]) -> Result<Arc<Inode>> {
        let directory = &self.current;
        if directory.file_type() != Some(FileType::Directory) {
            return Err(OperationError::NotADirectory.into());
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(OperationError::NameTooLong.into());
        }
        let is_root = directory.number == self.volume.geometry().root_inode;
        if name == b"." || (name == b".." && is_root) {
            return Ok(Arc::clone(directory));
        }
        let found = self.volume.lookup(directory, name)?.ok_or(OperationError::NotFound)?;
        self.volume.inode_of_entry(directory, found.inode)
    }

    /// The target of a symbolic link, which counts.
    fn target(&mut self, link: &Inode) -> Result<Vec<u8>> {
        self.symlinks += 1;
        if self.symlinks > MAX_SYMLINKS {
            return Err(OperationError::TooManySymlinks.into());
        }
        self.volume.read_symlink(link)
    }
}

/// The first name of a path and the rest; `None` for an empty path.
pub fn first_name(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let begin = path.iter().position(|byte| *byte != b'/')?;
    let path = path.get(begin..)?;
    let end = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
    path.split_at_checked(end)
}
