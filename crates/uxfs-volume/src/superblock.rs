//! Reading and judging the superblock, before there is a [`Volume`](crate::volume::Volume).

use uxfs_block::device::{BlockDevice, DeviceError};
use uxfs_format::{
    fault::{Corruption, Fault, Location, Structure},
    field_table::OnDisk,
    geometry::Geometry,
    superblock::{Copy, MAX_SECTOR_SIZE_BYTES, Superblock, SuperblockError, SuperblockFault},
    units::{SECTOR_SIZE_BYTES, Sector},
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

/// Reads a superblock: the largest possible sector, or only the sector size that the superblock names if part of that is unreadable.
///
/// # Errors
/// The device.
pub fn read_superblock_sector(
    device: &dyn BlockDevice,
    offset_bytes: u64,
) -> std::result::Result<Vec<u8>, DeviceError> {
    let left = usize::try_from(device.size_bytes().saturating_sub(offset_bytes)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; MAX_SECTOR_SIZE_BYTES.min(left)];
    if device.read(offset_bytes, &mut bytes).is_ok() {
        return Ok(bytes);
    }
    let mut length = SECTOR_SIZE_BYTES as usize;
    loop {
        bytes.truncate(length);
        device.read(offset_bytes, &mut bytes)?;
        let claimed = Superblock::prefix_of(&bytes).map_or(0, |first| first.sector_size_bytes.get().into());
        if claimed <= length || claimed > MAX_SECTOR_SIZE_BYTES.min(left) {
            return Ok(bytes);
        }
        length = claimed;
        bytes.resize(length, 0);
    }
}

/// Reads and verifies the first superblock. With `is_unfinished` one is taken that says that the image is not finished.
///
/// # Errors
/// Not an XFS V5 file system, a damaged one, one with unknown features; a device error.
pub fn read_superblock(device: &dyn BlockDevice, is_unfinished: bool) -> Result<Superblock> {
    let bytes = read_superblock_sector(device, 0)?;
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

#[cfg(test)]
mod tests {
    use uxfs_block::{
        device::{DeviceOperation, ReadSegment},
        device_wrapper::DeviceWrapper,
        engine::memory::MemoryDevice,
    };

    use super::*;

    /// Cannot read one sector.
    #[derive(Debug)]
    struct Bad(MemoryDevice, u64);

    impl DeviceWrapper for Bad {
        type Inner = MemoryDevice;

        fn inner(&self) -> &MemoryDevice {
            &self.0
        }

        fn before_read(&self, segments: &[ReadSegment<'_>]) -> std::result::Result<(), DeviceError> {
            let bad = self.1 * SECTOR_SIZE_BYTES;
            let is_hit = |segment: &ReadSegment<'_>| {
                (segment.offset_bytes..segment.offset_bytes + segment.buffer.len() as u64).contains(&bad)
            };
            match segments.iter().any(is_hit) {
                true => Err(DeviceError::outside(DeviceOperation::Read, bad, SECTOR_SIZE_BYTES)),
                false => Ok(()),
            }
        }
    }

    #[test]
    fn a_bad_sector_behind_the_superblock_does_not_hide_it() {
        // The size of a sector, the size of the device, the bad sector; how much is read.
        for (claimed, size, bad, expected) in [
            (512_u16, 64 << 10, 100, Some(32 << 10)),
            (512, 64 << 10, 63, Some(512)),
            (512, 64 << 10, 0, None),
            (4096, 64 << 10, 9, Some(4096)),
            (4096, 64 << 10, 7, None),
            (32768, 64 << 10, 63, None),
            (0, 64 << 10, 1, Some(512)),
            (65535, 64 << 10, 1, Some(512)),
            (4096, 2048, 2, Some(512)),
            (512, 2048, 100, Some(2048)),
        ] {
            let mut bytes = vec![0; size];
            bytes[102..104].copy_from_slice(&claimed.to_be_bytes());
            let read = read_superblock_sector(&Bad(MemoryDevice::new(bytes), bad), 0);
            assert_eq!(read.map(|bytes| bytes.len()).ok(), expected, "{claimed}, {size}, {bad}");
        }
    }
}
