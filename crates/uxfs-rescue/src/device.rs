//! A device that never fails to be read: what cannot be read is zeros, and noted.
//!
//! Structures with a checksum do not survive zeros in their place, so that a damaged structure and one in a bad sector are the same to
//! the layers above: both are rebuilt from other witnesses. Contents have no checksum: a copy of them asks
//! [`unreadable_in`](RescueDevice::unreadable_in) afterwards.
//!
//! Invariants:
//! 1. A byte that was not read, or that the map says was not, is in the set of unreadable bytes before a read that gives zeros for it
//!    returns.
//! 2. A sector that failed is never read again: each try may take a failing device seconds.
//! 3. Nothing is ever written to the device inside.

use std::{ops::Range, sync::Arc};

use uxfs_block::{
    device::{Alignment, BlockDevice, DeviceError, DeviceOperation, Identity, ReadSegment, WriteSegment},
    engine::unreadable::Unreadable,
    ranges::RangeSet,
};

/// A device around another.
#[derive(Debug)]
pub struct RescueDevice {
    inner: Arc<dyn BlockDevice>,
    size_bytes: u64,
    unreadable: Unreadable,
}

impl RescueDevice {
    /// Around a device of which `known` cannot be read. It has at least `size_bytes`: what the device inside lacks of them is
    /// unreadable.
    pub fn new(
        inner: Arc<dyn BlockDevice>,
        size_bytes: u64,
        known: impl IntoIterator<Item = Range<u64>>,
    ) -> Self {
        let mut ranges = RangeSet::default();
        known.into_iter().for_each(|range| ranges.insert(range));
        let inner_bytes = inner.size_bytes();
        let size_bytes = size_bytes.max(inner_bytes);
        ranges.insert(inner_bytes..size_bytes);
        Self { inner, size_bytes, unreadable: Unreadable::knowing(ranges, |_, bytes| bytes.fill(0)) }
    }

    /// The unreadable parts of a range.
    pub fn unreadable_in(&self, range: Range<u64>) -> Vec<Range<u64>> {
        self.unreadable.within(range)
    }

    /// All unreadable ranges so far.
    pub fn unreadable(&self) -> RangeSet {
        self.unreadable.ranges()
    }

    /// The end of the device inside: a superblock may claim more.
    pub fn end(&self) -> u64 {
        self.inner.size_bytes()
    }

    /// Bytes in sectors that failed to be read so far.
    pub fn failed_bytes(&self) -> u64 {
        self.unreadable.failed_bytes()
    }

    fn check(
        &self,
        operation: DeviceOperation,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<(), DeviceError> {
        DeviceError::check_range(operation, offset_bytes, length_bytes, self.size_bytes)
    }

    fn read_around(&self, offset_bytes: u64, buffer: &mut [u8]) {
        // Its error is in the set.
        let _ = self.unreadable.read(self.inner.as_ref(), offset_bytes, buffer);
    }
}

impl BlockDevice for RescueDevice {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn alignment(&self) -> Alignment {
        self.inner.alignment()
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn identity(&self) -> Option<Identity> {
        self.inner.identity()
    }

    fn engine(&self) -> &'static str {
        self.inner.engine()
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.check(DeviceOperation::Read, offset_bytes, buffer.len() as u64)?;
        self.read_around(offset_bytes, buffer);
        Ok(())
    }

    fn read_batch(&self, segments: &mut [ReadSegment<'_>]) -> Result<(), DeviceError> {
        let mut is_sound = true;
        for segment in &*segments {
            let length = segment.buffer.len() as u64;
            self.check(DeviceOperation::Read, segment.offset_bytes, length)?;
            let end = segment.offset_bytes.saturating_add(length);
            is_sound &= !self.unreadable.touches(segment.offset_bytes..end);
        }
        if is_sound && self.inner.read_batch(segments).is_ok() {
            return Ok(());
        }
        for segment in segments {
            self.read_around(segment.offset_bytes, segment.buffer);
        }
        Ok(())
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        Err(DeviceError::read_only(DeviceOperation::Write, offset_bytes, bytes.len() as u64))
    }

    fn write_batch(&self, segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        let offset_bytes = segments.first().map_or(0, |segment| segment.offset_bytes);
        Err(DeviceError::read_only(DeviceOperation::Write, offset_bytes, 0))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        Err(DeviceError::read_only(DeviceOperation::Discard, offset_bytes, length_bytes))
    }
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
