//! Counts what reaches a device.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::device::{
    Alignment, BlockDevice, DeviceError, Identity, ReadSegment, WriteSegment, batch_bytes, contiguous_runs,
};

/// What has reached a device. A request is a run of neighbours: what an engine asks of the system at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceCounters {
    /// Submissions of reads.
    pub read_batches: u64,
    /// Requests in them.
    pub read_requests: u64,
    /// Bytes asked for.
    pub read_bytes: u64,
    /// Submissions of writes.
    pub write_batches: u64,
    /// Requests in them.
    pub write_requests: u64,
    /// Bytes handed over.
    pub write_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
}

/// A device around another that counts requests, also those that fail.
#[derive(Debug)]
pub struct CountingDevice<D> {
    inner: D,
    reads: Traffic,
    writes: Traffic,
    flushes: AtomicU64,
    discards: AtomicU64,
}

#[derive(Debug, Default)]
struct Traffic {
    batches: AtomicU64,
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Traffic {
    fn count(&self, requests: u64, bytes: u64) {
        self.batches.fetch_add(1, Relaxed);
        self.requests.fetch_add(requests, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }
}

impl<D: BlockDevice> CountingDevice<D> {
    /// Counts what reaches `inner`.
    pub fn new(inner: D) -> Self {
        let (reads, writes) = (Traffic::default(), Traffic::default());
        Self { inner, reads, writes, flushes: AtomicU64::new(0), discards: AtomicU64::new(0) }
    }

    /// What has been counted so far.
    pub fn counters(&self) -> DeviceCounters {
        DeviceCounters {
            read_batches: self.reads.batches.load(Relaxed),
            read_requests: self.reads.requests.load(Relaxed),
            read_bytes: self.reads.bytes.load(Relaxed),
            write_batches: self.writes.batches.load(Relaxed),
            write_requests: self.writes.requests.load(Relaxed),
            write_bytes: self.writes.bytes.load(Relaxed),
            flushes: self.flushes.load(Relaxed),
            discards: self.discards.load(Relaxed),
        }
    }
}

impl<D: BlockDevice> BlockDevice for CountingDevice<D> {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn alignment(&self) -> Alignment {
        self.inner.alignment()
    }

    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }

    fn identity(&self) -> Option<Identity> {
        self.inner.identity()
    }

    fn engine(&self) -> &'static str {
        self.inner.engine()
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.reads.count(1, buffer.len() as u64);
        self.inner.read(offset_bytes, buffer)
    }

    fn read_batch(&self, segments: &mut [ReadSegment<'_>]) -> Result<(), DeviceError> {
        self.reads.count(contiguous_runs(segments).count() as u64, batch_bytes(segments));
        self.inner.read_batch(segments)
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.writes.count(1, bytes.len() as u64);
        self.inner.write(offset_bytes, bytes)
    }

    fn write_batch(&self, segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        self.writes.count(contiguous_runs(segments).count() as u64, batch_bytes(segments));
        self.inner.write_batch(segments)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.flushes.fetch_add(1, Relaxed);
        self.inner.flush()
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        self.discards.fetch_add(1, Relaxed);
        self.inner.discard(offset_bytes, length_bytes)
    }
}
