//! Trees of the image, file by file, without recursion: a hostile image can be deep. A walk has one path, which grows and shrinks with it:
//! levels that each kept their own would take memory with the square of the depth.

use std::{collections::VecDeque, ops::ControlFlow};

use uxfs_filesystem::{filesystem::FileSystem, inode::table::InodeHandle};
use uxfs_volume::{
    directory::DirectoryEntry,
    error::Error,
    inode::{FileType, set::InodeSet},
};

use crate::{
    edit::session::{Session, explained},
    failure::Failure,
    kind::Kind,
    listing::PATH_BYTES_MAX,
    search::walk::push_name,
};

/// Names that are read at once.
const BATCH_NAMES: usize = 1024;

/// The entries of one directory, one by one, while the files change.
#[derive(Debug)]
pub struct Level {
    /// The directory.
    pub directory: InodeHandle,
    /// Length of its path in bytes.
    pub path_length: usize,
    /// Names, with the positions of their entries.
    names: VecDeque<(Vec<u8>, u64)>,
    cookie: u64,
    is_over: bool,
    /// Damage that is reported behind the last name.
    damage: Option<Error>,
}

impl Level {
    /// Begins with its first name.
    pub fn new(directory: InodeHandle, path_length: usize) -> Self {
        Self { directory, path_length, names: VecDeque::new(), cookie: 0, is_over: false, damage: None }
    }

    /// The next name, without `.` and `..`. `path`: that of the directory.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn next(&mut self, filesystem: &FileSystem, path: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        while self.names.is_empty() && !self.is_over {
            self.is_over = true;
            let begin = self.cookie;
            let (names, cookie, is_over) = (&mut self.names, &mut self.cookie, &mut self.is_over);
            let (directory, damage) = (self.directory.number(), &mut self.damage);
            let take = |entry: DirectoryEntry<'_>| {
                *cookie = entry.next_cookie;
                match entry.is_dot_of(directory) {
                    Ok(true) => {}
                    Ok(false) => names.push_back((entry.name.to_vec(), entry.cookie)),
                    Err(error) => *damage = Some(error),
                }
                if names.len() < BATCH_NAMES {
                    return ControlFlow::Continue(());
                }
                *is_over = false;
                ControlFlow::Break(())
            };
            filesystem
                .read_entries(&self.directory, begin, take)
                .map_err(|error| explained(error).about_path(path))?;
        }
        let Some((name, cookie)) = self.names.pop_front() else {
            return match self.damage.take() {
                Some(error) => Err(explained(error).about_path(path)),
                None => Ok(None),
            };
        };
        // Otherwise each name would be compared with all names of the same hash.
        filesystem.expect_name(&self.directory, &name, cookie);
        Ok(Some(name))
    }
}

/// A file that a walk has found.
#[derive(Debug)]
pub struct Found {
    /// The file.
    pub handle: InodeHandle,
    /// Its type.
    pub file_type: FileType,
}

/// A file that a walk has come to.
#[derive(Debug, Clone, Copy)]
pub struct Met<'w> {
    /// The file.
    pub handle: &'w InodeHandle,
    /// Its type.
    pub file_type: FileType,
    /// Its path.
    pub path: &'w [u8],
}

impl Session {
    /// Calls `visit` for `start`, whose path is `path`, and everything below, directories before their contents. Problems are reported,
    /// and the walk continues.
    ///
    /// # Errors
    /// Only errors that do not concern single files.
    pub fn walk(
        &mut self,
        start: Found,
        path: &[u8],
        mut visit: impl FnMut(&mut Self, Met<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut path = path.to_vec();
        let mut seen = InodeSet::default();
        let mut levels = Vec::new();
        let mut next = Some(start);
        loop {
            if let Some(found) = next.take() {
                let Found { handle, file_type } = &found;
                let done = visit(self, Met { handle, file_type: *file_type, path: &path });
                self.report.check(done);
                if found.file_type == FileType::Directory {
                    self.enter(&mut levels, &mut seen, found, &path);
                }
            }
            let Some(level) = levels.last_mut() else { return Ok(()) };
            path.truncate(level.path_length);
            match level.next(self.filesystem(), &path) {
                Ok(Some(name)) => {
                    push_name(&mut path, &name);
                    let found = self.meet_to_change(&level.directory, &name, &path);
                    next = self.report.check(found);
                }
                Ok(None) => drop(levels.pop()),
                Err(failure) => {
                    self.report.complain(&failure);
                    levels.pop();
                }
            }
        }
    }

    /// The file of a name in a directory. `path`: that of the file.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn meet(&self, directory: &InodeHandle, name: &[u8], path: &[u8]) -> Result<Found, Failure> {
        let handle = self.filesystem().find_to_change(directory, name);
        let handle = handle.map_err(|error| explained(error).about_path(path))?;
        let file_type = self.status(&handle)?.file_type;
        Ok(Found { handle, file_type })
    }

    /// As [`meet`](Self::meet), for a caller that changes files of all types: all are compared with their entries.
    fn meet_to_change(&self, directory: &InodeHandle, name: &[u8], path: &[u8]) -> Result<Found, Failure> {
        let found = self.meet(directory, name, path)?;
        if found.file_type != FileType::Directory {
            let checked = self.filesystem().check_leads_back(directory, name, &found.handle);
            checked.map_err(|error| explained(error).about_path(path))?;
        }
        Ok(found)
    }

    /// On a damaged image a directory may contain itself.
    fn enter(&mut self, levels: &mut Vec<Level>, seen: &mut InodeSet, found: Found, path: &[u8]) {
        if !seen.insert(found.handle.number()) {
            self.report.complain(
                &Failure::refused(Kind::Damage, "this directory was reached a second time").about_path(path),
            );
        } else if path.len() > PATH_BYTES_MAX {
            self.report.complain(&Failure::refused(Kind::NameTooLong, "too deep").about_path(path));
        } else {
            levels.push(Level::new(found.handle, path.len()));
        }
    }
}
