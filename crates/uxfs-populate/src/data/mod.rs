//! File contents on their way from the source into the image.
//!
//! One thread decides where everything lies; these threads only put bytes there, so that nothing of the image depends
//! on their number or speed. Blocks have been mapped before their bytes are written: as long as the
//! image is unfinished, no reader sees what they held before.

mod copy;
pub mod queue;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use parking_lot::Mutex;
use uxfs_block::device::BlockDevice;
use uxfs_source::{
    content::FileContent,
    error::{Problem, Reason},
};

use self::queue::{Queue, Weigh};
use crate::error::PopulateError;

/// Memory for jobs that wait.
const QUEUE_BYTES: usize = 16 << 20;
/// Small contents written in one submission.
const BATCH_BYTES: usize = 1 << 20;
/// A job that copies costs little memory itself.
const COPY_WEIGHT_BYTES: usize = 64 << 10;

/// Where a run of a file lies in the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// In the file.
    pub file_bytes: u64,
    /// On the device.
    pub device_bytes: u64,
    /// In the image: whole blocks, also where the file ends within the last.
    pub length_bytes: u64,
}

/// Bytes to be written.
#[derive(Debug)]
pub struct Job {
    /// The first run; most files have no other.
    pub first: Run,
    /// All others.
    pub more: Vec<Run>,
    /// Size of the file: behind it blocks are filled with zeros.
    pub size_bytes: u64,
    /// Where the bytes come from.
    pub content: JobContent,
}

/// Where bytes come from.
#[derive(Debug)]
pub enum JobContent {
    /// Memory: `start` is the place of its first byte in the file.
    Memory {
        /// The bytes.
        bytes: Box<[u8]>,
        /// In the file.
        start: u64,
    },
    /// A file of the host.
    File(Arc<FileContent>),
}

impl Job {
    fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        std::iter::once(self.first).chain(self.more.iter().copied())
    }
}

impl Weigh for Job {
    fn weight_bytes(&self) -> usize {
        let runs = self.more.len() * size_of::<Run>() + 256;
        runs + match &self.content {
            JobContent::Memory { bytes, .. } => bytes.len(),
            JobContent::File(_) => COPY_WEIGHT_BYTES,
        }
    }
}

/// Counters of the threads.
#[derive(Debug, Default)]
pub struct DataCounters {
    /// Written.
    pub bytes: AtomicU64,
    /// Of these, shared with the source instead of copied.
    pub shared_bytes: AtomicU64,
    /// Bytes that files no longer had when they were read: zeros in the image.
    pub missing_bytes: AtomicU64,
    /// The first of these files, with the bytes that each lacks.
    shrunk: Mutex<Vec<(Arc<FileContent>, u64)>>,
}

/// Most files that are remembered as shrunk.
const MAX_SHRUNK: usize = 1000;

impl DataCounters {
    /// Several jobs may copy parts of one file.
    fn add_shrunk(&self, content: &Arc<FileContent>, missing_bytes: u64) {
        self.missing_bytes.fetch_add(missing_bytes, Relaxed);
        let mut shrunk = self.shrunk.lock();
        if let Some((_, bytes)) = shrunk.iter_mut().find(|(known, _)| Arc::ptr_eq(known, content)) {
            *bytes += missing_bytes;
        } else if shrunk.len() < MAX_SHRUNK {
            shrunk.push((Arc::clone(content), missing_bytes));
        }
    }

    /// Files that became shorter while they were read.
    pub fn shrunk(&self) -> Vec<Problem> {
        let problem = |(content, bytes): &(Arc<FileContent>, u64)| content.problem(Reason::Shrank(*bytes));
        self.shrunk.lock().iter().map(problem).collect()
    }
}

/// Threads that write file contents.
#[derive(Debug)]
pub struct DataPool {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    device: Arc<dyn BlockDevice>,
    queue: Queue<Job>,
    counters: Arc<DataCounters>,
    /// Whether blocks can be shared with sources: cleared when the first attempt fails.
    may_share: AtomicBool,
    failed: Mutex<Option<PopulateError>>,
}

impl DataPool {
    /// Starts `threads` threads, at least one; only one where the device is a file: Linux lets one thread at a time write
    /// to a file, and the others would burn their time waiting for it.
    ///
    /// # Errors
    /// None could be started.
    pub fn start(
        device: Arc<dyn BlockDevice>,
        threads: usize,
        counters: Arc<DataCounters>,
    ) -> Result<Self, PopulateError> {
        let shared = Arc::new(Shared {
            device,
            queue: Queue::new(QUEUE_BYTES),
            counters,
            may_share: AtomicBool::new(true),
            failed: Mutex::new(None),
        });
        let mut pool = Self { shared, threads: Vec::with_capacity(threads) };
        let is_file = pool.shared.device.identity().is_some_and(|identity| identity.inode.is_some());
        let threads = if is_file { 1 } else { threads.max(1) };
        for number in 0..threads {
            let shared = Arc::clone(&pool.shared);
            let builder = thread::Builder::new().name(format!("copy-{number}"));
            match builder.spawn(move || shared.run()) {
                Ok(thread) => pool.threads.push(thread),
                Err(error) if pool.threads.is_empty() => return Err(PopulateError::Threads(error)),
                Err(_) => break,
            }
        }
        Ok(pool)
    }

    /// Hands a job over, waiting where the threads are behind.
    ///
    /// # Errors
    /// The error of a thread.
    pub fn push(&self, job: Job) -> Result<(), PopulateError> {
        if self.shared.queue.push(job) {
            return Ok(());
        }
        Err(self.failure())
    }

    /// Waits until all is written.
    ///
    /// # Errors
    /// The error of a thread.
    pub fn finish(mut self) -> Result<(), PopulateError> {
        self.shared.queue.close(true);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                return Err(PopulateError::Threads(std::io::Error::other("a copying thread panicked")));
            }
        }
        match self.shared.failed.lock().take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn failure(&self) -> PopulateError {
        let stopped = || PopulateError::Threads(std::io::Error::other("the copying threads have stopped"));
        self.shared.failed.lock().take().unwrap_or_else(stopped)
    }
}

impl Drop for DataPool {
    fn drop(&mut self) {
        self.shared.queue.close(false);
        for thread in self.threads.drain(..) {
            // The thread has reported its panic itself.
            drop(thread.join());
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut copier = copy::Copier::new(self);
        let mut batch = Vec::new();
        while self.queue.take(BATCH_BYTES, &mut batch) {
            let result = copier.write(&batch);
            batch.clear();
            if let Err(error) = result {
                self.failed.lock().get_or_insert(error);
                self.queue.close(false);
            }
        }
    }

    fn may_share(&self) -> bool {
        self.may_share.load(Relaxed)
    }
}
