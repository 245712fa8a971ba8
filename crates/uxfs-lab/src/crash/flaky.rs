//! A device that fails at the n-th request of a kind, once or from then on.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
};

use uxfs_block::{
    device::{BlockDevice, DeviceError, DeviceOperation, ReadSegment, Segment, WriteSegment, batch_bytes},
    device_wrapper::DeviceWrapper,
};

/// When a device fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// Which requests are counted: reads, writes or flushes.
    pub operation: DeviceOperation,
    /// Which one fails, from 0.
    pub request: u64,
    /// Whether all later ones of the kind fail, too.
    pub stays: bool,
}

/// A device around another that fails as it is told. What fails has no effect; of a batch the requests before it have.
#[derive(Debug)]
pub struct FlakyDevice<D> {
    inner: D,
    failure: Option<Failure>,
    reads: AtomicU64,
    writes: AtomicU64,
    flushes: AtomicU64,
    failed: AtomicU64,
}

/// How a device error that was made on purpose says so.
pub const MADE_ON_PURPOSE: &str = "a failure made on purpose";

impl<D: BlockDevice> FlakyDevice<D> {
    /// Without a failure it counts only.
    pub fn new(inner: D, failure: Option<Failure>) -> Self {
        let zero = || AtomicU64::new(0);
        Self { inner, failure, reads: zero(), writes: zero(), flushes: zero(), failed: zero() }
    }

    /// The device within.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Requests of a kind so far.
    pub fn requests(&self, operation: DeviceOperation) -> u64 {
        self.counter(operation).map_or(0, |counter| counter.load(SeqCst))
    }

    /// How often it has failed.
    pub fn failed(&self) -> u64 {
        self.failed.load(SeqCst)
    }

    /// Whether it fails at this kind of request.
    pub fn failed_at(&self, operation: DeviceOperation) -> bool {
        self.failure.is_some_and(|failure| failure.operation == operation)
    }

    /// Whether the next read succeeds.
    pub fn can_read(&self) -> bool {
        let next = self.requests(DeviceOperation::Read);
        self.failure.is_none_or(|failure| {
            failure.operation != DeviceOperation::Read || next != failure.request && !failure.stays
        })
    }

    fn counter(&self, operation: DeviceOperation) -> Option<&AtomicU64> {
        match operation {
            DeviceOperation::Read => Some(&self.reads),
            DeviceOperation::Write => Some(&self.writes),
            DeviceOperation::Flush => Some(&self.flushes),
            DeviceOperation::Open | DeviceOperation::Discard => None,
        }
    }

    fn request(
        &self,
        operation: DeviceOperation,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<(), DeviceError> {
        let number = self.counter(operation).map_or(0, |counter| counter.fetch_add(1, SeqCst));
        let fails = self.failure.is_some_and(|failure| {
            failure.operation == operation
                && (number == failure.request || failure.stays && number > failure.request)
        });
        if !fails {
            return Ok(());
        }
        self.failed.fetch_add(1, SeqCst);
        let source = io::Error::other(MADE_ON_PURPOSE);
        Err(DeviceError { operation, offset_bytes, length_bytes, source })
    }

    fn request_of<S: Segment>(&self, operation: DeviceOperation, run: &[S]) -> Result<(), DeviceError> {
        let Some(first) = run.first() else { return Ok(()) };
        self.request(operation, first.offset_bytes(), batch_bytes(run))
    }
}

impl<D: BlockDevice> DeviceWrapper for FlakyDevice<D> {
    type Inner = D;

    fn inner(&self) -> &D {
        &self.inner
    }

    fn divides_batches(&self) -> bool {
        true
    }

    fn before_read(&self, segments: &[ReadSegment<'_>]) -> Result<(), DeviceError> {
        self.request_of(DeviceOperation::Read, segments)
    }

    fn before_write(&self, segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        self.request_of(DeviceOperation::Write, segments)
    }

    fn before_flush(&self) -> Result<(), DeviceError> {
        self.request(DeviceOperation::Flush, 0, 0)
    }
}
