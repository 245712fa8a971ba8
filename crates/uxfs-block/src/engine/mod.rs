//! Implementations of [`BlockDevice`].
//!
//! | module | holds |
//! |---|---|
//! | [`sync`] | files and block devices, one system call for each run of neighbours |
//! | [`uring`] | files and block devices, one system call for each batch |
//! | `file_kind` | what may be an image |
//! | `open_file` | what these two have in common |
//! | [`hole_filler`] | room for what is written into holes of a file |
//! | [`memory`] | bytes in memory |
//! | [`overlay`] | around another device: keeps all writes to itself |
//! | [`deferred`] | around another device: keeps writes to itself until one is certain |
//! | [`unreadable`] | around another device: has a text where single sectors cannot be read |
//! | [`unread`] | around a copy of a failing device: what was not read cannot be read |
//! | [`counting`], [`throttled`] | around another device: counts requests; makes it as slow as it should be |

pub mod counting;
pub mod deferred;
pub(crate) mod file_kind;
pub mod hole_filler;
pub mod memory;
mod open_file;
pub mod overlay;
pub mod sync;
pub mod throttled;
pub mod unread;
pub mod unreadable;
pub mod uring;

use std::{fs::File, io, path::Path, sync::Arc};

use rustix::fs::OFlags;

use crate::{
    claim::{Claimed, Lock},
    device::{BlockDevice, DeviceError},
};

/// How requests reach the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// io_uring where the system lets this process use it and the file answers without waiting what the page cache
    /// holds; otherwise [`Sync`](Self::Sync). Where a file cannot answer so (tmpfs) io_uring hands each request to a
    /// thread of the kernel, which costs more than a system call.
    #[default]
    Auto,
    /// `preadv` and `pwritev`.
    Sync,
    /// io_uring, or an error.
    Uring,
}

/// How a file or block device is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// How requests reach the system.
    pub engine: Engine,
    /// Past the page cache (`O_DIRECT`). Opening fails where the file cannot.
    pub direct: bool,
    /// Where in the file the device begins: a partition.
    pub start_bytes: u64,
    /// For writing too.
    pub writable: bool,
    /// Which other users there must not be meanwhile; opening fails where there are any.
    pub lock: Lock,
}

/// Opens an image file or block device to be read without an engine, as a packed one is. Whatever else `path` leads to is not
/// opened at all: a named pipe would wait for a writer.
///
/// # Errors
/// It cannot be opened, or is something else.
pub fn open_plain(path: &Path) -> io::Result<File> {
    file_kind::open_image(path, OFlags::RDONLY)
}

/// Opens a file or block device.
///
/// # Errors
/// It cannot be opened in this way.
pub fn open(path: &Path, options: &OpenOptions) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    with_engine(open_file::OpenFile::open(path, options)?, options.engine)
}

/// As [`open`], on what is open already: of `options` the engine and the beginning count, and whether it is writable.
///
/// # Errors
/// As there.
pub fn open_claimed(claimed: Claimed, options: &OpenOptions) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    with_engine(open_file::OpenFile::of(claimed, options)?, options.engine)
}

fn with_engine(file: open_file::OpenFile, engine: Engine) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    match engine {
        Engine::Sync => Ok(Arc::new(sync::SyncDevice::on(file))),
        Engine::Uring => Ok(Arc::new(uring::UringDevice::on(file)?)),
        Engine::Auto => {
            if uring::is_permitted() && file.answers_without_waiting() {
                Ok(Arc::new(uring::UringDevice::on(file)?))
            } else {
                Ok(Arc::new(sync::SyncDevice::on(file)))
            }
        }
    }
}

#[cfg(test)]
mod conformance_tests;
