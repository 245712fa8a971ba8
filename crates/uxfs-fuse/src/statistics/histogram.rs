//! Times in buckets that double: the first one is below a microsecond, the last one has all from four seconds on.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Buckets.
pub const BUCKETS: usize = 24;

/// Times that are counted while they are read.
#[derive(Debug, Default)]
pub struct Histogram {
    sum_nanoseconds: AtomicU64,
    most_nanoseconds: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// A histogram at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// All together.
    pub sum_nanoseconds: u64,
    /// The longest.
    pub most_nanoseconds: u64,
    /// How many in each bucket.
    pub buckets: [u64; BUCKETS],
}

/// The end of a bucket, in nanoseconds; the last one has none.
#[must_use]
pub fn end_of_bucket(bucket: usize) -> Option<u64> {
    (bucket + 1 < BUCKETS).then(|| 1000 << bucket)
}

impl Histogram {
    /// Counts one.
    pub fn add(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let bucket =
            ((nanoseconds / 1000).checked_ilog2().map_or(0, |log| log as usize + 1)).min(BUCKETS - 1);
        if let Some(count) = self.buckets.get(bucket) {
            count.fetch_add(1, Relaxed);
        }
        self.sum_nanoseconds.fetch_add(nanoseconds, Relaxed);
        if nanoseconds > self.most_nanoseconds.load(Relaxed) {
            self.most_nanoseconds.fetch_max(nanoseconds, Relaxed);
        }
    }

    /// As it is now.
    #[must_use]
    pub fn now(&self) -> Times {
        let buckets = self.buckets.each_ref().map(|count| count.load(Relaxed));
        Times {
            count: buckets.iter().sum(),
            sum_nanoseconds: self.sum_nanoseconds.load(Relaxed),
            most_nanoseconds: self.most_nanoseconds.load(Relaxed),
            buckets,
        }
    }
}

impl Times {
    /// The time within which so many of a thousand ended, rounded up to the end of their bucket.
    #[must_use]
    pub fn within(&self, permille: u64) -> Duration {
        let wanted = self.count.saturating_mul(permille).div_ceil(1000);
        let mut seen = 0_u64;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen = seen.saturating_add(*count);
            if seen >= wanted {
                let end = end_of_bucket(bucket).unwrap_or(u64::MAX).min(self.most_nanoseconds);
                return Duration::from_nanos(end);
            }
        }
        Duration::from_nanos(self.most_nanoseconds)
    }

    /// The average.
    #[must_use]
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.sum_nanoseconds.checked_div(self.count).unwrap_or(0))
    }

    /// What was counted since. The longest is known where it is longer than all before; else the end of its bucket is given.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut buckets = self.buckets;
        buckets.iter_mut().zip(before.buckets).for_each(|(now, before)| *now = now.saturating_sub(before));
        let last = buckets.iter().rposition(|count| *count > 0);
        let end = last.map_or(0, |bucket| end_of_bucket(bucket).unwrap_or(u64::MAX));
        let is_longest = self.most_nanoseconds > before.most_nanoseconds;
        Self {
            count: self.count.saturating_sub(before.count),
            sum_nanoseconds: self.sum_nanoseconds.saturating_sub(before.sum_nanoseconds),
            most_nanoseconds: if is_longest { self.most_nanoseconds } else { end.min(self.most_nanoseconds) },
            buckets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_an_interval_is_not_that_of_the_time_before() {
        let histogram = Histogram::default();
        let longest_since = |before: &Times| histogram.now().since(before).most_nanoseconds;
        let empty = histogram.now();
        histogram.add(Duration::from_millis(30));
        assert_eq!(longest_since(&empty), 30_000_000);
        let before = histogram.now();
        assert_eq!(longest_since(&before), 0);
        histogram.add(Duration::from_micros(5));
        assert_eq!(longest_since(&before), 8000);
        histogram.add(Duration::from_millis(31));
        assert_eq!(longest_since(&before), 31_000_000);
    }

    #[test]
    fn times_fall_into_buckets_that_double() {
        let histogram = Histogram::default();
        for nanoseconds in [0, 999, 1000, 1999, 2000, 1_000_000, u64::MAX] {
            histogram.add(Duration::from_nanos(nanoseconds));
        }
        let times = histogram.now();
        assert_eq!(times.buckets[..3], [2, 2, 1]);
        assert_eq!((times.buckets[10], times.buckets[BUCKETS - 1]), (1, 1));
        assert_eq!((times.count, times.most_nanoseconds), (7, u64::MAX));
        for bucket in 0..BUCKETS - 1 {
            let end = end_of_bucket(bucket).unwrap();
            let histogram = Histogram::default();
            histogram.add(Duration::from_nanos(end - 1));
            histogram.add(Duration::from_nanos(end));
            let buckets = histogram.now().buckets;
            assert_eq!((buckets[bucket], buckets[bucket + 1]), (1, 1), "{bucket}");
        }
    }

    #[test]
    fn shares_are_rounded_up_and_never_beyond_the_longest() {
        let histogram = Histogram::default();
        for _ in 0..99 {
            histogram.add(Duration::from_micros(3));
        }
        histogram.add(Duration::from_micros(700));
        let times = histogram.now();
        assert_eq!(times.within(500), Duration::from_micros(4));
        assert_eq!(times.within(990), Duration::from_micros(4));
        assert_eq!(times.within(999), Duration::from_micros(700));
        assert_eq!(times.mean(), Duration::from_nanos(9970));
        assert_eq!(times.since(&times).count, 0);
        assert_eq!(Times::default().within(500), Duration::ZERO);
    }
}
