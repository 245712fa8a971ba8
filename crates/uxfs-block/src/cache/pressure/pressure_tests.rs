use std::{
    os::fd::BorrowedFd,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};

use super::{super::*, *};
use crate::engine::memory::MemoryDevice;

const MIB: u64 = 1 << 20;

#[test]
fn the_budget_shrinks_under_pressure_and_recovers() {
    let mut governor = Governor::new(256 * MIB);
    let at = Duration::from_secs;
    assert_eq!(governor.step(at(1), false, None, 200 * MIB), None);
    assert_eq!(governor.step(at(2), true, None, 200 * MIB), Some(150 * MIB), "a quarter of what is in use");
    assert_eq!(governor.step(at(3), false, Some(60 * MIB), 150 * MIB), Some(112 * MIB + MIB / 2));
    assert_eq!(governor.step(at(4), false, Some(0), 100 * MIB), Some(36 * MIB), "what is missing");
    assert_eq!(governor.step(at(5), true, Some(0), 36 * MIB), Some(16 * MIB), "not below the floor");
    assert_eq!(governor.step(at(6), true, Some(0), 16 * MIB), None);
    assert_eq!(governor.step(at(15), false, None, 16 * MIB), None, "not calm for long enough");
    assert_eq!(governor.step(at(16), false, Some(100 * MIB), 16 * MIB), None, "no room to grow");
    for step in 1..8 {
        assert_eq!(governor.step(at(16 + step * 10), false, None, 16 * MIB), Some((16 + 32 * step) * MIB));
    }
    assert_eq!(governor.step(at(1000), false, None, 16 * MIB), Some(256 * MIB));
    assert_eq!(governor.step(at(2000), false, None, 16 * MIB), None);
}

/// A source that a test drives.
struct Injected {
    news: Arc<OwnedFd>,
    has_stalled: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
}

impl PressureSource for Injected {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.news.as_fd())
    }

    fn readiness(&self) -> PollFlags {
        PollFlags::IN
    }

    fn has_stalled(&mut self, has_news: bool, _: Duration) -> bool {
        if has_news {
            let mut count = [0; 8];
            rustix::io::read(&*self.news, &mut count).unwrap();
        }
        self.asked.fetch_add(1, SeqCst);
        has_news && self.has_stalled.swap(false, SeqCst)
    }

    fn headroom_bytes(&mut self) -> Option<u64> {
        None
    }
}

#[test]
fn a_watched_cache_shrinks_when_told() {
    let device = Arc::new(MemoryDevice::new(vec![0; 4 << 20]));
    let cache = Arc::new(Cache::new(device, &CacheOptions::with_budget(2 << 20)));
    for block in 0..400 {
        let piece = Piece { offset_bytes: block * 4096, length_bytes: 4096 };
        cache.read(&[piece], &Unverified).unwrap();
    }
    let full = cache.counters().resident_bytes;
    let news = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
    let (has_stalled, asked) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
    let source = Injected { news: news.clone(), has_stalled, asked: asked.clone() };
    let watch = PressureWatch::with_source(&cache, source).unwrap();
    rustix::io::write(&*news, &1_u64.to_ne_bytes()).unwrap();
    while cache.counters().budget_bytes == 2 << 20 {
        std::thread::yield_now();
    }
    // The budget is set before the buffers go.
    while cache.counters().resident_bytes > full * 3 / 4 {
        std::thread::yield_now();
    }
    drop(watch);
    let calls = asked.load(SeqCst);
    rustix::io::write(&*news, &1_u64.to_ne_bytes()).unwrap();
    std::thread::yield_now();
    assert_eq!(asked.load(SeqCst), calls, "stopped");
    assert_eq!(Arc::strong_count(&cache), 1);
}

/// The system's source, counted.
struct Counted {
    source: SystemSource,
    asked: Arc<AtomicU64>,
}

impl PressureSource for Counted {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.source.descriptor()
    }

    fn readiness(&self) -> PollFlags {
        self.source.readiness()
    }

    fn has_stalled(&mut self, has_news: bool, elapsed: Duration) -> bool {
        self.asked.fetch_add(1, SeqCst);
        self.source.has_stalled(has_news, elapsed)
    }

    fn headroom_bytes(&mut self) -> Option<u64> {
        self.source.headroom_bytes()
    }
}

/// A pressure file can always be read. Waiting for that kept the watch awake all the time, and each turn counted as
/// a stall.
#[test]
fn the_systems_source_lets_the_watch_sleep() {
    let device = Arc::new(MemoryDevice::new(vec![0; 4096]));
    let cache = Arc::new(Cache::new(device, &CacheOptions::with_budget(1 << 20)));
    let asked = Arc::new(AtomicU64::new(0));
    let source = Counted { source: SystemSource::open(), asked: asked.clone() };
    let watch = PressureWatch::with_source(&cache, source).unwrap();
    // The trigger is set after a second.
    std::thread::sleep(Duration::from_millis(1300));
    drop(watch);
    // One turn a second, and one for a trigger that fires meanwhile; awake it would be thousands.
    assert!(asked.load(SeqCst) <= 10, "{} turns in 1300 ms", asked.load(SeqCst));
}

#[test]
fn the_systems_source_can_be_watched() {
    let device = Arc::new(MemoryDevice::new(vec![0; 4096]));
    let cache = Arc::new(Cache::new(device, &CacheOptions::with_budget(1 << 20)));
    drop(PressureWatch::start(&cache).unwrap());
}

/// The caches of a process come and go while one thread watches them.
#[test]
fn caches_that_come_later_are_watched() {
    let new_cache = || {
        let device = Arc::new(MemoryDevice::new(vec![0; 4096]));
        Arc::new(Cache::new(device, &CacheOptions::with_budget(2 << 20)))
    };
    let registry = Arc::new(Registry::default());
    let news = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
    let (has_stalled, asked) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
    let source = Injected { news: news.clone(), has_stalled: has_stalled.clone(), asked };
    let gone = new_cache();
    registry.add(&gone);
    drop(gone);
    let first = new_cache();
    registry.add(&first);
    assert_eq!(registry.0.lock().len(), 1, "a cache that is gone is forgotten");
    let watch = PressureWatch::start_with(registry.clone(), source).unwrap();
    for (cache, is_new) in [(first, false), (new_cache(), true)] {
        if is_new {
            registry.add(&cache);
        }
        has_stalled.store(true, SeqCst);
        rustix::io::write(&*news, &1_u64.to_ne_bytes()).unwrap();
        while cache.counters().budget_bytes == 2 << 20 {
            std::thread::yield_now();
        }
    }
    drop(watch);
}
