//! Closing a file system.

use uxfs_volume::error::Result;

use super::inactivate::inactivate_unlinked_of;
use crate::filesystem::FileSystem;

impl FileSystem {
    /// Frees the inodes that have neither links nor handles, writes everything back and makes the image whole. In logged
    /// mode the log is closed cleanly; nothing can be changed any more.
    ///
    /// # Errors
    /// The device failed; bytes that must not be written. The image is then unfinished.
    pub fn close(&self) -> Result<()> {
        self.inactivate_pending()?;
        // A group that was not touched has gained no unlinked inode.
        for group in self.loaded_groups() {
            inactivate_unlinked_of(self, group)?;
        }
        self.engine().close()
    }
}

/// Writes everything back and makes the log clean, of a file system that goes on: it is not changed while this is done. Later changes make the log
/// dirty again.
///
/// # Errors
/// As for closing; it is changed all the same.
#[doc(alias = "xfs_log_quiesce")]
pub fn rest(file_system: &FileSystem) -> Result<()> {
    file_system.inactivate_pending()?;
    file_system.logged().map_or(Ok(()), |engine| engine.rest())
}
