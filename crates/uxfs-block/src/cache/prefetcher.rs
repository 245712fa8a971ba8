//! Reading ahead in the background, so that waiting for the device and working on what it gave go on at once.
//!
//! Invariants, cited by the tests:
//! 1. Handing a list over never waits: where too many lists wait, the oldest is dropped. Readahead is only advice.
//! 2. Dropping the prefetcher ends its threads; they finish the batch they are reading.

use std::{collections::VecDeque, fmt, io, sync::Arc, thread::JoinHandle};

use parking_lot::{Condvar, Mutex};

use super::{Cache, Piece};

/// Lists that wait at most.
const MAX_WAITING: usize = 32;

/// Threads that bring buffers into a cache.
pub struct Prefetcher {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    cache: Arc<Cache>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Vec<Piece>>,
    is_stopping: bool,
}

impl Prefetcher {
    /// Starts `threads` threads for `cache`.
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn start(cache: Arc<Cache>, threads: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared { cache, queue: Mutex::default(), changed: Condvar::new() });
        let mut prefetcher = Self { shared: Arc::clone(&shared), threads: Vec::with_capacity(threads) };
        for _ in 0..threads {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new().name("uxfs-prefetch".to_owned());
            prefetcher.threads.push(builder.spawn(move || shared.run())?);
        }
        Ok(prefetcher)
    }

    /// Asks for buffers of one piece each, which will be wanted soon. Returns at once (invariant 1).
    pub fn request(&self, pieces: Vec<Piece>) {
        let mut queue = self.shared.queue.lock();
        if queue.waiting.len() == MAX_WAITING {
            queue.waiting.pop_front();
        }
        queue.waiting.push_back(pieces);
        drop(queue);
        self.shared.changed.notify_one();
    }
}

impl Drop for Prefetcher {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        queue.is_stopping = true;
        queue.waiting.clear();
        drop(queue);
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic in there has been reported by its thread; what was not read ahead is read when it is wanted.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Prefetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prefetcher").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl Shared {
    fn run(&self) {
        while let Some(pieces) = self.next() {
            self.cache.prefetch(pieces.iter().map(std::slice::from_ref));
        }
    }

    fn next(&self) -> Option<Vec<Piece>> {
        let mut queue = self.queue.lock();
        loop {
            if queue.is_stopping {
                return None;
            }
            if let Some(pieces) = queue.waiting.pop_front() {
                return Some(pieces);
            }
            self.changed.wait(&mut queue);
        }
    }
}
