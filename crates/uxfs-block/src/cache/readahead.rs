//! How a batch of missing buffers is read: exactly, with many small requests, or through the gaps between them, with
//! few large ones.
//!
//! Reading through a gap of `g` bytes saves one request and costs `g` bytes. So all depends on one figure: how many
//! bytes the device moves in the time that a request costs. It is measured. Each batch gives an equation,
//! `requests · cost of a request + bytes · cost of a byte = time`; the costs are those that fit the last batches best,
//! newer ones weighing more. While the batches seen are all of one kind the two costs cannot be told apart, and now and
//! then the device changes; then a batch is read the other way to see what that takes.
//!
//! Disks, network devices and whatever limits requests have a high cost of a request: there a scan over dense metadata
//! reads everything between. Fast flash at the end of a narrow link is the other way round.

use std::time::Duration;

/// Widest gap that is read through: what lies beyond belongs to something else.
pub(super) const MAX_GAP_BYTES: u64 = 256 << 10;
/// A batch of fewer buffers is read exactly, and teaches nothing: its time is latency.
const MIN_BATCH: usize = 8;
/// Weight of what was known before, at each new batch.
const DECAY: f64 = 0.98;
/// Reading the other way to learn reads at most this many times the bytes wanted, or makes this many times the
/// requests needed.
const MAX_TRIAL_WASTE: u64 = 8;
/// So many batches are read in turn in either way before what they took is believed: the first ones may have met a cold
/// device, or memory that was not there yet.
const FIRST_TRIALS: u64 = 4;
/// One in this many batches is read in either way where both take about the same.
const TRIAL_INTERVAL: u64 = 16;
/// "About the same" is up to this many times as long.
const CLOSE_RATIO: f64 = 3.0;
/// Weight of a new batch in the average time of a buffer.
const RECENT: f64 = 0.25;
/// Where a buffer of a batch takes longer, the thread that wants it had better do something else meanwhile: several
/// times what handing work to another thread costs.
const SLOW_BUFFER_SECONDS: f64 = 30e-6;
/// Share of independence below which two kinds of batches count as one.
const MIN_INDEPENDENCE: f64 = 0.05;

/// How batches are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReadStrategy {
    /// Only what is wanted, in as many requests as that takes.
    Exact,
    /// Through the gaps, in few large requests.
    Through,
}

/// Measured costs of the device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceCosts {
    /// Of a request, whatever its size.
    pub request_seconds: f64,
    /// Of each byte.
    pub byte_seconds: f64,
}

impl DeviceCosts {
    /// Gaps up to this many bytes cost less than a request.
    pub fn break_even_bytes(&self) -> u64 {
        if self.byte_seconds <= 0.0 { u64::MAX } else { (self.request_seconds / self.byte_seconds) as u64 }
    }
}

/// Exponentially weighted sums of a least-squares fit. Every equation is divided by its time, so that a long batch
/// does not outweigh many short ones.
#[derive(Debug, Default, Clone, Copy)]
struct Fit {
    requests_squared: f64,
    bytes_squared: f64,
    requests_by_bytes: f64,
    requests: f64,
    bytes: f64,
}

impl Fit {
    fn observe(&mut self, requests: u64, bytes: u64, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        let (requests, bytes) = (requests as f64 / seconds, bytes as f64 / seconds);
        let add = |sum: &mut f64, value: f64| *sum = *sum * DECAY + value;
        add(&mut self.requests_squared, requests * requests);
        add(&mut self.bytes_squared, bytes * bytes);
        add(&mut self.requests_by_bytes, requests * bytes);
        add(&mut self.requests, requests);
        add(&mut self.bytes, bytes);
    }

    /// `None` as long as the batches seen do not tell the two costs apart.
    fn costs(&self) -> Option<DeviceCosts> {
        let squares = self.requests_squared * self.bytes_squared;
        let determinant = squares - self.requests_by_bytes * self.requests_by_bytes;
        if squares <= 0.0 || determinant / squares < MIN_INDEPENDENCE {
            return None;
        }
        let request_seconds =
            (self.requests * self.bytes_squared - self.bytes * self.requests_by_bytes) / determinant;
        let byte_seconds =
            (self.bytes * self.requests_squared - self.requests * self.requests_by_bytes) / determinant;
        // A cost below nothing is noise: the other one explains all.
        Some(if request_seconds <= 0.0 {
            DeviceCosts { request_seconds: 0.0, byte_seconds: self.bytes / self.bytes_squared }
        } else if byte_seconds <= 0.0 {
            DeviceCosts { request_seconds: self.requests / self.requests_squared, byte_seconds: 0.0 }
        } else {
            DeviceCosts { request_seconds, byte_seconds }
        })
    }
}

/// Chooses for one device.
#[derive(Debug, Default)]
pub(super) struct Planner {
    forced: Option<ReadStrategy>,
    fit: Fit,
    costs: Option<DeviceCosts>,
    /// Batches that could have been read in either way.
    batches: u64,
    /// How the batch before was read.
    last: Option<ReadStrategy>,
    /// Time for each buffer of the last batches.
    buffer_seconds: f64,
}

/// Gaps and sizes of a batch of wanted ranges, in the order of their offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Shape {
    buffers: usize,
    exact_requests: u64,
    through_requests: u64,
    wanted_bytes: u64,
    gap_bytes: u64,
}

impl Shape {
    fn of(ranges: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut shape = Self::default();
        let mut end_bytes = None;
        for (offset_bytes, length_bytes) in ranges {
            match end_bytes.and_then(|end| offset_bytes.checked_sub(end)) {
                Some(0) => {}
                Some(gap) if gap <= MAX_GAP_BYTES => {
                    shape.exact_requests += 1;
                    shape.gap_bytes += gap;
                }
                _ => {
                    shape.exact_requests += 1;
                    shape.through_requests += 1;
                }
            }
            shape.buffers += 1;
            shape.wanted_bytes += length_bytes;
            end_bytes = Some(offset_bytes.saturating_add(length_bytes));
        }
        shape
    }

    /// Whether the two ways differ enough to learn from, and neither wastes too much.
    fn is_worth_a_trial(&self) -> bool {
        self.through_requests <= self.exact_requests / 2
            && self.gap_bytes <= self.wanted_bytes.saturating_mul(MAX_TRIAL_WASTE)
    }

    /// Whether both ways take about the same.
    fn is_close(&self, costs: &DeviceCosts) -> bool {
        let time = |requests: u64, bytes: u64| {
            requests as f64 * costs.request_seconds + bytes as f64 * costs.byte_seconds
        };
        let exact = time(self.exact_requests, self.wanted_bytes);
        let through = time(self.through_requests, self.wanted_bytes.saturating_add(self.gap_bytes));
        exact <= through * CLOSE_RATIO && through <= exact * CLOSE_RATIO
    }
}

impl Planner {
    /// A planner for a new device; one that is `forced` measures for nothing.
    pub fn new(forced: Option<ReadStrategy>) -> Self {
        Self { forced, ..Self::default() }
    }

    /// The widest gap to read through in a batch that wants `ranges` (offset and length, in the order of offsets);
    /// 0 reads exactly.
    pub fn gap_limit_bytes(&mut self, ranges: impl Iterator<Item = (u64, u64)>) -> u64 {
        let shape = Shape::of(ranges);
        if shape.buffers < MIN_BATCH || shape.gap_bytes == 0 {
            return 0;
        }
        match self.forced {
            Some(ReadStrategy::Exact) => return 0,
            Some(ReadStrategy::Through) => return MAX_GAP_BYTES,
            None => {}
        }
        let limit = self.costs.map_or(0, |costs| costs.break_even_bytes().min(MAX_GAP_BYTES));
        if !shape.is_worth_a_trial() {
            return limit;
        }
        self.batches += 1;
        if self.batches <= FIRST_TRIALS || self.fit.costs().is_none() {
            // Twice the same way would teach nothing.
            return if self.last == Some(ReadStrategy::Exact) { MAX_GAP_BYTES } else { 0 };
        }
        if self.batches.is_multiple_of(TRIAL_INTERVAL)
            && self.costs.is_some_and(|costs| shape.is_close(&costs))
        {
            return if self.batches.is_multiple_of(2 * TRIAL_INTERVAL) { MAX_GAP_BYTES } else { 0 };
        }
        limit
    }

    /// Learns from the time of a batch of so many buffers, with the bytes read through.
    pub fn observe(&mut self, buffers: usize, requests: u64, bytes: u64, gap_bytes: u64, elapsed: Duration) {
        if buffers < MIN_BATCH {
            return;
        }
        self.last = Some(if gap_bytes > 0 { ReadStrategy::Through } else { ReadStrategy::Exact });
        let seconds = elapsed.as_secs_f64() / buffers as f64;
        self.buffer_seconds += (seconds - self.buffer_seconds) * RECENT;
        self.fit.observe(requests, bytes, elapsed);
        self.costs = self.fit.costs().or(self.costs);
    }

    pub fn is_device_slow(&self) -> bool {
        self.buffer_seconds > SLOW_BUFFER_SECONDS
    }

    pub fn costs(&self) -> Option<DeviceCosts> {
        self.costs
    }
}

#[cfg(test)]
#[path = "readahead_tests.rs"]
mod tests;
