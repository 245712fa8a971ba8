//! From a device to a [`FileSystem`]: read and judge the superblock.

use std::sync::Arc;

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    fault::{Corruption, Fault, Location, Structure},
    geometry::Geometry,
    superblock::{Copy, MAX_SECTOR_SIZE_BYTES, Superblock, SuperblockError, SuperblockFault},
    units::Sector,
};

use crate::{
    error::{Error, Result},
    filesystem::FileSystem,
};

/// How to mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MountOptions {
    /// Read on although the log holds changes that are not in place yet.
    pub ignore_dirty_log: bool,
    /// Memory for cached metadata; `None` takes 256 MiB, or less where memory is scarce.
    pub cache_budget_bytes: Option<u64>,
}

impl FileSystem {
    /// Reads and verifies the superblock of `device`.
    ///
    /// # Errors
    /// Not an XFS V5 file system, a damaged one, one with unknown features, or a device error.
    pub fn mount(device: Arc<dyn BlockDevice>, options: &MountOptions) -> Result<Self> {
        let superblock = read_superblock(device.as_ref())?;
        let geometry = Geometry::new(&superblock);
        let (needed_bytes, length_bytes) = (geometry.data_size_bytes(), device.size_bytes());
        if length_bytes < needed_bytes {
            let fault = SuperblockFault::DeviceTooShort { needed_bytes, length_bytes };
            return Err(Error::from(superblock_corruption(fault)));
        }
        Ok(Self::new(device, geometry, superblock, *options))
    }
}

fn read_superblock(device: &dyn BlockDevice) -> Result<Superblock> {
    let mut bytes = vec![0; MAX_SECTOR_SIZE_BYTES];
    let length = bytes.len().min(usize::try_from(device.size_bytes()).unwrap_or(usize::MAX));
    bytes.truncate(length);
    device.read(0, &mut bytes)?;
    let verified = Superblock::parse(&bytes).and_then(|(superblock, sector)| {
        superblock.verify(sector, Copy::Primary)?;
        Ok(*superblock)
    });
    verified.map_err(|error| match error {
        SuperblockError::Header(fault) => superblock_corruption(fault).into(),
        SuperblockError::Fault(fault) => superblock_corruption(fault).into(),
        SuperblockError::Unsupported(unsupported) => unsupported.into(),
    })
}

fn superblock_corruption(fault: impl Into<Fault>) -> Corruption {
    Corruption::new(Structure::Superblock, Location::at_sector(Sector::new(0)), fault)
}
