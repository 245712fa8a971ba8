//! Counters of the cache.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Events in a cache since it was made, and its present size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CacheCounters {
    /// Lookups answered from memory.
    pub hits: u64,
    /// Lookups that waited for another thread's read of the same buffer.
    pub joined: u64,
    /// Lookups that read from the device.
    pub misses: u64,
    /// Buffers given up for others.
    pub evictions: u64,
    /// Misses of buffers that had been given up not long before.
    pub ghost_hits: u64,
    /// Times a verifier ran.
    pub verified: u64,
    /// Times a verifier refused.
    pub verification_failures: u64,
    /// Bytes that buffers were filled with from the device.
    pub bytes_read: u64,
    /// Bytes read through only because they lay between wanted ones.
    pub gap_bytes_read: u64,
    /// Submissions to the device.
    pub batches: u64,
    /// Buffers read ahead.
    pub prefetched: u64,
    /// Of those, the ones that were looked up later.
    pub prefetch_used: u64,
    /// Of those, the ones that were given up without having been looked up.
    pub prefetch_wasted: u64,
    /// The budget.
    pub budget_bytes: u64,
    /// Memory of all live buffers with their overhead, and what is charged to accounts.
    pub resident_bytes: u64,
    /// Buffers in the cache.
    pub resident_buffers: u64,
    /// The most that `resident_bytes` has been.
    pub peak_bytes: u64,
    /// Memory mapped for buffers, used or not.
    pub mapped_bytes: u64,
}

/// A counter that threads share.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Counters of what costs far more than an atomic addition; the cheap paths count under their shard's lock.
#[derive(Debug, Default)]
pub(super) struct SharedCounters {
    pub verified: Counter,
    pub verification_failures: Counter,
    pub bytes_read: Counter,
    pub gap_bytes_read: Counter,
    pub batches: Counter,
    pub prefetched: Counter,
}

impl SharedCounters {
    pub fn read(&self) -> CacheCounters {
        CacheCounters {
            verified: self.verified.get(),
            verification_failures: self.verification_failures.get(),
            bytes_read: self.bytes_read.get(),
            gap_bytes_read: self.gap_bytes_read.get(),
            batches: self.batches.get(),
            prefetched: self.prefetched.get(),
            ..CacheCounters::default()
        }
    }
}
