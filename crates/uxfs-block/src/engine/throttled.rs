//! Makes a device as slow as another one would be, for tests and benchmarks.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::{
    clock::Clock,
    device::{BlockDevice, DeviceError, ReadSegment, WriteSegment, batch_bytes, contiguous_runs},
    device_wrapper::DeviceWrapper,
};

/// Limits of the modelled device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Requests each second, whatever their size.
    pub requests_per_second: f64,
    /// Bytes each second.
    pub bytes_per_second: f64,
    /// From the beginning of a request to its end, when nothing else is going on.
    pub latency: Duration,
    /// Requests that it works on at once; those beyond wait.
    pub queue_depth: u32,
}

impl Limits {
    /// No limit at all: change the one that matters.
    pub const NONE: Self = Self {
        requests_per_second: f64::INFINITY,
        bytes_per_second: f64::INFINITY,
        latency: Duration::ZERO,
        queue_depth: u32::MAX,
    };
}

/// A device around another that takes the time that [`Limits`] say, on a clock of the caller's choice. Requests of
/// all threads share the limits.
#[derive(Debug)]
pub struct ThrottledDevice<D> {
    inner: D,
    limits: Limits,
    clock: Arc<dyn Clock>,
    /// Until then the device is busy with what has been accepted.
    busy_until: Mutex<Duration>,
}

impl<D: BlockDevice> ThrottledDevice<D> {
    /// Slows `inner` down.
    pub fn new(inner: D, limits: Limits, clock: Arc<dyn Clock>) -> Self {
        Self { inner, limits, clock, busy_until: Mutex::new(Duration::ZERO) }
    }

    fn serve(&self, requests: u64, bytes: u64) {
        let by_requests = requests as f64 / self.limits.requests_per_second;
        let by_bytes = bytes as f64 / self.limits.bytes_per_second;
        let service = Duration::try_from_secs_f64(by_requests.max(by_bytes)).unwrap_or(Duration::MAX);
        let rounds = requests.div_ceil(self.limits.queue_depth.max(1).into());
        let latency = self.limits.latency.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX));
        let begin = self.clock.now();
        let end = {
            let mut busy_until = self.busy_until.lock();
            *busy_until = begin.max(*busy_until).saturating_add(service);
            *busy_until
        };
        self.clock.wait_until(end.max(begin.saturating_add(latency)));
    }
}

impl<D: BlockDevice> DeviceWrapper for ThrottledDevice<D> {
    type Inner = D;

    fn inner(&self) -> &D {
        &self.inner
    }

    fn engine_name(&self) -> &'static str {
        "throttled"
    }

    fn before_read(&self, segments: &[ReadSegment<'_>]) -> Result<(), DeviceError> {
        self.serve(contiguous_runs(segments).count() as u64, batch_bytes(segments));
        Ok(())
    }

    fn before_write(&self, segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        self.serve(contiguous_runs(segments).count() as u64, batch_bytes(segments));
        Ok(())
    }

    fn before_flush(&self) -> Result<(), DeviceError> {
        self.serve(1, 0);
        Ok(())
    }

    fn before_discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        self.serve(1, 0);
        Ok(())
    }
}
