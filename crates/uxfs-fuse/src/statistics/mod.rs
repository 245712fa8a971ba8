//! What a running mount counts, and how another process asks for it.
//!
//! | module | holds |
//! |---|---|
//! | here | the counters of the process that serves |
//! | [`histogram`] | how long operations took |
//! | [`snapshot`] | all counters at one moment, and the form in which they travel |
//! | [`query`] | asking a mount |
//!
//! Counting takes a few additions for each request. Nothing is added up until it is asked for: an ioctl of any directory of the mount brings
//! a snapshot, so a confined server needs no socket for it.

pub mod histogram;
pub mod query;
pub mod snapshot;

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use self::histogram::Histogram;
use crate::{protocol::opcode::Opcode, transport::Way};

/// Numbers of operations that are counted one by one; those behind are counted as one.
const OPERATIONS: usize = 64;

/// The counters of a mount.
#[derive(Debug)]
pub struct Statistics {
    begun: Instant,
    operations: Box<[OfOperation]>,
    ways: [AtomicU64; Way::ALL.len()],
}

/// Of one kind of request.
#[derive(Debug, Default)]
struct OfOperation {
    errors: AtomicU64,
    times: Histogram,
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            operations: (0..OPERATIONS).map(|_| OfOperation::default()).collect(),
            ways: Default::default(),
        }
    }
}

impl Statistics {
    /// Counts a request that was answered.
    pub fn count(&self, opcode: Opcode, way: Way, elapsed: Duration, is_error: bool) {
        let place = (opcode.number() as usize).min(OPERATIONS - 1);
        if let Some(operation) = self.operations.get(place) {
            operation.times.add(elapsed);
            operation.errors.fetch_add(is_error.into(), Relaxed);
        }
        if let Some(requests) = self.ways.get(way as usize) {
            requests.fetch_add(1, Relaxed);
        }
    }

    /// What was counted so far.
    #[must_use]
    pub fn snapshot(&self) -> snapshot::Counted {
        let operations = self.operations.iter().enumerate().filter_map(|(number, operation)| {
            let times = operation.times.now();
            let (opcode, errors) = (u32::try_from(number).ok()?, operation.errors.load(Relaxed));
            (times.count > 0).then_some(snapshot::Operation { opcode, errors, times })
        });
        snapshot::Counted {
            uptime: self.begun.elapsed(),
            requests: self.ways.each_ref().map(|requests| requests.load(Relaxed)),
            operations: operations.collect(),
        }
    }
}
