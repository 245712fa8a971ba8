//! Memory outside of buffers that counts against the budget: what is made of buffers and kept beside them.
//!
//! Charging takes no lock and gives up no buffer: buffers make way when the next one comes in, or at
//! [`Cache::make_way`]. So an account may be charged wherever memory is taken.

use std::{fmt, sync::Arc};

use super::{Cache, budget::Budget};

/// Counts memory against the budget of a cache. Cloning it clones the handle.
#[derive(Clone)]
pub struct MemoryAccount {
    budget: Arc<Budget>,
}

/// Memory that counts, until it is dropped.
pub struct MemoryCharge {
    account: MemoryAccount,
    bytes: u64,
}

impl Cache {
    /// For memory outside of buffers.
    pub fn memory_account(&self) -> &MemoryAccount {
        &self.account
    }

    /// The budget for buffers beside the memory that is charged to accounts: at least a quarter of the whole.
    pub fn buffer_budget_bytes(&self) -> u64 {
        self.budget.for_buffers()
    }

    /// Gives up buffers until all that is charged fits the budget, or buffers take no more than a quarter of it.
    pub fn make_way(&self) {
        let most_bytes = self.budget.for_buffers();
        if self.budget.used() > most_bytes {
            self.shrink_to(most_bytes);
            self.pool.trim();
        }
    }
}

impl MemoryAccount {
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        Self { budget: Arc::clone(budget) }
    }

    /// Counts so many bytes.
    pub fn charge(&self, bytes: u64) -> MemoryCharge {
        self.budget.charge_outside(bytes);
        MemoryCharge { account: self.clone(), bytes }
    }

    /// All that is charged, by whatever handle.
    pub fn charged_bytes(&self) -> u64 {
        self.budget.outside()
    }

    /// Whether what is charged takes so much of the budget that what can be had again should go.
    pub fn is_short(&self) -> bool {
        self.budget.outside() > self.budget.limit() / 4
    }
}

impl MemoryCharge {
    /// For memory that has become larger or smaller.
    pub fn set_bytes(&mut self, bytes: u64) {
        let budget = &self.account.budget;
        match bytes.checked_sub(self.bytes) {
            Some(more) => budget.charge_outside(more),
            None => budget.release_outside(self.bytes - bytes),
        }
        self.bytes = bytes;
    }

    /// Another charge, of nothing yet.
    #[must_use]
    pub fn another(&self) -> Self {
        self.account.charge(0)
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.account.budget.release_outside(self.bytes);
    }
}

impl fmt::Debug for MemoryAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryAccount").field("charged_bytes", &self.charged_bytes()).finish_non_exhaustive()
    }
}

impl fmt::Debug for MemoryCharge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryCharge").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
