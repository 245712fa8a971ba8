//! A device that never fails to be read: what cannot be read is zeros, and noted.
//!
//! Structures with a checksum do not survive zeros in their place, so that a damaged structure and one in a bad sector are the same to
//! the layers above: both are made anew from other witnesses. Contents have no checksum: a copy of them asks
//! [`unreadable_in`](RescueDevice::unreadable_in) afterwards.
//!
//! Invariants:
//! 1. A byte that was not read, or that the map says was not, is in the set of unreadable bytes before a read that gives zeros for it
//!    returns.
//! 2. A sector that failed is never read again: each try may take a failing device seconds.
//! 3. Nothing is ever written to the device inside.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::RwLock;
use uxfs_block::device::{
    Alignment, BlockDevice, DeviceError, DeviceOperation, Identity, ReadSegment, WriteSegment,
};

use crate::ranges::RangeSet;

/// The smallest piece that is tried alone.
const SECTOR_BYTES: u64 = 512;

/// A device around another.
#[derive(Debug)]
pub struct RescueDevice {
    inner: Arc<dyn BlockDevice>,
    size_bytes: u64,
    unreadable: RwLock<RangeSet>,
    /// Bytes in which reading failed, without those that were known before.
    failed_bytes: AtomicU64,
}

impl RescueDevice {
    /// Around a device of which `known` cannot be read. It has at least `size_bytes`: what the device inside lacks of them is
    /// unreadable.
    pub fn new(
        inner: Arc<dyn BlockDevice>,
        size_bytes: u64,
        known: impl IntoIterator<Item = Range<u64>>,
    ) -> Self {
        let mut unreadable = RangeSet::default();
        known.into_iter().for_each(|range| unreadable.insert(range));
        let (inner_bytes, failed_bytes) = (inner.size_bytes(), AtomicU64::new(0));
        let size_bytes = size_bytes.max(inner_bytes);
        unreadable.insert(inner_bytes..size_bytes);
        Self { inner, size_bytes, unreadable: RwLock::new(unreadable), failed_bytes }
    }

    /// The unreadable parts of a range.
    pub fn unreadable_in(&self, range: Range<u64>) -> Vec<Range<u64>> {
        self.unreadable.read().within(range).collect()
    }

    /// All unreadable ranges so far.
    pub fn unreadable(&self) -> RangeSet {
        self.unreadable.read().clone()
    }

    /// The end of the device inside: a superblock may claim more.
    pub fn end(&self) -> u64 {
        self.inner.size_bytes()
    }

    /// Bytes in sectors that failed to be read so far.
    pub fn failed_bytes(&self) -> u64 {
        self.failed_bytes.load(Relaxed)
    }

    fn check(
        &self,
        operation: DeviceOperation,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<(), DeviceError> {
        match offset_bytes.checked_add(length_bytes) {
            Some(end) if end <= self.size_bytes => Ok(()),
            _ => Err(DeviceError::outside(operation, offset_bytes, length_bytes)),
        }
    }

    fn sector_bytes(&self) -> u64 {
        SECTOR_BYTES.max(self.inner.alignment().offset_bytes.into())
    }

    /// Reads what can be read, piece by piece around what is known to be unreadable.
    fn read_around(&self, offset_bytes: u64, buffer: &mut [u8]) {
        let end = offset_bytes.saturating_add(buffer.len() as u64);
        let readable = self.unreadable.read().without(offset_bytes..end);
        let mut position = offset_bytes;
        let mut rest = buffer;
        for part in readable {
            let (hole, from_here) = split_at(rest, part.start.saturating_sub(position));
            hole.fill(0);
            let (piece, after) = split_at(from_here, part.end.saturating_sub(part.start));
            self.read_piece(part.start, piece);
            (position, rest) = (part.end, after);
        }
        rest.fill(0);
    }

    /// Reads a piece; where that fails, each half of it, down to single sectors.
    fn read_piece(&self, offset_bytes: u64, buffer: &mut [u8]) {
        if buffer.is_empty() || self.inner.read(offset_bytes, buffer).is_ok() {
            return;
        }
        let sector = self.sector_bytes();
        let first = offset_bytes - offset_bytes % sector;
        let length = buffer.len() as u64;
        let end = offset_bytes.saturating_add(length);
        if end <= first.saturating_add(sector) {
            buffer.fill(0);
            self.give_up(first..first.saturating_add(sector).min(self.inner.size_bytes()));
            return;
        }
        let sectors = (end - first).div_ceil(sector);
        let middle = first + sectors.div_ceil(2) * sector;
        let (left, right) = split_at(buffer, middle.saturating_sub(offset_bytes));
        self.read_piece(offset_bytes, left);
        self.read_piece(middle, right);
    }

    fn give_up(&self, sector: Range<u64>) {
        let mut unreadable = self.unreadable.write();
        let is_new = !unreadable.touches(sector.clone());
        unreadable.insert(sector.clone());
        if is_new {
            self.failed_bytes.fetch_add(sector.end - sector.start, Relaxed);
        }
    }
}

/// As `split_at_mut`, at the end where `length` is behind it.
fn split_at(bytes: &mut [u8], length: u64) -> (&mut [u8], &mut [u8]) {
    let length = usize::try_from(length).map_or(bytes.len(), |length| length.min(bytes.len()));
    bytes.split_at_mut(length)
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
            is_sound &= !self.unreadable.read().touches(segment.offset_bytes..end);
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
