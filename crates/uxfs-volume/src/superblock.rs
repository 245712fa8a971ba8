//! Reading and judging the superblock, before there is a [`Volume`](crate::volume::Volume).

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    fault::{Corruption, Fault, Location, Structure},
    geometry::Geometry,
    superblock::{Copy, MAX_SECTOR_SIZE_BYTES, Superblock, SuperblockError, SuperblockFault},
    units::Sector,
};

use crate::error::{Error, OperationError, Result};

/// Checks that the device is as long as the file system.
///
/// # Errors
/// It is shorter.
pub fn check_device_size(device: &dyn BlockDevice, geometry: &Geometry) -> Result<()> {
    let (needed_bytes, length_bytes) = (geometry.data_size_bytes(), device.size_bytes());
    if length_bytes >= needed_bytes {
        return Ok(());
    }
    let fault = SuperblockFault::DeviceTooShort { needed_bytes, length_bytes };
    Err(Error::from(superblock_corruption(fault)))
}

/// Reads and verifies the first superblock. With `is_unfinished` one is taken that says that the image is not finished.
///
/// # Errors
/// Not an XFS V5 file system, a damaged one, one with unknown features; a device error.
pub fn read_superblock(device: &dyn BlockDevice, is_unfinished: bool) -> Result<Superblock> {
    let mut bytes = vec![0; MAX_SECTOR_SIZE_BYTES];
    let length = bytes.len().min(usize::try_from(device.size_bytes()).unwrap_or(usize::MAX));
    bytes.truncate(length);
    device.read(0, &mut bytes)?;
    let verified = Superblock::parse(&bytes).and_then(|(superblock, sector)| {
        let mut superblock = *superblock;
        if is_unfinished {
            superblock.in_progress = 0;
        }
        superblock.verify(sector, Copy::Primary)?;
        Ok(superblock)
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

/// The one question that every way to write asks first: may this be written to at all?
///
/// # Errors
/// The device is read-only; the superblock has feature bits that forbid it.
pub fn refuse_unwritable(device: &dyn BlockDevice, superblock: &Superblock) -> Result<()> {
    if device.is_read_only() {
        return Err(OperationError::ReadOnly.into());
    }
    Ok(superblock.feature_words().judge()?.write?)
}
