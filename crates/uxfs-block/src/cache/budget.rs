//! The byte budget, and the share of it that each buffer holds.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// What keeping a buffer costs beside its bytes: its entry, its handle, its place in the table.
pub(super) const OVERHEAD_BYTES: u64 = 256;

#[derive(Debug)]
pub(super) struct Budget {
    limit: AtomicU64,
    used: AtomicU64,
    peak: AtomicU64,
}

impl Budget {
    pub fn new(limit_bytes: u64) -> Self {
        Self { limit: AtomicU64::new(limit_bytes), used: AtomicU64::new(0), peak: AtomicU64::new(0) }
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

    pub fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
    }

    /// Takes `bytes` if they fit; otherwise says by how much they do not.
    pub fn try_charge(self: &Arc<Self>, bytes: u64) -> Result<Charge, u64> {
        let mut used = self.used();
        loop {
            let wanted = used.saturating_add(bytes);
            let excess = wanted.saturating_sub(self.limit());
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
        self.peak.fetch_max(used, Relaxed);
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
