use std::sync::Arc;

use super::super::{Cache, CacheOptions, Piece, Unverified};
use crate::engine::memory::MemoryDevice;

const BLOCK: u32 = 4096;
const BUDGET: u64 = 1 << 20;

fn cache() -> Cache {
    let device = Arc::new(MemoryDevice::new(vec![7; 512 * BLOCK as usize]));
    let options = CacheOptions { shards: Some(4), seed: Some(1), ..CacheOptions::with_budget(BUDGET) };
    Cache::new(device, &options)
}

fn read_all(cache: &Cache) {
    for block in 0..512 {
        let piece = Piece { offset_bytes: block * u64::from(BLOCK), length_bytes: BLOCK };
        cache.read(&[piece], &Unverified).unwrap();
    }
}

/// Invariant 1 of the cache: what is charged and what buffers take together stay within the budget.
#[test]
fn buffers_make_way_for_what_is_charged() {
    let cache = cache();
    read_all(&cache);
    let full = cache.counters();
    assert!(full.resident_bytes > BUDGET * 9 / 10);
    let account = cache.memory_account();
    let charge = account.charge(BUDGET / 2);
    cache.make_way();
    let counters = cache.counters();
    assert!(counters.resident_bytes <= BUDGET && counters.resident_buffers < full.resident_buffers * 6 / 10);
    // Where no idle inode gives up memory, the next buffers do.
    let mut other = charge.another();
    other.set_bytes(BUDGET / 8);
    assert_eq!(account.charged_bytes(), BUDGET * 5 / 8);
    read_all(&cache);
    assert!(cache.counters().resident_bytes <= BUDGET);
    assert!(account.is_short());
    drop((charge, other));
    assert!(account.charged_bytes() == 0 && !account.is_short());
    read_all(&cache);
    let again = cache.counters();
    assert!(
        again.resident_buffers == full.resident_buffers && again.mapped_bytes <= BUDGET * 9 / 8 + BUDGET / 10
    );
}

#[test]
fn buffers_always_have_a_quarter() {
    let cache = cache();
    read_all(&cache);
    let mut charge = cache.memory_account().charge(0);
    charge.set_bytes(10 * BUDGET);
    cache.make_way();
    assert_eq!(cache.buffer_budget_bytes(), BUDGET / 4);
    read_all(&cache);
    let buffers = cache.counters().resident_bytes - 10 * BUDGET;
    assert!((BUDGET / 5..=BUDGET / 4).contains(&buffers), "{buffers}");
    charge.set_bytes(BUDGET / 10);
    assert_eq!(cache.buffer_budget_bytes(), BUDGET - BUDGET / 10);
    drop(charge);
    assert_eq!(cache.buffer_budget_bytes(), BUDGET);
}
