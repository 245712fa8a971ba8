//! What every block device offers, whatever lies behind it.

use std::{fmt, io};

use thiserror::Error;

/// What was being done when a device failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceOperation {
    /// Opening it.
    Open,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Making earlier writes durable.
    Flush,
    /// Telling that contents are no longer needed.
    Discard,
}

impl fmt::Display for DeviceOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
        })
    }
}

/// A failed device operation.
#[derive(Debug, Error)]
#[error("cannot {operation} {length_bytes} bytes at byte {offset_bytes}: {source}")]
pub struct DeviceError {
    /// What was tried.
    pub operation: DeviceOperation,
    /// First byte.
    pub offset_bytes: u64,
    /// How many.
    pub length_bytes: u64,
    /// Why it failed.
    pub source: io::Error,
}

impl DeviceError {
    /// An access that does not lie within the device.
    pub fn outside(operation: DeviceOperation, offset_bytes: u64, length_bytes: u64) -> Self {
        let source = io::Error::new(io::ErrorKind::UnexpectedEof, "outside the device");
        Self { operation, offset_bytes, length_bytes, source }
    }

    /// A length that no buffer can have.
    pub fn not_a_buffer(operation: DeviceOperation, offset_bytes: u64, length_bytes: u64) -> Self {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "not the length of a metadata buffer");
        Self { operation, offset_bytes, length_bytes, source }
    }
}

/// One piece of a batched read.
#[derive(Debug)]
pub struct ReadSegment<'a> {
    /// First byte on the device.
    pub offset_bytes: u64,
    /// Filled completely.
    pub buffer: &'a mut [u8],
}

/// One piece of a batched write.
#[derive(Debug)]
pub struct WriteSegment<'a> {
    /// First byte on the device.
    pub offset_bytes: u64,
    /// Written completely.
    pub bytes: &'a [u8],
}

/// A device of fixed size, usable from many threads at once.
pub trait BlockDevice: Send + Sync + fmt::Debug {
    /// Size in bytes.
    fn size_bytes(&self) -> u64;

    /// Fills `buffer` from `offset_bytes`.
    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError>;

    /// Fills all segments, in one submission where the engine can. Stops at the first error.
    fn read_batch(&self, segments: &mut [ReadSegment<'_>]) -> Result<(), DeviceError> {
        segments.iter_mut().try_for_each(|segment| self.read(segment.offset_bytes, segment.buffer))
    }

    /// Writes `bytes` at `offset_bytes`.
    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Writes all segments, in one submission where the engine can. The order among them is not defined.
    fn write_batch(&self, segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        segments.iter().try_for_each(|segment| self.write(segment.offset_bytes, segment.bytes))
    }

    /// Makes all writes that returned before this call durable.
    fn flush(&self) -> Result<(), DeviceError>;

    /// Says that a range is no longer needed; later reads of it may give anything.
    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError>;
}
