//! Data that may outgrow memory: kept in memory up to a bound, in temporary files behind it.
//!
//! Temporary files lie in the directory that `TMPDIR` names, else in `/tmp`. They have no names, so that nothing is left
//! behind however the process ends. They are read and written, never mapped: their pages belong to the host's page cache.
//!
//! | module | holds |
//! |---|---|
//! | [`sorter`] | records, sorted by their keys |
//! | [`records`] | records that are appended and read at any place |
//! | [`map`] | a hash map of small keys and values |
//! | [`pages`] | pages that are changed at any place |
//! | [`stack`] | a stack of records of one length |
//! | [`sparse_file`] | a stream, with holes |
//! | [`first_paths`] | the first paths of files with several names |

pub mod first_paths;
pub mod map;
pub mod pages;
pub mod records;
pub mod sorter;
pub mod sparse_file;
pub mod stack;

use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::fs::FileExt},
    path::PathBuf,
};

use rustix::io::Errno;
use thiserror::Error;

/// Why data cannot be kept in a temporary file.
#[derive(Debug, Error)]
#[error("cannot {action} a temporary file in {}: {source}{}", directory.display(), remedy(source))]
pub struct SpillError {
    action: &'static str,
    directory: PathBuf,
    /// The host's error.
    pub source: io::Error,
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            " (TMPDIR can name a directory with more space)"
        }
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            " (TMPDIR can name another directory)"
        }
        _ => "",
    }
}

impl SpillError {
    fn new(action: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self { action, directory: std::env::temp_dir(), source }
    }

    /// The bytes read are not those that were written. The cause lies outside of the process.
    pub fn damaged() -> Self {
        Self::new("read")(io::Error::other("it does not hold what was written to it"))
    }
}

/// A file without a name.
#[derive(Debug)]
struct TemporaryFile(File);

impl TemporaryFile {
    fn create() -> Result<Self, SpillError> {
        tempfile::tempfile().map(Self).map_err(SpillError::new("create"))
    }

    fn write(&self, bytes: &[u8], offset_bytes: u64) -> Result<(), SpillError> {
        self.0.write_all_at(bytes, offset_bytes).map_err(SpillError::new("write"))
    }

    /// Reads until the buffer is full or the file ends; gives how much was read.
    fn read(&self, buffer: &mut [u8], offset_bytes: u64) -> Result<usize, SpillError> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pread(self.0.as_fd(), rest, offset_bytes.saturating_add(filled as u64)) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(Errno::INTR) => {}
                Err(error) => return Err(SpillError::new("read")(error.into())),
            }
        }
        Ok(filled)
    }
}
