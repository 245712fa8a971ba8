//! Counts what reaches a device.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{
    device::{BlockDevice, DeviceError, ReadSegment, Segment, WriteSegment, batch_bytes, contiguous_runs},
    device_wrapper::DeviceWrapper,
};

/// Requests that have reached a device. A request is a run of neighbours: one call of an engine to the system.
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
    fn count<S: Segment>(&self, segments: &[S]) {
        self.batches.fetch_add(1, Relaxed);
        self.requests.fetch_add(contiguous_runs(segments).count() as u64, Relaxed);
        self.bytes.fetch_add(batch_bytes(segments), Relaxed);
    }
}

impl<D: BlockDevice> CountingDevice<D> {
    /// Counts what reaches `inner`.
    pub fn new(inner: D) -> Self {
        let (reads, writes) = (Traffic::default(), Traffic::default());
        Self { inner, reads, writes, flushes: AtomicU64::new(0), discards: AtomicU64::new(0) }
    }

    /// The counts so far.
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

impl<D: BlockDevice> DeviceWrapper for CountingDevice<D> {
    type Inner = D;

    fn inner(&self) -> &D {
        &self.inner
    }

    fn before_read(&self, segments: &[ReadSegment<'_>]) -> Result<(), DeviceError> {
        self.reads.count(segments);
        Ok(())
    }

    fn before_write(&self, segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        self.writes.count(segments);
        Ok(())
    }

    fn before_flush(&self) -> Result<(), DeviceError> {
        self.flushes.fetch_add(1, Relaxed);
        Ok(())
    }

    fn before_discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        self.discards.fetch_add(1, Relaxed);
        Ok(())
    }
}
