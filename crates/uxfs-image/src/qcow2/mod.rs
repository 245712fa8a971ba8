//! Disks of QEMU: the format qcow2, versions 2 and 3 (QEMU's `docs/interop/qcow2.txt`), for reading.
//!
//! | module | holds |
//! |---|---|
//! | `header` | what the file says of itself, and what of that is not read here |
//! | `entry` | the entries of the tables that map the disk's clusters to the file's |
//! | `tables` | these tables, as far as they are asked for |
//! | `device` | the disk as a device |
//! | `backing` | the files that a disk is based on |
//!
//! Invariants:
//! 1. No other file is opened unless the user allows it: a disk could name any file of the host.
//! 2. A table or cluster that does not lie within the file is an error, and no hole.
//! 3. Memory is bounded: 8 MiB for tables of each file, and a share of what compressed images take for compressed clusters.

mod backing;
mod device;
mod entry;
mod header;
mod tables;

use std::{path::Path, sync::Arc};

use uxfs_block::device::BlockDevice;

pub use self::backing::BackingFiles;
use self::{device::Qcow2Device, header::Header};
use crate::{error::Result, open::Options};

/// Opens a disk. `file` holds its bytes, and lies at `path`.
///
/// # Errors
/// It is damaged, has something that is not read here, or is based on a file that cannot be opened.
pub fn open(file: &Arc<dyn BlockDevice>, path: &Path, options: Options<'_>) -> Result<Arc<dyn BlockDevice>> {
    let header = Header::read(&**file)?;
    let backing = backing::open(&header, file, path, options)?;
    Ok(Arc::new(Qcow2Device::new(Arc::clone(file), &header, backing, options.cache_bytes)))
}

#[cfg(test)]
#[path = "qcow2_tests.rs"]
mod tests;
