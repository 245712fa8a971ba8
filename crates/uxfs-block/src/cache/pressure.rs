//! How much memory the cache may take.

use std::fs;

/// Budget where memory is plenty.
pub const DEFAULT_BUDGET_BYTES: u64 = 256 << 20;
/// The cache takes at most one part in this many of the memory that is available.
const AVAILABLE_SHARE: u64 = 4;
/// Below this the budget does not go.
const MIN_BUDGET_BYTES: u64 = 4 << 20;

/// [`DEFAULT_BUDGET_BYTES`], or a share of the available memory where that is less.
pub fn default_budget_bytes() -> u64 {
    let available = available_bytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default());
    let share = available.map_or(u64::MAX, |bytes| bytes / AVAILABLE_SHARE);
    share.clamp(MIN_BUDGET_BYTES, DEFAULT_BUDGET_BYTES)
}

fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
