//! One file of a walk, as tests and actions see it.

use std::{cell::OnceCell, sync::Arc};

use uxfs_format::units::InodeNumber;
use uxfs_volume::{
    error::Result,
    inode::{FileType, Inode},
    volume::Volume,
};

/// A file: its path, and what is known of it without reading its inode. That is read when it is first asked for.
#[derive(Debug)]
pub struct Subject<'w> {
    /// The image.
    pub volume: &'w Volume,
    /// The path as it is printed.
    pub path: &'w [u8],
    /// Length of the start of the walk, as it was given.
    pub start_length: usize,
    /// Levels below the start.
    pub depth: usize,
    /// The inode's number.
    pub number: InodeNumber,
    /// The directory whose entry leads to it.
    pub parent: Option<&'w Inode>,
    /// The type that the entry says.
    pub entry_type: Option<FileType>,
    /// The inode, once it has been read.
    pub inode: OnceCell<Arc<Inode>>,
}

impl Subject<'_> {
    /// The inode.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn inode(&self) -> Result<&Arc<Inode>> {
        if let Some(inode) = self.inode.get() {
            return Ok(inode);
        }
        let inode = match self.parent {
            Some(parent) => self.volume.inode_of_entry(parent, self.number)?,
            None => self.volume.inode(self.number)?,
        };
        Ok(self.inode.get_or_init(|| inode))
    }

    /// The file's type, from the entry where that says it.
    ///
    /// # Errors
    /// As for [`inode`](Self::inode).
    pub fn file_type(&self) -> Result<Option<FileType>> {
        match self.entry_type {
            Some(file_type) => Ok(Some(file_type)),
            None => Ok(self.inode()?.file_type()),
        }
    }

    /// The last name of the path, without slashes behind it; of the root directory its slash.
    pub fn name(&self) -> &[u8] {
        last_name(self.path)
    }

    /// As [`name`](Self::name), with one slash behind it where the path has any there.
    pub fn name_with_slash(&self) -> &[u8] {
        let name = self.name();
        if self.path.ends_with(b"/") && name != b"/" {
            let end = without_slashes(self.path).len() + 1;
            return self.path.get(end - 1 - name.len()..end).unwrap_or(name);
        }
        name
    }

    /// The path without its last name; `.` where that is all there is.
    pub fn above(&self) -> &[u8] {
        let trimmed = without_slashes(self.path);
        match trimmed.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => trimmed.get(..slash).unwrap_or_default(),
            None if trimmed.is_empty() => b"",
            None => b".",
        }
    }

    /// The path below the start.
    pub fn below_start(&self) -> &[u8] {
        let below = self.path.get(self.start_length..).unwrap_or_default();
        below.strip_prefix(b"/").unwrap_or(below)
    }

    /// The start of the walk, as it was given.
    pub fn start(&self) -> &[u8] {
        self.path.get(..self.start_length).unwrap_or_default()
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn target(&self) -> Result<Option<Vec<u8>>> {
        match self.file_type()? {
            Some(FileType::SymbolicLink) => self.volume.read_symlink(self.inode()?).map(Some),
            _ => Ok(None),
        }
    }
}

fn without_slashes(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    path.get(..end).unwrap_or_default()
}

/// The last name of a path; of `/` the slash.
pub fn last_name(path: &[u8]) -> &[u8] {
    let trimmed = without_slashes(path);
    if trimmed.is_empty() {
        return path.get(..1).unwrap_or_default();
    }
    let start = trimmed.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    trimmed.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names() {
        for (path, name) in [("/", "/"), ("//", "/"), ("etc/", "etc"), ("/a/b", "b"), (".", "."), ("", "")] {
            assert_eq!(last_name(path.as_bytes()), name.as_bytes());
        }
    }
}
