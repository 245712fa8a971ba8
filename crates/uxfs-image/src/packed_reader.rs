//! A part of the file as a stream.

use std::{
    io::{self, Read, Seek, SeekFrom},
    ops::Range,
    sync::Arc,
};

use uxfs_block::device::{BlockDevice, DeviceError};

/// Reads a range of a device from its beginning to its end.
#[derive(Debug, Clone)]
pub(crate) struct PackedReader {
    device: Arc<dyn BlockDevice>,
    position_bytes: u64,
    end_bytes: u64,
}

impl PackedReader {
    /// Of what the device has of a range.
    pub fn new(device: &Arc<dyn BlockDevice>, range: Range<u64>) -> Self {
        let end_bytes = range.end.min(device.size_bytes());
        Self { device: Arc::clone(device), position_bytes: range.start.min(end_bytes), end_bytes }
    }

    /// Of the whole device.
    pub fn whole(device: &Arc<dyn BlockDevice>) -> Self {
        Self::new(device, 0..device.size_bytes())
    }
}

impl Read for PackedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.end_bytes.saturating_sub(self.position_bytes);
        let length = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let Some(part) = buffer.get_mut(..length).filter(|part| !part.is_empty()) else { return Ok(0) };
        self.device.read(self.position_bytes, part).map_err(io::Error::other)?;
        self.position_bytes += length as u64;
        Ok(length)
    }
}

impl Seek for PackedReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(distance) => self.end_bytes.checked_add_signed(distance),
            SeekFrom::Current(distance) => self.position_bytes.checked_add_signed(distance),
        };
        self.position_bytes = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position_bytes)
    }
}

/// The bytes of a range that the device has whole; `None` where it has not.
pub(crate) fn read_range(
    device: &dyn BlockDevice,
    offset_bytes: u64,
    length_bytes: usize,
) -> Result<Option<Vec<u8>>, DeviceError> {
    let end_bytes = offset_bytes.checked_add(length_bytes as u64);
    if end_bytes.is_none_or(|end| end > device.size_bytes()) {
        return Ok(None);
    }
    let mut bytes = vec![0; length_bytes];
    device.read(offset_bytes, &mut bytes)?;
    Ok(Some(bytes))
}
