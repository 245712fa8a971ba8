//! Code that opening for reading and opening for changes share.

use std::{path::Path, sync::Arc};

use uxfs_block::{
    cache::pressure,
    claim::Lock,
    device::BlockDevice,
    engine::{self, OpenOptions},
};
use uxfs_engine::options::MountOptions;

use crate::Result;

/// Where the file system begins, and how much memory its cache may take.
#[derive(Debug, Clone, Copy, Default)]
pub struct Opening {
    pub offset_bytes: u64,
    pub cache_bytes: Option<u64>,
}

/// The methods by which the caller sets an [`Opening`], for a type that has one in its field `opening`.
macro_rules! opening_methods {
    () => {
        /// The default options.
        pub fn new() -> Self {
            Self::default()
        }

        /// Where the file system begins in the file: a partition.
        #[must_use]
        pub fn offset_bytes(mut self, bytes: u64) -> Self {
            self.opening.offset_bytes = bytes;
            self
        }

        /// Memory for cached metadata; 256 MiB, or less where memory is scarce, unless given.
        #[must_use]
        pub fn cache_bytes(mut self, bytes: u64) -> Self {
            self.opening.cache_bytes = Some(bytes);
            self
        }
    };
}
pub(crate) use opening_methods;

impl Opening {
    /// Opens the file or block device. From the first image on a thread shrinks the caches of all images while memory is
    /// scarce; where it cannot be started, the caches keep to their budgets.
    pub fn device(&self, path: &Path, writable: bool, lock: Lock) -> Result<Arc<dyn BlockDevice>> {
        let _ = pressure::watch_all_caches();
        let options =
            OpenOptions { start_bytes: self.offset_bytes, writable, lock, ..OpenOptions::default() };
        Ok(engine::open(path, &options)?)
    }

    /// Options of the layer below, the same for reading and for changes.
    pub fn mount_options(&self) -> MountOptions {
        MountOptions { cache_budget_bytes: self.cache_bytes, ..MountOptions::default() }
    }
}
