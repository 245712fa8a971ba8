//! Removing trees.

use uxfs_volume::{
    error::OperationError,
    inode::{FileType, set::InodeSet},
};

use crate::{
    edit::{
        session::{Place, Session},
        walk::Level,
    },
    failure::Failure,
    kind::Kind,
};

/// A directory that is being emptied, and where it lies.
struct Emptying {
    level: Level,
    place: Place,
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
        let level = Level::new(handle, place.path.clone());
        let mut levels = vec![Emptying { level, place: place.clone(), is_kept: false }];
        let mut is_all_gone = true;
        while let Some(top) = levels.last_mut() {
            let is_gone = match top.level.next(self.filesystem()) {
                Ok(Some(name)) => self.remove_entry(&mut levels, &mut seen, &name),
                Ok(None) => {
                    let Some(done) = levels.pop() else { break };
                    drop(done.level);
                    // The complaint about its remaining entry has been printed.
                    if done.is_kept { Ok(false) } else { self.remove_name(&done.place, true).map(|()| true) }
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
                levels.iter_mut().for_each(|level| level.is_kept = true);
            }
        }
        Ok(is_all_gone)
    }

    fn remove_entry(
        &mut self,
        levels: &mut Vec<Emptying>,
        seen: &mut InodeSet,
        name: &[u8],
    ) -> Result<bool, Failure> {
        let Some(top) = levels.last() else { return Ok(true) };
        let met = self.meet(&top.level, name)?;
        let place = Place::below(&top.level.directory, name, met.path.clone());
        if met.file_type != FileType::Directory {
            drop(met);
            return self.remove_name(&place, false).map(|()| true);
        }
        if !seen.insert(met.handle.number()) {
            return Err(Failure::refused(Kind::Damage, "this directory was reached a second time")
                .about_path(&met.path));
        }
        levels.push(Emptying { level: Level::new(met.handle, met.path), place, is_kept: false });
        Ok(true)
    }

    /// Removes one directory entry.
    ///
    /// # Errors
    /// Those of the operation.
    pub fn remove_name(&mut self, place: &Place, is_directory: bool) -> Result<(), Failure> {
        let filesystem = self.filesystem();
        let removed = if is_directory {
            filesystem.remove_directory(&place.directory, &place.name)
        } else {
            filesystem.unlink(&place.directory, &place.name)
        };
        removed.map_err(|error| place.failure(error))?;
        self.report.done(if is_directory { "removed directory" } else { "removed" }, &place.path);
        Ok(())
    }
}
