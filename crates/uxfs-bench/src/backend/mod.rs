//! Calls that a workload makes of a file system.
//!
//! A [`Backend`] is the file system, shared by all threads; each thread has a [`Worker`] of its own. Directories and files
//! are held open as programs hold them: a descriptor, or an inode in memory.

pub mod image;
pub mod system;

use uxfs_volume::attribute::leaf_use::{LeafFigures, LeafUse};

use crate::Result;

/// A file system to be measured.
pub trait Backend: Sync {
    /// Handle of one thread.
    type Worker<'b>: Worker
    where
        Self: 'b;

    /// For one more thread.
    ///
    /// # Errors
    /// The file system failed.
    fn worker(&self) -> Result<Self::Worker<'_>>;

    /// Directories that the workload is to work in, at least one.
    fn root_count(&self) -> usize;

    /// How much of the file system is in use.
    ///
    /// # Errors
    /// The file system failed.
    fn space(&self) -> Result<Space>;

    /// Counters of its journal so far, where there are any.
    fn journal(&self) -> Option<JournalFigures> {
        None
    }
}

/// How much of a file system is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes of all blocks.
    pub total_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
}

impl Space {
    /// As `df` has it, rounded down.
    pub fn used_percent(&self) -> u64 {
        let used = u128::from(self.total_bytes.saturating_sub(self.free_bytes)) * 100;
        used.checked_div(self.total_bytes.into()).and_then(|percent| u64::try_from(percent).ok()).unwrap_or(0)
    }
}

/// Counters of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct JournalFigures {
    /// Bytes of records written.
    pub log_bytes: u64,
    /// Bytes that had changed, rounded to the runs of 128 bytes in which buffers are logged.
    pub changed_bytes: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Nanoseconds that callers waited for checkpoints to become durable.
    pub force_nanoseconds: u64,
    /// Items that a checkpoint held again.
    pub relogged_items: u64,
}

impl JournalFigures {
    /// The difference from `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            log_bytes: self.log_bytes.saturating_sub(earlier.log_bytes),
            changed_bytes: self.changed_bytes.saturating_sub(earlier.changed_bytes),
            checkpoints: self.checkpoints.saturating_sub(earlier.checkpoints),
            force_nanoseconds: self.force_nanoseconds.saturating_sub(earlier.force_nanoseconds),
            relogged_items: self.relogged_items.saturating_sub(earlier.relogged_items),
        }
    }
}

/// Operations of one thread on a file system. Names have no slashes.
pub trait Worker {
    /// A directory held open.
    type Directory;
    /// A file held open.
    type File;

    /// One of the directories that the workload is to work in, made where it was not there.
    ///
    /// # Errors
    /// The file system failed; so it is for all that follow.
    fn root(&mut self, index: usize) -> Result<Self::Directory>;

    /// A directory in another, made where it was not there.
    ///
    /// # Errors
    /// See [`root`](Self::root).
    fn directory(&mut self, parent: &Self::Directory, name: &[u8]) -> Result<Self::Directory>;

    /// An empty file, made or emptied.
    ///
    /// # Errors
    /// See [`root`](Self::root).
    fn create(&mut self, directory: &Self::Directory, name: &[u8]) -> Result<Self::File>;

    /// A file that is there.
    ///
    /// # Errors
    /// See [`root`](Self::root).
    fn open(&mut self, directory: &Self::Directory, name: &[u8]) -> Result<Self::File>;

    /// Lets go of a file.
    ///
    /// # Errors
    /// See [`root`](Self::root).
    fn close(&mut self, file: Self::File) -> Result<()>;

    /// Puts bytes into a file.
    ///
    /// # Errors
    /// See [`root`](Self::root).
    fn write(&mut self, file: &Self::File, offset_bytes: u64, bytes: &[u8]) -> Result<()>;

    /// Makes a file durable.
    ///
    /// # Errors
    /// See [`root`](Self::root).
    fn fsync(&mut self, file: &Self::File) -> Result<()>;

    /// Makes a directory durable.
    ///
    /// # Errors
    /// See [`root`](Self::root).
    fn fsync_directory(&mut self, directory: &Self::Directory) -> Result<()>;

    /// Makes the whole file system durable that `directory` is on.
    ///
    /// # Errors
    /// See [`root`](Self::root).
    fn syncfs(&mut self, directory: &Self::Directory) -> Result<()>;

    /// Gives a file another name in the same directory.
    ///
    /// # Errors
    /// See [`root`](Self::root).
    fn rename(&mut self, directory: &Self::Directory, from: &[u8], to: &[u8]) -> Result<()>;

    /// Takes a file's name away.
    ///
    /// # Errors
    /// See [`root`](Self::root).
    fn unlink(&mut self, directory: &Self::Directory, name: &[u8]) -> Result<()>;

    /// Takes an empty directory away; one that is not empty stays.
    ///
    /// # Errors
    /// See [`root`](Self::root).
    fn rmdir(&mut self, parent: &Self::Directory, name: &[u8]) -> Result<()>;

    /// Gives an attribute a value.
    ///
    /// # Errors
    /// See [`root`](Self::root).
    fn setxattr(&mut self, file: &Self::File, name: &[u8], value: &[u8]) -> Result<()>;

    /// The value of an attribute; gives its length.
    ///
    /// # Errors
    /// See [`root`](Self::root).
    fn getxattr(&mut self, file: &Self::File, name: &[u8], value: &mut [u8]) -> Result<usize>;

    /// Takes an attribute away.
    ///
    /// # Errors
    /// See [`root`](Self::root).
    fn removexattr(&mut self, file: &Self::File, name: &[u8]) -> Result<()>;

    /// Visits the attribute leaves of a file in the order of hashes; `None` where they cannot be looked at from here.
    ///
    /// # Errors
    /// See [`root`](Self::root).
    fn attribute_leaves(
        &mut self,
        _file: &Self::File,
        _visit: &mut dyn FnMut(&LeafFigures),
    ) -> Result<Option<LeafUse>> {
        Ok(None)
    }
}
