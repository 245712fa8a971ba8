//! What devices do that cannot be changed.

use uxfs_block::device::{DeviceError, DeviceOperation};

/// The error of a write.
pub(crate) fn refuse(operation: DeviceOperation, offset_bytes: u64, length_bytes: u64) -> DeviceError {
    DeviceError::read_only(operation, offset_bytes, length_bytes)
}

/// The part of [`BlockDevice`](uxfs_block::device::BlockDevice) that changes something.
macro_rules! read_only {
    () => {
        fn is_read_only(&self) -> bool {
            true
        }

        fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
            Err($crate::read_only::refuse(DeviceOperation::Write, offset_bytes, bytes.len() as u64))
        }

        fn flush(&self) -> Result<(), DeviceError> {
            Ok(())
        }

        fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
            Err($crate::read_only::refuse(DeviceOperation::Discard, offset_bytes, length_bytes))
        }
    };
}

pub(crate) use read_only;
