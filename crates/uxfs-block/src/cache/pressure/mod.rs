//! How much memory the cache may take, and giving it back when the system needs it.
//!
//! | module | holds |
//! |---|---|
//! | [`limits`] | what the system and the control groups of this process leave |
//! | [`stall`] | how the kernel says that programs wait for memory (PSI) |
//! | this one | the thread that shrinks a cache while memory is scarce, and its rules |
//!
//! A program calls [`watch_all_caches`] once, and all caches of the process are watched that were registered or will be: a command
//! need not know which caches the work that it starts will open. A library that wants to decide for each cache starts a
//! [`PressureWatch`]. Without either the budget stands as it was given.

pub mod limits;
pub mod stall;

use std::{
    fmt, io,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use parking_lot::Mutex;

pub use self::limits::default_budget_bytes;
use self::{
    limits::{OpenSystem, System},
    stall::StallSource,
};
use super::Cache;

/// Longest time between two looks at the limits.
const INTERVAL: Duration = Duration::from_secs(1);
/// Calm for so long, the budget grows again by one step.
const CALM: Duration = Duration::from_secs(10);
/// The budget grows by one part in this many of the whole.
const GROWTH_STEPS: u64 = 8;
/// The budget does not shrink below one part in this many of the whole.
const FLOOR_SHARE: u64 = 16;
/// With less than this left for the process to take, memory is scarce.
const RESERVE_BYTES: u64 = 64 << 20;

/// A source of reports that memory is scarce.
pub trait PressureSource: Send {
    /// Becomes ready, as [`readiness`](Self::readiness) says, when there may be news; without one it is asked every
    /// second.
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>>;

    /// The poll event that reports news. A pressure file of the kernel reports by `POLLPRI` only: it is always readable, so
    /// waiting for readability would never sleep.
    fn readiness(&self) -> PollFlags {
        PollFlags::PRI
    }

    /// Whether programs have waited for memory since the last time, `elapsed` ago. `has_news` says that the descriptor
    /// became ready.
    fn has_stalled(&mut self, has_news: bool, elapsed: Duration) -> bool;

    /// Bytes that this process may still take; none where nothing limits it.
    fn headroom_bytes(&mut self) -> Option<u64>;
}

/// The system's own source: PSI and control groups.
#[derive(Debug)]
struct SystemSource {
    system: OpenSystem,
    stall: StallSource,
}

impl SystemSource {
    fn open() -> Self {
        let system = System::default();
        let stall = StallSource::open(&system.stall_files());
        Self { system: system.open(), stall }
    }
}

impl PressureSource for SystemSource {
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.stall.descriptor()
    }

    fn has_stalled(&mut self, has_news: bool, elapsed: Duration) -> bool {
        self.stall.has_stalled(has_news, elapsed)
    }

    fn headroom_bytes(&mut self) -> Option<u64> {
        self.system.available_bytes()
    }
}

/// The rules: how the budget follows pressure. Pure, so that they can be tested.
#[derive(Debug)]
struct Governor {
    whole_bytes: u64,
    budget_bytes: u64,
    calm_since: Duration,
}

impl Governor {
    fn new(whole_bytes: u64) -> Self {
        Self { whole_bytes, budget_bytes: whole_bytes, calm_since: Duration::ZERO }
    }

    /// The new budget, where it changes.
    fn step(
        &mut self,
        now: Duration,
        has_stalled: bool,
        headroom_bytes: Option<u64>,
        resident_bytes: u64,
    ) -> Option<u64> {
        let headroom_bytes = headroom_bytes.unwrap_or(u64::MAX);
        let step_bytes = self.whole_bytes / GROWTH_STEPS;
        let next = if has_stalled || headroom_bytes < RESERVE_BYTES {
            self.calm_since = now;
            let used = self.budget_bytes.min(resident_bytes);
            // A quarter of what is in use, or what is missing to the reserve if that is more.
            let missing = RESERVE_BYTES.saturating_sub(headroom_bytes);
            let shrunk = used.saturating_sub(missing.max(used / 4));
            shrunk.max(self.whole_bytes / FLOOR_SHARE).min(self.budget_bytes)
        } else if now.saturating_sub(self.calm_since) >= CALM
            && headroom_bytes >= RESERVE_BYTES.saturating_add(step_bytes.saturating_mul(2))
        {
            self.calm_since = now;
            self.budget_bytes.saturating_add(step_bytes).min(self.whole_bytes)
        } else {
            self.budget_bytes
        };
        let has_changed = next != self.budget_bytes;
        self.budget_bytes = next;
        has_changed.then_some(next)
    }
}

/// A thread that shrinks a cache while memory is scarce, and lets it grow again. Stopped when dropped.
pub struct PressureWatch {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl PressureWatch {
    /// Watches the system's pressure and this process's control groups.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(cache: &Arc<Cache>) -> io::Result<Self> {
        Self::with_source(cache, SystemSource::open())
    }

    /// Watches another source.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn with_source(cache: &Arc<Cache>, source: impl PressureSource + 'static) -> io::Result<Self> {
        Self::start_with(Registry::of(cache), source)
    }

    fn start_with(
        registry: impl AsRef<Registry> + Send + 'static,
        source: impl PressureSource + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("uxfs-pressure".to_owned())
            .spawn(move || watch(registry.as_ref(), source, &seen))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for PressureWatch {
    fn drop(&mut self) {
        // An event counter takes a write unless it is about to overflow.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A panic in there has been reported by its thread; the cache works on with the budget it has.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for PressureWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PressureWatch").finish_non_exhaustive()
    }
}

/// Caches that a thread is to watch.
#[derive(Debug, Default)]
struct Registry(Mutex<Vec<Weak<Cache>>>);

/// All caches of the process that were registered.
static ALL: Registry = Registry(Mutex::new(Vec::new()));
/// Held for ever by the thread that watches them.
static WATCHER: Mutex<Option<PressureWatch>> = Mutex::new(None);
/// Opened before the thread starts.
static PREPARED: Mutex<Option<SystemSource>> = Mutex::new(None);

impl AsRef<Self> for Registry {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Registry {
    fn of(cache: &Arc<Cache>) -> Self {
        Self(Mutex::new(vec![Arc::downgrade(cache)]))
    }

    fn add(&self, cache: &Arc<Cache>) {
        let mut caches = self.0.lock();
        caches.retain(|cache| cache.strong_count() > 0);
        caches.push(Arc::downgrade(cache));
    }

    /// Takes the caches that came since the last time.
    fn take_new(&self) -> Vec<Weak<Cache>> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// Has a cache watched as soon as [`watch_all_caches`] is called, or at once if that has been done.
pub fn register(cache: &Arc<Cache>) {
    ALL.add(cache);
}

/// Opens what [`watch_all_caches`] watches: a process that is to be confined can open nothing later, and starts no thread before.
pub fn prepare_to_watch() {
    *PREPARED.lock() = Some(SystemSource::open());
}

/// Starts the thread that watches all caches of the process, unless it runs already.
///
/// # Errors
/// The thread could not be started.
pub fn watch_all_caches() -> io::Result<()> {
    let mut watcher = WATCHER.lock();
    if watcher.is_none() {
        let source = PREPARED.lock().take().unwrap_or_else(SystemSource::open);
        *watcher = Some(PressureWatch::start_with(&ALL, source)?);
    }
    Ok(())
}

/// A cache with the rules for its budget. The cache may be gone.
#[derive(Debug)]
struct Governed {
    cache: Weak<Cache>,
    governor: Governor,
}

impl Governed {
    fn new(cache: Weak<Cache>) -> Option<Self> {
        let whole_bytes = cache.upgrade()?.counters().budget_bytes;
        Some(Self { cache, governor: Governor::new(whole_bytes) })
    }
}

fn watch(registry: &Registry, mut source: impl PressureSource, stop: &OwnedFd) {
    let mut governed: Vec<Governed> = Vec::new();
    let begin = Instant::now();
    let mut last = begin;
    loop {
        let Some(has_news) = wait(&source, stop) else { return };
        let elapsed = last.elapsed();
        last = Instant::now();
        governed.retain(|governed| governed.cache.strong_count() > 0);
        governed.extend(registry.take_new().into_iter().filter_map(Governed::new));
        let has_stalled = source.has_stalled(has_news, elapsed);
        let headroom_bytes = source.headroom_bytes();
        for Governed { cache, governor } in &mut governed {
            let Some(cache) = cache.upgrade() else { continue };
            let resident_bytes = cache.counters().resident_bytes;
            if let Some(budget) = governor.step(begin.elapsed(), has_stalled, headroom_bytes, resident_bytes)
            {
                cache.set_budget(budget);
            }
        }
    }
}

/// Waits for news or the interval; `None` when it is time to stop.
fn wait(source: &impl PressureSource, stop: &OwnedFd) -> Option<bool> {
    let interval = Timespec { tv_sec: INTERVAL.as_secs() as i64, tv_nsec: 0 };
    let mut waited = vec![PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN)];
    if let Some(descriptor) = source.descriptor() {
        waited.push(PollFd::from_borrowed_fd(descriptor, source.readiness()));
    }
    let mut has_news = poll(&mut waited, Some(&interval)).is_ok()
        && waited.get(1).is_some_and(|news| news.revents().intersects(source.readiness()));
    if waited.get(1).is_some_and(|news| news.revents().contains(PollFlags::ERR)) {
        // Its control group is gone: this descriptor will be ready for ever.
        has_news = false;
        waited.truncate(1);
        let _ = poll(&mut waited, Some(&interval));
    }
    waited[0].revents().is_empty().then_some(has_news)
}

#[cfg(test)]
#[path = "pressure_tests.rs"]
mod tests;
