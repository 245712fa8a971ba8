//! Latencies in buckets whose width grows with the value: recording one costs a few instructions and no memory, so that
//! measuring does not change what is measured. Each thread has its own; they are added up afterwards.

use std::time::{Duration, Instant};

use serde::Serialize;

/// Buckets for each power of two: a bucket is at most 3.2 % wide.
const FINE_BITS: u32 = 5;
const FINE: u64 = 1 << FINE_BITS;
/// Values from 2^42 ns (73 minutes) on share the last bucket.
const MAX_BITS: u32 = 42;
const BUCKETS: usize = ((MAX_BITS - FINE_BITS + 1) as usize) << FINE_BITS;

/// How long something took, many times.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    total_nanoseconds: u64,
    least_nanoseconds: u64,
    most_nanoseconds: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; BUCKETS],
            count: 0,
            total_nanoseconds: 0,
            least_nanoseconds: u64::MAX,
            most_nanoseconds: 0,
        }
    }
}

fn bucket_of(nanoseconds: u64) -> usize {
    let value = nanoseconds.min((1 << MAX_BITS) - 1);
    if value < FINE {
        return value as usize;
    }
    let shift = value.ilog2() - FINE_BITS;
    // Below BUCKETS: the shift is at most MAX_BITS - FINE_BITS - 1.
    ((u64::from(shift + 1) << FINE_BITS) + ((value >> shift) - FINE)) as usize
}

/// The middle of a bucket.
fn value_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < FINE {
        return bucket;
    }
    let shift = (bucket >> FINE_BITS) - 1;
    let start = (FINE + (bucket & (FINE - 1))) << shift;
    start + (1 << shift) / 2
}

impl Histogram {
    /// Adds one.
    pub fn record(&mut self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get_mut(bucket_of(nanoseconds)) {
            *count += 1;
        }
        self.count += 1;
        self.total_nanoseconds = self.total_nanoseconds.saturating_add(nanoseconds);
        self.least_nanoseconds = self.least_nanoseconds.min(nanoseconds);
        self.most_nanoseconds = self.most_nanoseconds.max(nanoseconds);
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.total_nanoseconds = self.total_nanoseconds.saturating_add(other.total_nanoseconds);
        self.least_nanoseconds = self.least_nanoseconds.min(other.least_nanoseconds);
        self.most_nanoseconds = self.most_nanoseconds.max(other.most_nanoseconds);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All together.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.total_nanoseconds)
    }

    /// The shortest; zero for none.
    pub fn least(&self) -> Duration {
        Duration::from_nanos(if self.count == 0 { 0 } else { self.least_nanoseconds })
    }

    /// The longest.
    pub fn most(&self) -> Duration {
        Duration::from_nanos(self.most_nanoseconds)
    }

    /// The average; zero for none.
    pub fn average(&self) -> Duration {
        Duration::from_nanos(self.total_nanoseconds.checked_div(self.count).unwrap_or(0))
    }

    /// The upper bound of this share (0 to 1) of all values, to the width of a bucket.
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                let value = value_of(bucket).clamp(self.least_nanoseconds, self.most_nanoseconds);
                return Duration::from_nanos(value);
            }
        }
        self.most()
    }

    /// The printed summary.
    pub fn summary(&self) -> Summary {
        let nanoseconds = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Summary {
            count: self.count,
            total_nanoseconds: self.total_nanoseconds,
            least_nanoseconds: nanoseconds(self.least()),
            average_nanoseconds: nanoseconds(self.average()),
            p50_nanoseconds: nanoseconds(self.quantile(0.5)),
            p90_nanoseconds: nanoseconds(self.quantile(0.9)),
            p99_nanoseconds: nanoseconds(self.quantile(0.99)),
            p999_nanoseconds: nanoseconds(self.quantile(0.999)),
            most_nanoseconds: self.most_nanoseconds,
        }
    }
}

/// A histogram in a few numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Summary {
    /// How many.
    pub count: u64,
    /// All together.
    pub total_nanoseconds: u64,
    /// The shortest.
    pub least_nanoseconds: u64,
    /// On average.
    pub average_nanoseconds: u64,
    /// Half of them took at most this.
    pub p50_nanoseconds: u64,
    /// 90 % took at most this.
    pub p90_nanoseconds: u64,
    /// 99 % took at most this.
    pub p99_nanoseconds: u64,
    /// 99.9 % took at most this.
    pub p999_nanoseconds: u64,
    /// The longest.
    pub most_nanoseconds: u64,
}

/// Reads the clock once between two steps: the end of one is the beginning of the next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    last: Instant,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { last: Instant::now() }
    }

    /// Adds the time since the last call to `histogram`.
    pub(crate) fn lap(&mut self, histogram: &mut Histogram) {
        let now = Instant::now();
        histogram.record(now - self.last);
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_near_the_middle_of_its_bucket() {
        for exponent in 0..42 {
            for offset in [0_u64, 1, 3, 17] {
                let value = (1_u64 << exponent) + offset;
                let middle = value_of(bucket_of(value));
                assert!(middle.abs_diff(value) * 30 <= value.max(30), "{value} is shown as {middle}");
            }
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut histogram = Histogram::default();
        assert_eq!(
            (histogram.count(), histogram.average(), histogram.least()),
            (0, Duration::ZERO, Duration::ZERO)
        );
        let mut other = Histogram::default();
        for value in 1..=10_000 {
            let half = if value % 2 == 0 { &mut histogram } else { &mut other };
            half.record(Duration::from_nanos(value));
        }
        histogram.merge(&other);
        let summary = histogram.summary();
        assert_eq!((summary.count, summary.least_nanoseconds, summary.most_nanoseconds), (10_000, 1, 10_000));
        assert_eq!((summary.total_nanoseconds, summary.average_nanoseconds), (50_005_000, 5000));
        for (found, exact) in [(summary.p50_nanoseconds, 5000), (summary.p99_nanoseconds, 9900)] {
            assert!(found.abs_diff(exact) * 25 <= exact, "{found} instead of {exact}");
        }
        assert_eq!(histogram.quantile(1.0), Duration::from_nanos(10_000));
    }
}
