//! The byte budget, and the share of it that each buffer holds.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Memory that a buffer takes beside its bytes: its entry, its handle, its place in the table.
pub(super) const OVERHEAD_BYTES: u64 = 256;

/// Buffers may always take one part in this many of the budget, whatever else is charged.
const BUFFERS_SHARE: u64 = 4;

#[derive(Debug)]
pub(super) struct Budget {
    limit: AtomicU64,
    /// By buffers.
    used: AtomicU64,
    /// By what is charged to accounts.
    outside: AtomicU64,
    peak: AtomicU64,
}

impl Budget {
    pub fn new(limit_bytes: u64) -> Self {
        let [used, outside, peak] = [const { AtomicU64::new(0) }; 3];
        Self { limit: AtomicU64::new(limit_bytes), used, outside, peak }
    }

    pub fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    pub fn set_limit(&self, limit_bytes: u64) {
        self.limit.store(limit_bytes, Relaxed);
    }

    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    pub fn outside(&self) -> u64 {
        self.outside.load(Relaxed)
    }

    pub fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
    }

    /// The budget for buffers.
    pub fn for_buffers(&self) -> u64 {
        let limit = self.limit();
        limit.saturating_sub(self.outside()).max(limit / BUFFERS_SHARE)
    }

    pub fn charge_outside(&self, bytes: u64) {
        let outside = self.outside.fetch_add(bytes, Relaxed).saturating_add(bytes);
        self.peak.fetch_max(self.used().saturating_add(outside), Relaxed);
    }

    pub fn release_outside(&self, bytes: u64) {
        self.outside.fetch_sub(bytes, Relaxed);
    }

    /// Takes `bytes` if they fit; otherwise says by how much they do not.
    pub fn try_charge(self: &Arc<Self>, bytes: u64) -> Result<Charge, u64> {
        let mut used = self.used();
        loop {
            let wanted = used.saturating_add(bytes);
            let excess = wanted.saturating_sub(self.for_buffers());
            if excess > 0 {
                return Err(excess);
            }
            match self.used.compare_exchange_weak(used, wanted, Relaxed, Relaxed) {
                Ok(_) => return Ok(self.charged(bytes, wanted)),
                Err(now) => used = now,
            }
        }
    }

    /// Takes `bytes` although they do not fit.
    pub fn charge_over_limit(self: &Arc<Self>, bytes: u64) -> Charge {
        let used = self.used.fetch_add(bytes, Relaxed);
        self.charged(bytes, used.saturating_add(bytes))
    }

    fn charged(self: &Arc<Self>, bytes: u64, used: u64) -> Charge {
        self.peak.fetch_max(used.saturating_add(self.outside()), Relaxed);
        Charge { budget: Arc::clone(self), bytes }
    }
}

/// Part of the budget, given back when dropped.
#[derive(Debug)]
pub(super) struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Charge {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Relaxed);
    }
}
