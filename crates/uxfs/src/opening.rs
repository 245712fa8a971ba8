//! Code that opening for reading and opening for changes share.

use std::{path::Path, sync::Arc};

#[cfg(feature = "forms")]
use uxfs_block::window::Part;
use uxfs_block::{
    cache::pressure,
    claim::Lock,
    device::BlockDevice,
    engine::{self, OpenOptions},
};
use uxfs_engine::options::MountOptions;
#[cfg(feature = "forms")]
use uxfs_image::{
    error::ImageError, form::Form, open::Opened, qcow2::BackingFiles, stream::WithoutSuperblock,
};

use crate::Result;

/// Where the file system begins, and how much memory its cache may take.
#[derive(Debug, Clone, Copy, Default)]
pub struct Opening {
    pub offset_bytes: u64,
    pub cache_bytes: Option<u64>,
}

/// What a reader needs of an image that must be unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// The file system that the first superblock tells of; where that is not sound, its beginning, which says so.
    FileSystem,
    /// That, and where the first superblock is not sound, all of the image.
    Everything,
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
        #[cfg(feature = "forms")]
        if let (true, Ok(Some(form))) = (writable, Form::of_file(path)) {
            let what = format!("an image that is {} cannot be changed", form.name());
            return Err(ImageError::Unsupported { what, remedy: form.remedy() }.into());
        }
        let _ = pressure::watch_all_caches();
        let options =
            OpenOptions { start_bytes: self.offset_bytes, writable, lock, ..OpenOptions::default() };
        Ok(engine::open(path, &options)?)
    }

    /// As [`device`](Self::device), for reading. A file that is compressed, or a disk of QEMU, is read as what it holds.
    #[cfg(feature = "forms")]
    pub fn device_to_read(&self, path: &Path, lock: Lock, needs: Needs) -> Result<Arc<dyn BlockDevice>> {
        let form = match Form::of_file(path) {
            Ok(Some(form)) => form,
            // Opening it as it is says why it cannot be read.
            Ok(None) | Err(_) => return self.device(path, false, lock),
        };
        let _ = pressure::watch_all_caches();
        let options = OpenOptions { lock, ..OpenOptions::default() };
        let file = engine::open(path, &options)?;
        let cache_bytes = self.cache_bytes.unwrap_or_else(pressure::default_budget_bytes);
        let part = Part { start_bytes: self.offset_bytes, length_bytes: None };
        let files = BackingFiles::Refused;
        match uxfs_image::open::open(form, &file, path, uxfs_image::open::Options { files, cache_bytes })? {
            Opened::Device(device) => Ok(part.of(device)?),
            Opened::Stream(stream) => {
                let otherwise = match needs {
                    Needs::FileSystem => WithoutSuperblock::Beginning,
                    Needs::Everything => WithoutSuperblock::Everything,
                };
                Ok(stream.unpack(part, otherwise, &options)?)
            }
        }
    }

    /// As [`device`](Self::device), for reading.
    #[cfg(not(feature = "forms"))]
    pub fn device_to_read(&self, path: &Path, lock: Lock, _needs: Needs) -> Result<Arc<dyn BlockDevice>> {
        self.device(path, false, lock)
    }

    /// Options of the layer below, the same for reading and for changes.
    pub fn mount_options(&self) -> MountOptions {
        MountOptions { cache_budget_bytes: self.cache_bytes, ..MountOptions::default() }
    }
}
