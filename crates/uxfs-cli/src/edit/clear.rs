//! Removing trees.

use uxfs_filesystem::inode::table::InodeHandle;
use uxfs_volume::{
    error::OperationError,
    inode::{FileType, set::InodeSet},
};

use crate::{
    edit::{
        session::{Place, Session, explained},
        walk::{Found, Level},
    },
    failure::Failure,
    kind::Kind,
    search::walk::push_name,
};

/// A directory that is being emptied, and where it lies.
struct Emptying {
    level: Level,
    /// The directory above it.
    above: InodeHandle,
    /// Its name there.
    name: Vec<u8>,
    /// Something in it could not be removed.
    is_kept: bool,
}

impl Session {
    /// Removes the file at a place, with everything below if `is_recursive` is set. Complains about files that cannot be
    /// removed, and removes the others; `false` if anything is left.
    ///
    /// # Errors
    /// An error after which the command cannot continue.
    pub fn remove(&mut self, place: &Place, is_recursive: bool) -> Result<bool, Failure> {
        if matches!(place.name.as_slice(), b"." | b"..") {
            let failure = Failure::refused(Kind::Invalid, "`.`, `..` and the root cannot be removed");
            return Err(failure.about_path(&place.path));
        }
        let Some(handle) = self.at(place)? else { return Err(place.failure(OperationError::NotFound)) };
        let is_directory = self.status(&handle)?.file_type == FileType::Directory;
        if !is_directory {
            if place.is_directory_wanted {
                return Err(place.failure(OperationError::NotADirectory));
            }
            drop(handle);
            return self.remove_name(place, false).map(|()| true);
        }
        if !is_recursive {
            let failure = place.failure(OperationError::IsADirectory);
            return Err(failure.with_remedy("use -r to remove directories with their contents"));
        }
        let root = self.filesystem().geometry().root_inode;
        if handle.number() == root {
            return Err(
                Failure::refused(Kind::InUse, "the root directory cannot be removed").about_path(&place.path)
            );
        }
        let mut seen = InodeSet::default();
        seen.insert(handle.number());
        let mut path = place.path.clone();
        let level = Level::new(handle, path.len());
        let (above, name) = (place.directory.clone(), place.name.clone());
        let mut levels = vec![Emptying { level, above, name, is_kept: false }];
        let mut is_all_gone = true;
        while let Some(top) = levels.last_mut() {
            path.truncate(top.level.path_length);
            let is_gone = match top.level.next(self.filesystem(), &path) {
                Ok(Some(name)) => {
                    push_name(&mut path, &name);
                    self.remove_entry(&mut levels, &mut seen, name, &path)
                }
                Ok(None) => {
                    let Some(Emptying { level, above, name, is_kept }) = levels.pop() else { break };
                    drop(level);
                    // The complaint about its remaining entry has been printed.
                    if is_kept {
                        Ok(false)
                    } else {
                        self.remove_at(&above, &name, &path, true).map(|()| true)
                    }
                }
                Err(failure) => {
                    levels.pop();
                    Err(failure)
                }
            };
            let is_gone = is_gone.unwrap_or_else(|failure| {
                self.report.complain(&failure);
                false
            });
            if !is_gone {
                is_all_gone = false;
                // Those above hear of it when this one is left.
                if let Some(level) = levels.last_mut() {
                    level.is_kept = true;
                }
            }
        }
        Ok(is_all_gone)
    }

    fn remove_entry(
        &mut self,
        levels: &mut Vec<Emptying>,
        seen: &mut InodeSet,
        name: Vec<u8>,
        path: &[u8],
    ) -> Result<bool, Failure> {
        let Some(top) = levels.last() else { return Ok(true) };
        let above = top.level.directory.clone();
        let Found { handle, file_type } = self.meet(&above, &name, path)?;
        if file_type != FileType::Directory {
            drop(handle);
            return self.remove_at(&above, &name, path, false).map(|()| true);
        }
        if !seen.insert(handle.number()) {
            return Err(
                Failure::refused(Kind::Damage, "this directory was reached a second time").about_path(path)
            );
        }
        levels.push(Emptying { level: Level::new(handle, path.len()), above, name, is_kept: false });
        Ok(true)
    }

    /// Removes one directory entry.
    ///
    /// # Errors
    /// Those of the operation.
    pub fn remove_name(&mut self, place: &Place, is_directory: bool) -> Result<(), Failure> {
        self.remove_at(&place.directory, &place.name, &place.path, is_directory)
    }

    fn remove_at(
        &mut self,
        directory: &InodeHandle,
        name: &[u8],
        path: &[u8],
        is_directory: bool,
    ) -> Result<(), Failure> {
        let filesystem = self.filesystem();
        let removed = match is_directory {
            true => filesystem.remove_directory(directory, name),
            false => filesystem.unlink(directory, name),
        };
        removed.map_err(|error| explained(error).about_path(path))?;
        self.report.done(if is_directory { "removed directory" } else { "removed" }, path);
        Ok(())
    }
}
