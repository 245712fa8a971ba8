//! The thread that writes checkpoints while transactions go on, and when the checkpoint timer expires.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire, Ordering::Release},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use super::LoggedEngine;
use uxfs_volume::error::{OperationError, Result};

#[derive(Debug, Default)]
struct Shared {
    is_wanted: AtomicBool,
    is_ended: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

/// The thread; it ends when this is dropped, or before.
#[derive(Debug)]
pub(super) struct Background {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Background {
    /// Starts the thread. It does not keep the engine alive.
    pub fn start(engine: &Arc<LoggedEngine>) -> Result<()> {
        let (shared, weak) = (Arc::<Shared>::default(), Arc::downgrade(engine));
        let of_thread = Arc::clone(&shared);
        let timer = Timer::new(engine.options().log.checkpoint_interval);
        let thread = std::thread::Builder::new().name("uxfs-journal".into());
        let thread =
            thread.spawn(move || run(&of_thread, &weak, timer)).map_err(|_| OperationError::NoThread)?;
        let _ = engine.background.set(Self { shared, thread: Mutex::new(Some(thread)) });
        Ok(())
    }

    /// Whether it still does what it is asked for.
    pub fn is_running(&self) -> bool {
        !self.shared.is_ended.load(Acquire)
    }

    /// Tells it that there is something to do. Costs nothing where that has been said already.
    pub fn wake(&self) {
        if !self.shared.is_wanted.load(Acquire) && !self.shared.is_wanted.swap(true, AcqRel) {
            let _lock = self.shared.lock.lock();
            self.shared.wake.notify_one();
        }
    }

    /// Ends it, after what it is doing.
    pub fn stop(&self) {
        self.shared.is_ended.store(true, Release);
        {
            let _lock = self.shared.lock.lock();
            self.shared.wake.notify_one();
        }
        // The last reference may be given up by the thread itself.
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The checkpoint timer: when uncommitted changes are written without a request.
///
/// A change right after one expiry is written at the next. So no change waits for longer than the interval, and no
/// transaction has to note the time.
#[derive(Debug)]
struct Timer {
    interval: Option<Duration>,
    /// When it expires; `None` for never.
    expiry: Option<Instant>,
}

impl Timer {
    fn new(interval: Option<Duration>) -> Self {
        let interval = interval.filter(|interval| !interval.is_zero());
        let mut timer = Self { interval, expiry: None };
        timer.restart();
        timer
    }

    fn restart(&mut self) {
        self.expiry = self.interval.and_then(|interval| Instant::now().checked_add(interval));
    }

    fn has_expired(&self) -> bool {
        self.expiry.is_some_and(|expiry| Instant::now() >= expiry)
    }

    /// Waits until the thread is woken or the timer expires.
    fn wait(&self, shared: &Shared) {
        let mut lock = shared.lock.lock();
        while !shared.is_wanted.load(Acquire) && !shared.is_ended.load(Acquire) && !self.has_expired() {
            match self.expiry {
                Some(expiry) => drop(shared.wake.wait_until(&mut lock, expiry)),
                None => shared.wake.wait(&mut lock),
            }
        }
    }
}

fn run(shared: &Shared, engine: &Weak<LoggedEngine>, mut timer: Timer) {
    loop {
        timer.wait(shared);
        if shared.is_ended.load(Acquire) {
            return;
        }
        let Some(engine) = engine.upgrade() else { return };
        let is_wanted = shared.is_wanted.swap(false, AcqRel);
        // After an error the journal is shut down: the next operation that changes something reports it.
        if let Err(error) = work(&engine, &mut timer, is_wanted) {
            engine.journal().shut_down(&error);
            return;
        }
    }
}

fn work(engine: &LoggedEngine, timer: &mut Timer, is_wanted: bool) -> Result<()> {
    if timer.has_expired() {
        timer.restart();
        engine.write_uncommitted()?;
    }
    if is_wanted { engine.upkeep() } else { Ok(()) }
}
