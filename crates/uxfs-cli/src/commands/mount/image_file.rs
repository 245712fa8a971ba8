//! Detects that another program removed, replaced or renamed the image file of a mount. The mount keeps using its open file; `uxfs umount`
//! reports where the changes are.

use std::{
    fs::{self, File, Metadata},
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags, open};

use crate::{failure::Failure, kind::Kind};

/// An image file that is mounted.
#[derive(Debug)]
pub(super) struct ImageFile {
    path: PathBuf,
    /// Opened for its status alone.
    file: File,
}

impl ImageFile {
    /// `None` for a block device, of which nothing can be lost. Called once the image is open for changes: where the host copies a file then
    /// (overlayfs), the copy is meant.
    pub fn of(path: &Path) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let file = open(path, flags, Mode::empty()).ok().map(File::from)?;
        let is_device = file.metadata().is_ok_and(|status| status.file_type().is_block_device());
        (!is_device).then(|| Self { path: path.to_owned(), file })
    }

    /// What the host says of it, wherever its name is now.
    pub fn metadata(&self) -> Option<Metadata> {
        self.file.metadata().ok()
    }

    /// Checks that the image file still has a name. Returns a warning if it was renamed.
    ///
    /// # Errors
    /// The file was removed or replaced: the changes are lost.
    pub fn check(self) -> Result<Option<String>, Failure> {
        let Ok(status) = self.file.metadata() else { return Ok(None) };
        let now = fs::symlink_metadata(&self.path);
        let is_same = |now: &Metadata| (now.dev(), now.ino()) == (status.dev(), status.ino());
        if status.nlink() == 0 {
            let what = if now.is_ok() { "replaced by another file" } else { "removed" };
            let words =
                format!("the image file was {what} while it was mounted, and is gone with all changes");
            return Err(Failure::refused(Kind::Io, words));
        }
        match now {
            Ok(now) if is_same(&now) => Ok(None),
            Ok(_) => Ok(Some(
                "this is another file now; the changes are in the one that was mounted, which has another name"
                    .to_owned(),
            )),
            Err(_) => Ok(Some("the file has another name now; the changes are in it".to_owned())),
        }
    }
}
