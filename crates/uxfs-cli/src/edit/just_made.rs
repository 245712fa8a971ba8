//! Files that a command with several sources has made: a second source of the same name would replace the first, whose contents
//! would be lost (with `mv` they would be nowhere). GNU cp and mv refuse as well.

use uxfs_filesystem::inode::table::InodeHandle;
use uxfs_volume::inode::set::InodeSet;

use crate::{edit::session::Place, failure::Failure, kind::Kind};

/// Files that one command has made or moved, if it has several sources.
#[derive(Debug, Default)]
pub struct JustMade {
    files: Option<InodeSet>,
}

impl JustMade {
    /// Begins a command with so many sources.
    pub fn begin(&mut self, sources: usize) {
        self.files = (sources > 1).then(InodeSet::default);
    }

    /// Notes a file that the command has made, or replaced the contents of.
    pub fn add(&mut self, file: &InodeHandle) {
        if let Some(files) = &mut self.files {
            files.insert(file.number());
        }
    }

    /// Refuses to replace a file that the command has made.
    ///
    /// # Errors
    /// It is one.
    pub fn refuse(&self, existing: &InodeHandle, place: &Place) -> Result<(), Failure> {
        if self.files.as_ref().is_some_and(|files| files.contains(existing.number())) {
            let failure = Failure::refused(
                Kind::Exists,
                "not replaced: another source of the same name has just been put there",
            );
            return Err(failure.about_path(&place.path));
        }
        Ok(())
    }
}
