//! Files and block devices through `pread` and `pwrite`.

use std::{fs::File, os::unix::fs::FileExt, path::Path};

use crate::device::{BlockDevice, DeviceError, DeviceOperation};

/// An open file or block device, or a part of one from `start_bytes` on.
#[derive(Debug)]
pub struct SyncDevice {
    file: File,
    start_bytes: u64,
    size_bytes: u64,
}

impl SyncDevice {
    /// Opens `path` for reading only; byte 0 of the device is byte `start_bytes` of the file.
    pub fn open_read_only(path: &Path, start_bytes: u64) -> Result<Self, DeviceError> {
        let fail = |source| DeviceError {
            operation: DeviceOperation::Open,
            offset_bytes: start_bytes,
            length_bytes: 0,
            source,
        };
        let file = File::open(path).map_err(fail)?;
        // Seeking to the end gives the size of block devices too, for which metadata says 0.
        let end =
            rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).map_err(|errno| fail(errno.into()))?;
        Ok(Self { file, start_bytes, size_bytes: end.saturating_sub(start_bytes) })
    }

    fn position(
        &self,
        operation: DeviceOperation,
        offset_bytes: u64,
        length_bytes: usize,
    ) -> Result<u64, DeviceError> {
        let length_bytes = length_bytes as u64;
        match offset_bytes.checked_add(length_bytes) {
            Some(end) if end <= self.size_bytes => Ok(self.start_bytes + offset_bytes),
            _ => Err(DeviceError::outside(operation, offset_bytes, length_bytes)),
        }
    }
}

impl BlockDevice for SyncDevice {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let operation = DeviceOperation::Read;
        let position = self.position(operation, offset_bytes, buffer.len())?;
        self.file.read_exact_at(buffer, position).map_err(|source| DeviceError {
            operation,
            offset_bytes,
            length_bytes: buffer.len() as u64,
            source,
        })
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let operation = DeviceOperation::Write;
        let position = self.position(operation, offset_bytes, bytes.len())?;
        self.file.write_all_at(bytes, position).map_err(|source| DeviceError {
            operation,
            offset_bytes,
            length_bytes: bytes.len() as u64,
            source,
        })
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.file.sync_data().map_err(|source| DeviceError {
            operation: DeviceOperation::Flush,
            offset_bytes: 0,
            length_bytes: self.size_bytes,
            source,
        })
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        let operation = DeviceOperation::Discard;
        let length = usize::try_from(length_bytes).unwrap_or(usize::MAX);
        let position = self.position(operation, offset_bytes, length)?;
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&self.file, flags, position, length_bytes).map_err(|errno| DeviceError {
            operation,
            offset_bytes,
            length_bytes,
            source: errno.into(),
        })
    }
}
