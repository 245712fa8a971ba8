//! Trees of the image, file by file, without recursion: a hostile image can be deep.

use std::{collections::VecDeque, ops::ControlFlow};

use uxfs_filesystem::{filesystem::FileSystem, inode::table::InodeHandle};
use uxfs_volume::{
    directory::DirectoryEntry,
    error::Error,
    inode::{FileType, set::InodeSet},
};

use crate::{
    edit::session::{Session, explained, join},
    failure::Failure,
    kind::Kind,
    listing::PATH_BYTES_MAX,
};

/// Names that are read at once.
const BATCH_NAMES: usize = 1024;

/// The entries of one directory, one by one, while the files change.
#[derive(Debug)]
pub struct Level {
    /// The directory.
    pub directory: InodeHandle,
    /// Its path.
    pub path: Vec<u8>,
    /// Names, with the positions of their entries.
    names: VecDeque<(Vec<u8>, u64)>,
    cookie: u64,
    is_over: bool,
    /// Damage that is reported behind the last name.
    damage: Option<Error>,
}

impl Level {
    /// Begins with its first name.
    pub fn new(directory: InodeHandle, path: Vec<u8>) -> Self {
        Self { directory, path, names: VecDeque::new(), cookie: 0, is_over: false, damage: None }
    }

    /// The next name, without `.` and `..`.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn next(&mut self, filesystem: &FileSystem) -> Result<Option<Vec<u8>>, Failure> {
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
                .map_err(|error| explained(error).about_path(&self.path))?;
        }
        let Some((name, cookie)) = self.names.pop_front() else {
            return match self.damage.take() {
                Some(error) => Err(explained(error).about_path(&self.path)),
                None => Ok(None),
            };
        };
        // Otherwise each name would be compared with all names of the same hash.
        filesystem.expect_name(&self.directory, &name, cookie);
        Ok(Some(name))
    }
}

/// A file met by a walk.
#[derive(Debug)]
pub struct Met {
    /// The file.
    pub handle: InodeHandle,
    /// Its type.
    pub file_type: FileType,
    /// Its path.
    pub path: Vec<u8>,
}

impl Session {
    /// Calls `visit` for `start` and everything below, directories before their contents. Problems are reported,
    /// and the walk continues.
    ///
    /// # Errors
    /// Only errors that do not concern single files.
    pub fn walk(
        &mut self,
        start: Met,
        mut visit: impl FnMut(&mut Self, &Met) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut seen = InodeSet::default();
        let mut levels = Vec::new();
        let mut next = Some(start);
        loop {
            if let Some(met) = next.take() {
                let done = visit(self, &met);
                self.report.check(done);
                if met.file_type == FileType::Directory {
                    self.enter(&mut levels, &mut seen, met);
                }
            }
            let Some(level) = levels.last_mut() else { return Ok(()) };
            match level.next(self.filesystem()) {
                Ok(Some(name)) => {
                    let found = self.meet_to_change(level, &name);
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

    /// The file of a name.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn meet(&self, level: &Level, name: &[u8]) -> Result<Met, Failure> {
        let path = join(&level.path, name);
        let handle = self.filesystem().find_to_change(&level.directory, name);
        let handle = handle.map_err(|error| explained(error).about_path(&path))?;
        let file_type = self.status(&handle)?.file_type;
        Ok(Met { handle, file_type, path })
    }

    /// As [`meet`](Self::meet), for a caller that changes files of all types: all are compared with their entries.
    fn meet_to_change(&self, level: &Level, name: &[u8]) -> Result<Met, Failure> {
        let met = self.meet(level, name)?;
        if met.file_type != FileType::Directory {
            let checked = self.filesystem().check_leads_back(&level.directory, name, &met.handle);
            checked.map_err(|error| explained(error).about_path(&met.path))?;
        }
        Ok(met)
    }

    /// On a damaged image a directory may contain itself.
    fn enter(&mut self, levels: &mut Vec<Level>, seen: &mut InodeSet, met: Met) {
        if !seen.insert(met.handle.number()) {
            self.report.complain(
                &Failure::refused(Kind::Damage, "this directory was reached a second time")
                    .about_path(&met.path),
            );
        } else if met.path.len() > PATH_BYTES_MAX {
            self.report.complain(&Failure::refused(Kind::NameTooLong, "too deep").about_path(&met.path));
        } else {
            levels.push(Level::new(met.handle, met.path));
        }
    }
}
