//! A device in memory, for tests and for building small images.

use parking_lot::RwLock;

use crate::device::{BlockDevice, DeviceError, DeviceOperation};

/// Bytes in memory.
#[derive(Debug)]
pub struct MemoryDevice {
    bytes: RwLock<Vec<u8>>,
}

impl MemoryDevice {
    /// Takes the bytes as the device's contents.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes: RwLock::new(bytes) }
    }

    fn range(
        &self,
        operation: DeviceOperation,
        offset_bytes: u64,
        length_bytes: usize,
    ) -> Result<std::ops::Range<usize>, DeviceError> {
        let size = self.bytes.read().len();
        usize::try_from(offset_bytes)
            .ok()
            .and_then(|start| Some(start..start.checked_add(length_bytes)?))
            .filter(|range| range.end <= size)
            .ok_or_else(|| DeviceError::outside(operation, offset_bytes, length_bytes as u64))
    }
}

impl BlockDevice for MemoryDevice {
    fn size_bytes(&self) -> u64 {
        self.bytes.read().len() as u64
    }

    fn engine(&self) -> &'static str {
        "memory"
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let range = self.range(DeviceOperation::Read, offset_bytes, buffer.len())?;
        buffer.copy_from_slice(&self.bytes.read()[range]);
        Ok(())
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let range = self.range(DeviceOperation::Write, offset_bytes, bytes.len())?;
        self.bytes.write()[range].copy_from_slice(bytes);
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        let length = usize::try_from(length_bytes).unwrap_or(usize::MAX);
        let range = self.range(DeviceOperation::Discard, offset_bytes, length)?;
        self.bytes.write()[range].fill(0);
        Ok(())
    }
}
