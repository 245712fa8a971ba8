//! Many threads, devices that fail, and what stays in memory.

use std::sync::{
    Barrier,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
};

use parking_lot::{Condvar, Mutex};

use super::*;
use crate::{
    device::{DeviceOperation, ReadSegment},
    device_wrapper::DeviceWrapper,
    engine::memory::MemoryDevice,
};

const BLOCK: u32 = 4096;

fn piece(block: u64) -> Piece {
    Piece { offset_bytes: block * u64::from(BLOCK), length_bytes: BLOCK }
}

/// A device that holds reads back until its gate opens, fails where it is told to, and counts.
#[derive(Debug)]
struct Gated {
    inner: MemoryDevice,
    is_open: Mutex<bool>,
    opened: Condvar,
    reads: AtomicUsize,
    is_failing: AtomicBool,
}

impl Gated {
    fn new(blocks: u64, is_open: bool) -> Arc<Self> {
        let bytes = (0..blocks).flat_map(|block| [block as u8; BLOCK as usize]).collect();
        Arc::new(Self {
            inner: MemoryDevice::new(bytes),
            is_open: Mutex::new(is_open),
            opened: Condvar::new(),
            reads: AtomicUsize::new(0),
            is_failing: AtomicBool::new(false),
        })
    }

    fn open(&self) {
        *self.is_open.lock() = true;
        self.opened.notify_all();
    }
}

impl DeviceWrapper for Gated {
    type Inner = MemoryDevice;

    fn inner(&self) -> &MemoryDevice {
        &self.inner
    }

    fn before_read(&self, segments: &[ReadSegment<'_>]) -> Result<(), DeviceError> {
        self.reads.fetch_add(segments.len(), SeqCst);
        let mut is_open = self.is_open.lock();
        while !*is_open {
            self.opened.wait(&mut is_open);
        }
        drop(is_open);
        if self.is_failing.load(SeqCst) {
            return Err(DeviceError::outside(DeviceOperation::Read, segments[0].offset_bytes, 0));
        }
        Ok(())
    }
}

fn cache(device: Arc<dyn BlockDevice>, budget_bytes: u64, shards: usize) -> Cache {
    let options =
        CacheOptions { shards: Some(shards), seed: Some(1), ..CacheOptions::with_budget(budget_bytes) };
    Cache::new(device, &options)
}

/// Waits until so many lookups wait for another's read.
fn wait_for_joined(cache: &Cache, count: u64) {
    while cache.counters().joined < count {
        std::thread::yield_now();
    }
}

/// Invariant 3.
#[test]
fn lookups_of_one_buffer_share_a_read() {
    let device = Gated::new(8, false);
    let cache = cache(device.clone(), 1 << 20, 1);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(cache.read(&[piece(3)], &Unverified).unwrap()[0], 3));
        }
        wait_for_joined(&cache, 3);
        device.open();
    });
    assert_eq!(device.reads.load(SeqCst), 1);
    let counters = cache.counters();
    assert_eq!((counters.misses, counters.joined, counters.hits), (1, 3, 0));
}

/// Invariants 3 and 4: a failed read is not shared for ever, nor remembered.
#[test]
fn each_waiter_of_a_failed_read_asks_for_itself() {
    let device = Gated::new(8, false);
    device.is_failing.store(true, SeqCst);
    let cache = cache(device.clone(), 1 << 20, 1);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert!(cache.read(&[piece(3)], &Unverified).is_err()));
        }
        wait_for_joined(&cache, 2);
        device.open();
    });
    assert_eq!(device.reads.load(SeqCst), 3);
    assert_eq!((cache.counters().resident_buffers, cache.counters().resident_bytes), (0, 0));
    device.is_failing.store(false, SeqCst);
    assert_eq!(cache.read(&[piece(3)], &Unverified).unwrap()[0], 3);
}

/// Invariant 6: two threads, each of which wants first what the other reads.
#[test]
fn crossing_batches_do_not_wait_for_each_other_for_ever() {
    let device = Gated::new(64, true);
    let cache = cache(device, 1 << 20, 4);
    for round in 0..50 {
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            for direction in 0..2 {
                let (cache, barrier) = (&cache, &barrier);
                scope.spawn(move || {
                    let mut pieces: Vec<Piece> = (0..32).map(|index| piece(index + round % 2)).collect();
                    if direction == 1 {
                        pieces.reverse();
                    }
                    let requests: Vec<_> =
                        pieces.iter().map(|piece| (std::slice::from_ref(piece), Unverified)).collect();
                    barrier.wait();
                    for (result, piece) in cache.read_many(&requests).iter().zip(&pieces) {
                        assert_eq!(result.as_ref().unwrap().offset_bytes(), piece.offset_bytes);
                    }
                });
            }
        });
        cache.clear();
        assert_eq!(cache.counters().resident_bytes, 0);
    }
}

/// Invariants 1 and 2 with threads: the budget holds to the byte while nothing is held over long.
#[test]
fn the_budget_holds_with_threads() {
    let budget = 256 << 10;
    let cache = cache(Gated::new(1024, true), budget, 8);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let cache = &cache;
            scope.spawn(move || {
                for round in 0..4000_u64 {
                    let block = (round * 37 + thread * 501) % 1024;
                    let first = piece(block);
                    let buffer = cache.read(&[first], &Unverified).unwrap();
                    assert!(buffer.iter().all(|byte| *byte == block as u8));
                }
            });
        }
    });
    let counters = cache.counters();
    assert!(counters.peak_bytes <= budget, "{counters:?}");
    assert!(counters.mapped_bytes <= budget * 2, "{counters:?}");
    assert_eq!(counters.hits + counters.joined + counters.misses, 16_000);
}

/// Invariant 8: pieces of memory that no buffer fits into do not add up.
#[test]
fn mapped_memory_stays_near_the_budget() {
    let budget = 4 << 20;
    let cache = cache(Gated::new(16_384, true), budget, 4);
    let read = |first: u64, blocks: u32| {
        let piece = Piece { length_bytes: blocks * BLOCK, ..piece(first) };
        cache.read(&[piece], &Unverified).unwrap()
    };
    let mut most_mapped = 0;
    for (blocks, first) in [(4, 0), (1, 4096), (16, 0), (2, 8192), (1, 0), (16, 8192)] {
        for step in 0..4096 / u64::from(blocks) {
            read(first + step * u64::from(blocks), blocks);
            // Every tenth is used again and stays, so that what is free lies scattered.
            if step % 10 == 0 && step > 200 {
                read(first + (step - 200) * u64::from(blocks), blocks);
            }
            most_mapped = most_mapped.max(cache.counters().mapped_bytes);
        }
    }
    let chunk_bytes = 64 << 10;
    assert!(most_mapped <= budget + budget / 8 + 6 * chunk_bytes, "{most_mapped}");
    assert!(cache.counters().peak_bytes <= budget);
}

struct Counting<'a>(&'a AtomicU64);

impl BufferVerifier for Counting<'_> {
    type Error = ();

    fn kind(&self) -> u16 {
        5
    }

    fn verify(&self, bytes: &[u8], _: u64) -> Result<(), ()> {
        self.0.fetch_add(1, SeqCst);
        std::thread::yield_now();
        (bytes[0] == bytes[4095]).then_some(()).ok_or(())
    }
}

/// Invariant 5 with threads.
#[test]
fn threads_verify_a_buffer_once() {
    let cache = cache(Gated::new(64, true), 1 << 20, 1);
    let runs = AtomicU64::new(0);
    let barrier = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for block in 0..64 {
                    barrier.wait();
                    cache.read(&[piece(block)], &Counting(&runs)).unwrap();
                }
            });
        }
    });
    assert_eq!(runs.load(SeqCst), 64);
}

/// Invariant 4: a verifier that panics leaves no buffer that others would wait for.
#[test]
fn a_panic_leaves_the_cache_usable() {
    struct Panics;
    impl BufferVerifier for Panics {
        type Error = ();

        fn kind(&self) -> u16 {
            6
        }

        fn verify(&self, _: &[u8], _: u64) -> Result<(), ()> {
            panic!("a verifier's own bug")
        }
    }
    let cache = cache(Gated::new(8, true), 1 << 20, 1);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = cache.read(&[piece(1)], &Panics);
    }));
    assert!(panicked.is_err());
    assert_eq!(cache.read(&[piece(1)], &Unverified).unwrap()[0], 1);
}

/// Invariant 7: a hot set that fits survives a scan of a hundred times the budget.
#[test]
fn scans_do_not_displace_what_is_used() {
    let cache = cache(Gated::new(8192, true), 1 << 20, 1);
    let hot: Vec<Piece> = (0..100).map(piece).collect();
    let read = |piece: &Piece| drop(cache.read(&[*piece], &Unverified).unwrap());
    let mut hot_misses = 0;
    for block in 100..8192 {
        // Inode clusters: a burst of uses, then never again.
        (0..8).for_each(|_| read(&piece(block)));
        let before = cache.counters().misses;
        read(&hot[block as usize % hot.len()]);
        hot_misses += cache.counters().misses - before;
    }
    assert!(hot_misses < 250, "each hot buffer is read once or twice: {hot_misses}");
}

#[test]
fn prefetched_buffers_are_used_or_wasted() {
    let cache = cache(Gated::new(512, true), 1 << 20, 1);
    let pieces: Vec<Piece> = (0..20).map(piece).collect();
    cache.prefetch(pieces.iter().map(std::slice::from_ref));
    cache.prefetch(pieces.iter().map(std::slice::from_ref));
    let beyond = [Piece { offset_bytes: u64::MAX - 7, length_bytes: 512 }, piece(5000)];
    cache.prefetch(beyond.iter().map(std::slice::from_ref));
    let counters = cache.counters();
    assert_eq!((counters.prefetched, counters.batches, counters.misses), (20, 1, 0));
    for piece in &pieces[..15] {
        cache.read(&[*piece], &Unverified).unwrap();
        cache.read(&[*piece], &Unverified).unwrap();
    }
    cache.clear();
    let counters = cache.counters();
    assert_eq!((counters.prefetch_used, counters.prefetch_wasted, counters.hits), (15, 5, 30));
}

#[test]
fn prefetching_takes_no_more_than_probation_holds() {
    let cache = cache(Gated::new(512, true), 1 << 20, 1);
    let pieces: Vec<Piece> = (0..512).map(piece).collect();
    cache.prefetch(pieces.iter().map(std::slice::from_ref));
    let counters = cache.counters();
    assert!((20..=26).contains(&counters.prefetched), "{counters:?}");
    assert!(counters.resident_bytes <= (1 << 20) / 10);
}

#[test]
fn a_smaller_budget_takes_effect_at_once() {
    let cache = cache(Gated::new(512, true), 1 << 20, 4);
    for block in 0..200 {
        cache.read(&[piece(block)], &Unverified).unwrap();
    }
    let held = cache.read(&[piece(7)], &Unverified).unwrap();
    cache.set_budget(64 << 10);
    assert!(cache.counters().resident_bytes <= 64 << 10);
    cache.shrink_to(0);
    assert_eq!((cache.counters().resident_buffers, held[0]), (1, 7));
    drop(held);
    cache.clear();
    let counters = cache.counters();
    assert_eq!((counters.resident_bytes, counters.mapped_bytes, counters.budget_bytes), (0, 0, 64 << 10));
}

/// A batch that fails as a whole is read one by one.
#[test]
fn one_bad_buffer_does_not_spoil_a_batch() {
    #[derive(Debug)]
    struct BadSpot(MemoryDevice);
    impl DeviceWrapper for BadSpot {
        type Inner = MemoryDevice;

        fn inner(&self) -> &MemoryDevice {
            &self.0
        }

        fn before_read(&self, segments: &[ReadSegment<'_>]) -> Result<(), DeviceError> {
            let bad_bytes = 4 * u64::from(BLOCK);
            if segments.iter().any(|segment| segment.offset_bytes == bad_bytes) {
                return Err(DeviceError::outside(DeviceOperation::Read, bad_bytes, 0));
            }
            Ok(())
        }
    }
    let device = BadSpot(MemoryDevice::new(vec![1; 8 * BLOCK as usize]));
    let cache = cache(Arc::new(device), 1 << 20, 1);
    let pieces: Vec<Piece> = (0..8).map(piece).collect();
    let requests: Vec<_> = pieces.iter().map(|piece| (std::slice::from_ref(piece), Unverified)).collect();
    let are_good: Vec<_> = cache.read_many(&requests).iter().map(Result::is_ok).collect();
    assert_eq!(are_good, [true, true, true, true, false, true, true, true]);
}

#[test]
fn a_background_thread_reads_ahead() {
    let device = Gated::new(512, true);
    let cache = Arc::new(cache(device, 1 << 20, 4));
    let prefetcher = prefetcher::Prefetcher::start(cache.clone(), 2).unwrap();
    for window in 0..4 {
        prefetcher.request((window * 8..window * 8 + 8).map(piece).collect());
    }
    while cache.counters().prefetched < 32 {
        std::thread::yield_now();
    }
    for block in 0..32 {
        assert_eq!(u64::from(cache.read(&[piece(block)], &Unverified).unwrap()[0]), block);
    }
    assert_eq!(cache.counters().misses, 0);
    drop(prefetcher);
    assert_eq!(Arc::strong_count(&cache), 1);
}

/// Invariants 1 and 2 of the prefetcher, with a device that does not answer for a while.
#[test]
fn asking_to_read_ahead_does_not_wait() {
    let device = Gated::new(512, false);
    let cache = Arc::new(cache(device.clone(), 1 << 20, 4));
    let prefetcher = prefetcher::Prefetcher::start(cache.clone(), 1).unwrap();
    (0..100).for_each(|window| prefetcher.request(vec![piece(window)]));
    device.open();
    assert_eq!(cache.read(&[piece(99)], &Unverified).unwrap()[0], 99);
    drop(prefetcher);
    assert!(cache.counters().prefetched <= 34);
}

/// Any order of lookups, batches, prefetches and forgetting gives the device's bytes within the budget.
mod model {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Read(Vec<u64>),
        ReadMany(Vec<u64>),
        Prefetch(Vec<u64>),
        Hold(u64),
        Release,
        Forget(u64),
        Budget(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let block = 0..64_u64;
        let blocks = prop::collection::vec(block.clone(), 1..12);
        prop::collection::vec(
            prop_oneof![
                6 => prop::collection::vec(block.clone(), 1..4).prop_map(Step::Read),
                3 => blocks.clone().prop_map(Step::ReadMany),
                2 => blocks.prop_map(Step::Prefetch),
                2 => block.clone().prop_map(Step::Hold),
                1 => Just(Step::Release),
                1 => block.prop_map(Step::Forget),
                1 => (4..40_u64).prop_map(Step::Budget),
            ],
            1..120,
        )
    }

    fn check(buffer: &Buffer, blocks: &[u64]) {
        for (bytes, block) in buffer.chunks(BLOCK as usize).zip(blocks) {
            assert!(bytes.iter().all(|byte| u64::from(*byte) == *block));
        }
        assert_eq!(buffer.len(), blocks.len() * BLOCK as usize);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn the_cache_gives_the_bytes_of_the_device(steps in steps(), shards in 1..4_usize) {
            let mut budget_bytes = 20 * 4352;
            let cache = cache(Gated::new(64, true), budget_bytes, shards);
            let (mut held, mut most_held) = (Vec::new(), 0);
            for step in steps {
                match step {
                    Step::Read(blocks) => {
                        let pieces: Vec<Piece> = blocks.iter().copied().map(piece).collect();
                        check(&cache.read(&pieces, &Unverified).unwrap(), &blocks);
                    }
                    Step::ReadMany(blocks) => {
                        let pieces: Vec<Piece> = blocks.iter().copied().map(piece).collect();
                        let requests: Vec<_> = pieces.chunks(1).map(|piece| (piece, Unverified)).collect();
                        for (result, block) in cache.read_many(&requests).iter().zip(&blocks) {
                            check(result.as_ref().unwrap(), &[*block]);
                        }
                    }
                    Step::Prefetch(blocks) => {
                        let pieces: Vec<Piece> = blocks.iter().copied().map(piece).collect();
                        cache.prefetch(pieces.chunks(1));
                    }
                    Step::Hold(block) => held.push((block, cache.read(&[piece(block)], &Unverified).unwrap())),
                    Step::Release => held.clear(),
                    Step::Forget(block) => cache.forget(&[piece(block)]),
                    Step::Budget(buffers) => {
                        budget_bytes = buffers * 4352;
                        cache.set_budget(budget_bytes);
                    }
                }
                held.iter().for_each(|(block, buffer)| check(buffer, &[*block]));
                // What one step held at once comes on top of what is held for longer; what callers let go stays until
                // room is needed.
                most_held = held.len().max(most_held);
                let held_bytes = (most_held as u64 + 12) * 4352;
                prop_assert!(cache.counters().resident_bytes <= budget_bytes.max(held_bytes));
            }
            held.clear();
            cache.clear();
            prop_assert_eq!(cache.counters().resident_bytes, 0);
            prop_assert_eq!(cache.counters().mapped_bytes, 0);
        }
    }
}
