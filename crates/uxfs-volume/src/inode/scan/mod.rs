//! Every inode in use, from many threads.
//!
//! The inode indexes say where inodes lie; their chunks are read in large pieces straight into each thread's own
//! memory, past the cache, and every inode is verified in full. The thread that walks the index of a group hands
//! batches of chunks to idle threads, and works on them itself when none is idle, so that one large group keeps all
//! threads busy and memory stays bounded. Where reading a batch takes longer than verifying it, further threads help, so that
//! several reads are under way while others are verified.
//!
//! Damage does not stop a scan: a damaged inode, an unreadable batch or a damaged index is an event like any other. Only where
//! far more groups are damaged than sound the rest is left out: see [`DamageLimit`](crate::allocation_group::damage_limit).

mod batch;
mod queue;

use std::{num::NonZeroUsize, ops::ControlFlow};

use uxfs_format::{
    fault::Fault,
    inode::InodeCore,
    units::{AgInode, AgNumber, InodeNumber},
};

use crate::{error::Error, volume::Volume};
use batch::Scratch;
use queue::Queue;

/// How to scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanOptions {
    /// Threads that read and verify, the caller's among them.
    pub threads: NonZeroUsize,
    /// Further threads, which help where reading takes longer than verifying: while some wait for the device, others work.
    pub helpers: usize,
}

/// Requests that a device which is slow mostly works on at once.
const HELPERS: usize = 8;

impl Default for ScanOptions {
    /// As many threads as the machine runs at once, and some that wait for a slow device.
    fn default() -> Self {
        Self { threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN), helpers: HELPERS }
    }
}

impl ScanOptions {
    /// One thread alone, which sees the inodes in order.
    pub fn in_order() -> Self {
        Self { threads: NonZeroUsize::MIN, helpers: 0 }
    }
}

/// An inode that the index says is in use, as it lies on disk.
#[derive(Debug, Clone, Copy)]
pub struct ScannedInode<'a> {
    /// Its number.
    pub number: InodeNumber,
    /// Core and forks.
    pub bytes: &'a [u8],
    /// The core of an inode that passed the verifier, or the fault.
    pub core: Result<&'a InodeCore, Fault>,
}

/// An event of a scan.
#[derive(Debug)]
pub enum ScanEvent<'a> {
    /// An inode, sound or damaged.
    Inode(ScannedInode<'a>),
    /// Some chunks could not be read.
    UnreadableChunks {
        /// Their group.
        group: AgNumber,
        /// First inode of the first chunk.
        first: AgInode,
        /// Inodes in use that were not seen.
        inode_count: u64,
        /// Why.
        error: Error,
    },
    /// The inode index of a group is damaged or unreadable: inodes behind that place were not seen.
    UnreadableIndex {
        /// The group.
        group: AgNumber,
        /// Why.
        error: Error,
    },
}

/// Counts of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScanSummary {
    /// Inodes in use that passed the verifier.
    pub inodes: u64,
    /// Inodes in use that did not.
    pub damaged_inodes: u64,
    /// Inodes in use that could not be read.
    pub unread_inodes: u64,
    /// Groups whose index could not be followed to its end.
    pub damaged_indexes: u32,
    /// Groups that were not looked at, since so many others were damaged that the number of groups must be wrong.
    pub unseen_groups: u32,
    /// Chunks looked at.
    pub chunks: u64,
    /// Bytes read for chunks.
    pub bytes_read: u64,
}

impl ScanSummary {
    fn add(&mut self, other: &Self) {
        self.inodes += other.inodes;
        self.damaged_inodes += other.damaged_inodes;
        self.unread_inodes += other.unread_inodes;
        self.damaged_indexes += other.damaged_indexes;
        self.chunks += other.chunks;
        self.bytes_read += other.bytes_read;
    }

    /// Whether everything was there and sound.
    pub fn is_clean(&self) -> bool {
        self.damaged_inodes == 0
            && self.unread_inodes == 0
            && self.damaged_indexes == 0
            && self.unseen_groups == 0
    }
}

impl Volume {
    /// Visits every inode in use, internal ones included, in no particular order. Each thread has a state of its own,
    /// made by `make_state`, so that visitors need no locks; all states come back. A visitor that breaks ends the
    /// scan soon, not at once: other threads finish the inode at hand.
    pub fn scan_inodes<S, M, V>(
        &self,
        options: &ScanOptions,
        make_state: M,
        visit: V,
    ) -> (ScanSummary, Vec<S>)
    where
        S: Send,
        M: Fn() -> S + Sync,
        V: Fn(&mut S, ScanEvent<'_>) -> ControlFlow<()> + Sync,
    {
        let queue = Queue::new(self.geometry().ag_count);
        let work = || {
            let mut state = make_state();
            let mut worker = Worker { volume: self, queue: &queue, summary: ScanSummary::default() };
            worker.run(&mut |event| visit(&mut state, event));
            (worker.summary, state)
        };
        let help = || queue.wait_until_slow().then(work);
        let results = std::thread::scope(|scope| {
            // Where no more threads can be started, those that run do the work.
            let thread = || std::thread::Builder::new().name("uxfs-scan".to_owned());
            let workers =
                (1..options.threads.get()).map_while(|_| thread().spawn_scoped(scope, || Some(work())).ok());
            let mut others: Vec<_> = workers.collect();
            others.extend((0..options.helpers).map_while(|_| thread().spawn_scoped(scope, help).ok()));
            let mut results = vec![work()];
            for other in others {
                match other.join() {
                    Ok(result) => results.extend(result),
                    // A visitor's panic is its caller's.
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            results
        });
        let mut summary = ScanSummary::default();
        results.iter().for_each(|(part, _)| summary.add(part));
        summary.unseen_groups = queue.unseen_groups();
        (summary, results.into_iter().map(|(_, state)| state).collect())
    }
}

/// One thread of a scan.
struct Worker<'a> {
    volume: &'a Volume,
    queue: &'a Queue,
    summary: ScanSummary,
}

/// Where events go.
type Visit<'a> = dyn FnMut(ScanEvent<'_>) -> ControlFlow<()> + 'a;

impl Worker<'_> {
    fn run(&mut self, visit: &mut Visit<'_>) {
        // Also when a visitor panics the other threads must not wait for this one.
        let _guard = self.queue.stop_on_panic();
        let mut scratch = Scratch::default();
        while let Some(task) = self.queue.next_task() {
            let flow = match task {
                queue::Task::Batch(batch) => self.process(&batch, &mut scratch, visit),
                queue::Task::Group(group) => {
                    let damaged = self.summary.damaged_indexes;
                    let flow = self.walk(group, &mut scratch, visit);
                    self.queue.group_is_done(self.summary.damaged_indexes == damaged);
                    flow
                }
            };
            if flow.is_break() {
                self.queue.stop();
            }
        }
    }
}
