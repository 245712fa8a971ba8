//! What a look at a hostile image may cost: bytes that are read, and resident memory. Both are counted, so that a busy machine changes nothing.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use anyhow::Result;
use uxfs_block::device::{BlockDevice, DeviceError, DeviceOperation, ReadSegment};

/// A device that counts what is read of it, and fails once that is too much: so what would never end ends with an error.
#[derive(Debug)]
pub struct CountedDevice {
    inner: Arc<dyn BlockDevice>,
    read_bytes: AtomicU64,
    most_bytes: u64,
}

impl CountedDevice {
    /// A device of which `most_bytes` may be read.
    pub fn new(inner: Arc<dyn BlockDevice>, most_bytes: u64) -> Self {
        Self { inner, read_bytes: AtomicU64::new(0), most_bytes }
    }

    /// What was read.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Relaxed)
    }

    /// Whether more was read than may be.
    pub fn is_exceeded(&self) -> bool {
        self.read_bytes() > self.most_bytes
    }

    fn count(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        let before = self.read_bytes.fetch_add(length_bytes, Relaxed);
        if before.saturating_add(length_bytes) <= self.most_bytes {
            return Ok(());
        }
        let source = std::io::Error::other("more was read than may be");
        Err(DeviceError { operation: DeviceOperation::Read, offset_bytes, length_bytes, source })
    }
}

impl BlockDevice for CountedDevice {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn engine(&self) -> &'static str {
        "counted"
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.count(offset_bytes, buffer.len() as u64)?;
        self.inner.read(offset_bytes, buffer)
    }

    fn read_batch(&self, segments: &mut [ReadSegment<'_>]) -> Result<(), DeviceError> {
        for segment in segments.iter() {
            self.count(segment.offset_bytes, segment.buffer.len() as u64)?;
        }
        self.inner.read_batch(segments)
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.inner.write(offset_bytes, bytes)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.inner.flush()
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        self.inner.discard(offset_bytes, length_bytes)
    }
}
