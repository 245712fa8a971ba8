//! Paths in a file system that is being changed, resolved as [`Volume::resolve`](uxfs_volume::volume::Volume::resolve) does for
//! readers.
//!
//! On a damaged image an entry may lead into another tree. What a change names by a path through that entry is not there. So
//! each directory on the way is compared with the entry that leads to it.

use uxfs_format::directory::MAX_NAME_BYTES;
use uxfs_volume::{
    error::{Error, OperationError, Result},
    inode::FileType,
    resolve::{MAX_SYMLINKS, first_name},
};

use super::{
    check::{is_directory, is_dot},
    check_entry::{check_file_type, check_leads_back},
    live::find_entry,
};
use crate::{filesystem::FileSystem, inode::table::InodeHandle};

impl FileSystem {
    /// Opens the file at `path`, from `start` where the path does not begin with a slash. If the last name is a symbolic link,
    /// it is followed only with `follows_last` or a slash behind it.
    ///
    /// # Errors
    /// As [`Volume::resolve`](uxfs_volume::volume::Volume::resolve); a directory and the entry that leads to it do not agree.
    pub fn open_path(&self, start: &InodeHandle, path: &[u8], follows_last: bool) -> Result<InodeHandle> {
        let is_absolute = |path: &[u8]| path.first() == Some(&b'/');
        let mut current = if is_absolute(path) { self.open_root()? } else { start.clone() };
        let mut links = 0_u32;
        // A symbolic link's target is put before the rest.
        let mut rest = path.to_vec();
        while let Some((name, after)) = first_name(&rest) {
            if name.len() > MAX_NAME_BYTES {
                return Err(OperationError::NameTooLong.into());
            }
            let is_last = after.iter().all(|byte| *byte == b'/');
            let must_be_directory = !after.is_empty();
            let next = self.find_to_change(&current, name)?;
            let file_type = next.read().file_type();
            if file_type == Some(FileType::SymbolicLink) && (!is_last || follows_last || must_be_directory) {
                links += 1;
                if links > MAX_SYMLINKS {
                    return Err(OperationError::TooManySymlinks.into());
                }
                let target = [self.read_link(&next)?.as_slice(), after].concat();
                if is_absolute(&target) {
                    current = self.open_root()?;
                }
                rest = target;
                continue;
            }
            if must_be_directory && file_type != Some(FileType::Directory) {
                return Err(OperationError::NotADirectory.into());
            }
            current = next;
            rest = after.to_vec();
        }
        Ok(current)
    }

    /// As [`find`](Self::find), before a change: file types must agree, and a directory with the entry that names it.
    ///
    /// # Errors
    /// As there; they do not agree.
    pub fn find_to_change(&self, directory: &InodeHandle, name: &[u8]) -> Result<InodeHandle> {
        let (found, type_in_entry) = find_entry(self, directory, name)?;
        check_file_type(directory.number(), type_in_entry, &found.read())?;
        if is_directory(&found.read()) {
            self.check_leads_back(directory, name, &found)?;
        }
        Ok(found)
    }

    /// Checks that an inode and the entry of a directory which led to it agree: `..` of a directory, and the parent pointer.
    ///
    /// # Errors
    /// They do not agree; damage; the device.
    pub fn check_leads_back(&self, directory: &InodeHandle, name: &[u8], found: &InodeHandle) -> Result<()> {
        if is_dot(name) {
            return Ok(());
        }
        // One lock at a time: operations take several in the order of the inode numbers.
        let (number, generation) = (directory.number(), directory.read().generation());
        let checked = check_leads_back(self, (number, generation), name, &found.read());
        match checked {
            // After a rename meanwhile the entry leads elsewhere, and nothing is damaged.
            Err(Error::Corrupt(_)) if !is_at(self, directory, name, found)? => Ok(()),
            checked => checked,
        }
    }
}

fn is_at(
    file_system: &FileSystem,
    directory: &InodeHandle,
    name: &[u8],
    wanted: &InodeHandle,
) -> Result<bool> {
    match file_system.find(directory, name) {
        Ok(found) => Ok(found.number() == wanted.number()),
        Err(Error::Operation(OperationError::NotFound)) => Ok(false),
        Err(error) => Err(error),
    }
}
