//! The thread that writes checkpoints while others go on.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire, Ordering::Release},
    },
    thread::JoinHandle,
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
        let thread = std::thread::Builder::new().name("uxfs-journal".into());
        let thread = thread.spawn(move || run(&of_thread, &weak)).map_err(|_| OperationError::NoThread)?;
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

fn run(shared: &Shared, engine: &Weak<LoggedEngine>) {
    loop {
        {
            let mut lock = shared.lock.lock();
            while !shared.is_wanted.load(Acquire) && !shared.is_ended.load(Acquire) {
                shared.wake.wait(&mut lock);
            }
        }
        if shared.is_ended.load(Acquire) {
            return;
        }
        let Some(engine) = engine.upgrade() else { return };
        shared.is_wanted.store(false, Release);
        // After an error the journal is shut down: the next operation that changes something reports it.
        if let Err(error) = engine.upkeep() {
            engine.journal().shut_down(&error);
            return;
        }
    }
}
