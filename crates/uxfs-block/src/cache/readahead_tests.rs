use std::sync::Arc;

use super::{super::*, *};
use crate::{
    clock::{Clock, VirtualClock},
    engine::{
        counting::{CountingDevice, DeviceCounters},
        memory::MemoryDevice,
        throttled::{Limits, ThrottledDevice},
    },
};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 16384;

/// A scan that reads every fourth block of the device, 64 buffers at a time: dense metadata.
fn scan(limits: Limits, strategy: Option<ReadStrategy>) -> (Duration, DeviceCounters, CacheCounters) {
    let clock = Arc::new(VirtualClock::default());
    let counting = Arc::new(CountingDevice::new(MemoryDevice::new(vec![7; (BLOCKS * BLOCK) as usize])));
    let throttled = ThrottledDevice::new(counting.clone(), limits, clock.clone());
    let options = CacheOptions { strategy, ..CacheOptions::with_budget(64 << 20) };
    let cache = Cache::with_clock(Arc::new(throttled), &options, clock.clone());
    let pieces: Vec<_> = (0..BLOCKS / 4)
        .map(|index| Piece { offset_bytes: index * 4 * BLOCK, length_bytes: BLOCK as u32 })
        .collect();
    for ahead in pieces.chunks(64) {
        cache.prefetch(ahead.iter().map(std::slice::from_ref));
        for piece in ahead {
            assert_eq!(cache.read(&[*piece], &Unverified).unwrap()[0], 7);
        }
    }
    let counters = cache.counters();
    assert_eq!((counters.prefetch_used, counters.misses), (BLOCKS / 4, 0));
    assert!(counters.peak_bytes <= 64 << 20, "gaps count too");
    (clock.now(), counting.counters(), counters)
}

/// A disk: requests are dear. Reading through the gaps wins, and is what the measuring one does.
#[test]
fn few_large_reads_win_where_requests_are_limited() {
    let limits = Limits { requests_per_second: 1_000.0, bytes_per_second: 2e9, ..Limits::NONE };
    let (exact, exact_io, _) = scan(limits, Some(ReadStrategy::Exact));
    let (through, through_io, _) = scan(limits, Some(ReadStrategy::Through));
    let (chosen, chosen_io, counters) = scan(limits, None);
    assert!(exact > through * 20, "{exact:?} {through:?}");
    assert_eq!((exact_io.read_requests, exact_io.read_bytes), (BLOCKS / 4, BLOCKS / 4 * BLOCK));
    assert_eq!(through_io.read_requests, BLOCKS / 4 / 64);
    assert!(chosen_io.read_requests < exact_io.read_requests / 8, "{chosen_io:?}");
    assert!(chosen < exact / 8, "{chosen:?} {exact:?}");
    assert!(counters.gap_bytes_read > BLOCKS / 2 * BLOCK);
}

/// Flash behind a narrow link: bytes are dear. Reading exactly wins, and is what the measuring one does.
#[test]
fn many_small_reads_win_where_bandwidth_is_limited() {
    let limits = Limits { requests_per_second: 200_000.0, bytes_per_second: 5e7, ..Limits::NONE };
    let (exact, exact_io, _) = scan(limits, Some(ReadStrategy::Exact));
    let (through, through_io, _) = scan(limits, Some(ReadStrategy::Through));
    let (chosen, chosen_io, _) = scan(limits, None);
    assert!(through > exact * 3, "{exact:?} {through:?}");
    assert!(through_io.read_bytes > exact_io.read_bytes * 3);
    assert!(chosen_io.read_bytes < exact_io.read_bytes * 5 / 4, "{chosen_io:?}");
    assert!(chosen < exact * 5 / 4, "{chosen:?} {exact:?}");
}

/// With latency and many requests at once, small reads keep the device busy.
#[test]
fn many_small_reads_win_where_the_queue_is_deep() {
    let latency = Duration::from_micros(80);
    let limits = Limits { latency, queue_depth: 128, bytes_per_second: 5e8, ..Limits::NONE };
    let (exact, ..) = scan(limits, Some(ReadStrategy::Exact));
    let (through, ..) = scan(limits, Some(ReadStrategy::Through));
    let (chosen, ..) = scan(limits, None);
    assert!(through > exact * 2, "{exact:?} {through:?}");
    assert!(chosen < exact * 3 / 2, "{chosen:?} {exact:?}");
}

/// One request at a time, each slow: few large reads.
#[test]
fn few_large_reads_win_where_requests_queue_up() {
    let limits =
        Limits { latency: Duration::from_millis(4), queue_depth: 1, bytes_per_second: 2e8, ..Limits::NONE };
    let (exact, ..) = scan(limits, Some(ReadStrategy::Exact));
    let (through, ..) = scan(limits, Some(ReadStrategy::Through));
    let (chosen, ..) = scan(limits, None);
    assert!(exact > through * 4, "{exact:?} {through:?}");
    assert!(chosen < exact / 4, "{chosen:?} {exact:?}");
}

#[test]
fn the_fit_finds_both_costs() {
    let mut fit = Fit::default();
    assert_eq!(fit.costs(), None);
    for (requests, bytes) in [(100, 400_000), (10, 4_000_000), (50, 200_000), (1, 8_000_000)] {
        let seconds = requests as f64 * 1e-4 + bytes as f64 * 1e-8;
        fit.observe(requests, bytes, Duration::from_secs_f64(seconds));
    }
    let costs = fit.costs().unwrap();
    assert!((costs.request_seconds / 1e-4 - 1.0).abs() < 1e-3, "{costs:?}");
    assert!((costs.byte_seconds / 1e-8 - 1.0).abs() < 1e-3, "{costs:?}");
    assert!((9_900..10_100).contains(&costs.break_even_bytes()));
}

#[test]
fn batches_of_one_kind_teach_no_costs() {
    let mut fit = Fit::default();
    for requests in [100, 200, 300] {
        fit.observe(requests, requests * 4096, Duration::from_micros(requests * 10));
    }
    assert_eq!(fit.costs(), None);
    fit.observe(100, 409_600, Duration::ZERO);
    assert_eq!(fit.costs(), None, "a batch that took no time says nothing");
}

/// The device changes from one that counts requests to one that counts bytes.
#[test]
fn a_change_of_the_device_is_noticed() {
    let mut planner = Planner::new(None);
    let wanted: Vec<(u64, u64)> = (0..100).map(|index| (index * 4 * BLOCK, BLOCK)).collect();
    // How many of the last 50 batches are read through.
    let mut through_after = |request_us: u64, byte_ns: u64, batches: u32| {
        let mut through = 0;
        for batch in 0..batches {
            let limit = planner.gap_limit_bytes(wanted.iter().copied());
            let is_through = limit >= 3 * BLOCK;
            through += u32::from(is_through && batch + 50 >= batches);
            let (requests, gap_bytes) = if is_through { (1, 99 * 3 * BLOCK) } else { (100, 0) };
            let bytes = 100 * BLOCK + gap_bytes;
            let elapsed =
                Duration::from_micros(requests * request_us) + Duration::from_nanos(bytes * byte_ns);
            planner.observe(100, requests, bytes, gap_bytes, elapsed);
        }
        through
    };
    assert!(through_after(5_000, 1, 60) > 40);
    assert!(through_after(1, 100, 300) < 10);
    assert!(through_after(5_000, 1, 300) > 40);
}

#[test]
fn small_or_scattered_batches_are_read_exactly() {
    let mut planner = Planner::new(Some(ReadStrategy::Through));
    assert_eq!(planner.gap_limit_bytes([(0, 4096), (8192, 4096)].into_iter()), 0, "too few");
    assert_eq!(planner.gap_limit_bytes((0..100).map(|index| (index * 4096, 4096))), 0, "no gaps");
    assert_eq!(planner.gap_limit_bytes((0..100).map(|index| (index << 20, 4096))), 0, "gaps too wide");
    assert_eq!(planner.gap_limit_bytes((0..100).map(|index| (index << 13, 4096))), MAX_GAP_BYTES);
}

#[test]
fn slow_devices_are_told_from_fast_ones() {
    let mut planner = Planner::new(None);
    assert!(!planner.is_device_slow());
    (0..20).for_each(|_| planner.observe(100, 100, 409_600, 0, Duration::from_micros(500)));
    assert!(!planner.is_device_slow(), "5 us a buffer");
    (0..20).for_each(|_| planner.observe(100, 100, 409_600, 0, Duration::from_millis(20)));
    assert!(planner.is_device_slow(), "200 us a buffer");
}
