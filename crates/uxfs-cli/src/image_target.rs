//! A file or a block device that becomes a file system as a whole: of a dump, or as a copy of another one.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileTypeExt,
    path::Path,
    sync::Arc,
};

use rustix::fs::OFlags;
use uxfs_block::{
    claim::{Claimed, Lock},
    device::BlockDevice,
    engine::{OpenOptions, open_claimed},
    window::Part,
    zeros::is_zero,
};
use uxfs_metadump::restore::{RestoreError, Target};

use crate::remains;

/// Zeros of this size stay holes.
const HOLE_BYTES: usize = 4 << 10;

/// A file or a block device. A file that was made here disappears again, unless it is [kept](Self::keep).
#[derive(Debug)]
pub(crate) struct ImageTarget<'p> {
    path: &'p Path,
    /// The part of it that becomes the file system.
    part: Part,
    force: bool,
    device: Option<Arc<dyn BlockDevice>>,
    was_made: bool,
    is_file: bool,
    /// A file whose bytes are zeros where none were written.
    is_sparse: bool,
    /// Behind this byte nothing was written.
    written_end: u64,
}

impl<'p> ImageTarget<'p> {
    /// What is at this path, or will be. With `force` it may hold something, or be a device.
    pub fn new(path: &'p Path, part: Part, force: bool) -> Self {
        let (was_made, is_file, is_sparse) = (false, false, false);
        Self { path, part, force, device: None, was_made, is_file, is_sparse, written_end: 0 }
    }

    /// Keeps it: it is complete.
    pub fn keep(mut self) {
        if self.was_made {
            remains::kept(self.path);
        }
        self.was_made = false;
    }

    /// What is written to, once it has been prepared.
    pub fn device(&self) -> Option<&Arc<dyn BlockDevice>> {
        self.device.as_ref()
    }

    /// Opens the existing file or device, or makes a file, and locks it.
    fn claim(&mut self) -> io::Result<Claimed> {
        match fs::metadata(self.path) {
            Ok(found) if found.file_type().is_block_device() => {
                if !self.force {
                    return Err(occupied("a block device is overwritten with --force only"));
                }
                Ok(Claimed::open(self.path, OFlags::RDWR | OFlags::CLOEXEC, Lock::Exclusive)?)
            }
            Ok(found) if !found.is_file() => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a file nor a block device"))
            }
            Ok(_) => {
                self.is_file = true;
                let claimed = Claimed::open(self.path, OFlags::RDWR | OFlags::CLOEXEC, Lock::Exclusive)?;
                // Another program may have filled it before it let go of the lock.
                if claimed.file.metadata()?.len() > 0 && !self.force {
                    return Err(occupied(match self.part.is_whole() {
                        true => "the file is not empty; --force overwrites it",
                        false => "the file is not empty; --force overwrites that part of it",
                    }));
                }
                Ok(claimed)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = fs::OpenOptions::new().read(true).write(true).create_new(true).open(self.path)?;
                (self.is_file, self.was_made) = (true, true);
                remains::made(self.path, &file);
                Ok(Claimed::of(file, Lock::Exclusive)?)
            }
            Err(error) => Err(error),
        }
    }
}

impl ImageTarget<'_> {
    /// Makes a file as long as it must be. What lies around a part of it stays.
    fn set_length(&mut self, file: &File, size_bytes: u64) -> io::Result<()> {
        let needed_bytes = self.part.start_bytes.saturating_add(size_bytes);
        if self.part.is_whole() || self.was_made {
            self.is_sparse = true;
            return file.set_len(0).and_then(|()| file.set_len(needed_bytes));
        }
        let is_bounded = self.part.length_bytes.is_some();
        if is_bounded || file.metadata()?.len() >= needed_bytes { Ok(()) } else { file.set_len(needed_bytes) }
    }
}

/// It holds something, or may.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Occupied(&'static str);

fn occupied(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, Occupied(message))
}

impl Drop for ImageTarget<'_> {
    fn drop(&mut self) {
        if self.was_made {
            remains::remove(self.path);
        }
    }
}

impl Target for ImageTarget<'_> {
    fn prepare(&mut self, size_bytes: u64) -> Result<(), RestoreError> {
        let claimed = self.claim().map_err(RestoreError::Target)?;
        if self.is_file {
            self.set_length(&claimed.file, size_bytes).map_err(RestoreError::Target)?;
        }
        let start_bytes = self.part.start_bytes;
        let options =
            OpenOptions { writable: true, lock: Lock::Exclusive, start_bytes, ..OpenOptions::default() };
        let device = self.part.bound(open_claimed(claimed, &options)?)?;
        if device.size_bytes() < size_bytes {
            let found = device.size_bytes();
            return Err(RestoreError::TargetTooShort { needed_bytes: size_bytes, size_bytes: found });
        }
        self.device = Some(device);
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), RestoreError> {
        let Some(device) = &self.device else { return Ok(()) };
        if !self.is_sparse {
            return Ok(device.write(offset_bytes, bytes)?);
        }
        let mut start = offset_bytes;
        for run in bytes.chunks(HOLE_BYTES) {
            // A new file has zeros where nothing was written; a dump may have a block twice.
            if start < self.written_end || !is_zero(run) {
                device.write(start, run)?;
            }
            start += run.len() as u64;
        }
        self.written_end = self.written_end.max(start);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), RestoreError> {
        Ok(self.device.iter().try_for_each(|device| device.flush())?)
    }
}
