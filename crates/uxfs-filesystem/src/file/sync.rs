//! Making one file durable.
//!
//! An inode remembers the newest checkpoints that hold changes of it
//! ([`CommitSequences`]). `fsync` waits for those and for no others.
//! Threads that wait for the same checkpoint share one write.

use crate::{filesystem::FileSystem, inode::table::InodeHandle};
use uxfs_engine::inode::edit::CommitSequences;
use uxfs_volume::error::Result;

impl FileSystem {
    /// Makes all changes of an inode durable: attributes, contents, and everything that leads to them; of a directory its
    /// names. Changes of others that are in the same checkpoint go with them. A file that is durable already costs nothing.
    ///
    /// # Errors
    /// The device failed, now or before.
    #[doc(alias = "fsync")]
    pub fn sync_file(&self, file: &InodeHandle) -> Result<()> {
        let commits = file.read().commits;
        sync_commits(self, file, commits.all, commits)
    }

    /// As [`sync_file`](Self::sync_file), but a change of nothing but times need not be durable.
    ///
    /// # Errors
    /// As there.
    #[doc(alias = "fdatasync")]
    pub fn sync_file_data(&self, file: &InodeHandle) -> Result<()> {
        let commits = file.read().commits;
        sync_commits(self, file, commits.data, commits)
    }
}

/// Waits for checkpoint `sequence` and for the contents.
fn sync_commits(
    file_system: &FileSystem,
    file: &InodeHandle,
    sequence: u64,
    commits: CommitSequences,
) -> Result<()> {
    file_system.force_inode(sequence, commits.contents)?;
    // The next one need not flush for the same contents.
    if commits.contents != 0
        && let Some(mut inode) = file.try_write()
        && inode.commits.contents_writes == commits.contents_writes
    {
        inode.commits.contents = 0;
    }
    Ok(())
}
