//! The buffer cache that every tool shares.
//!
//! A buffer is a run of bytes of the device, or several runs read as one, named by where it begins and how long its
//! runs are. A lookup says which structure the bytes should be; they are verified once for each structure, and the
//! cache remembers that.
//!
//! Invariants, cited by the tests:
//! 1. **Budget.** Memory of all live buffers, in the cache or only held by a caller, never exceeds the budget,
//!    except by buffers that callers hold: room is made before memory is taken. What is charged to an
//!    [`account`] takes part of the budget, up to three quarters of it; buffers always have the rest.
//! 2. **Pinned.** A buffer that a caller holds is never evicted, so one name never has two buffers in memory.
//! 3. **One read.** While one thread reads a buffer, all others that want it wait for that read.
//! 4. **Errors are not kept.** After a failed read, or one whose first verification failed, the next lookup asks the
//!    device again.
//! 5. **Verified once.** A verifier runs once for each structure and each read of a buffer, for all lookups together.
//! 6. **No lock is held** during I/O, verification, allocation of buffer memory, or while freeing it; no thread waits
//!    for another's read while others wait for its own; no thread holds two shards' locks.
//! 7. **Scans pass through.** Buffers used only once, or only in one burst, do not displace those used again later.
//! 8. **Mapped.** Memory mapped for buffers stays within an eighth and a few chunks of the budget, except by what
//!    callers hold.
//!
//! A buffer region must always be asked for under one name: overlapping buffers are separate copies.
//!
//! # Writing
//! A buffer's bytes never change once they are published; that is why reading them takes no lock. A thread that changes
//! a buffer takes its key for itself ([`Cache::edit`]) and changes bytes that no one else holds: the buffer's own, or
//! a copy where a reader or a write under way still has them. [`edit`] has the rules, [`write_back`] writes changes
//! back.

pub mod account;
pub mod batch_reader;
mod budget;
pub mod buffer;
mod counters;
pub mod edit;
mod eviction;
mod flight;
mod held;
mod key;
mod load;
pub mod logged;
pub mod logged_write_back;
pub mod prefetcher;
pub mod pressure;
mod readahead;
mod sealing;
mod shard;
pub mod write_back;

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
};

use parking_lot::Mutex;
use thiserror::Error;

use self::load::CachedBuffer;
pub use self::{
    account::{MemoryAccount, MemoryCharge},
    buffer::{Buffer, BufferVerifier, Unverified},
    counters::CacheCounters,
    edit::{BufferSealer, EditBuffer},
    key::Piece,
    readahead::{DeviceCosts, ReadStrategy},
    write_back::WriteBack,
};
use self::{
    budget::Budget,
    counters::SharedCounters,
    key::{Hasher, Key},
    readahead::Planner,
    shard::Shard,
};
use crate::{
    aligned_buffer::BufferPool,
    clock::{Clock, SystemClock},
    device::{BlockDevice, DeviceError},
    own_line::OwnLine,
};

/// Longest buffer that is accepted: several times the longest of XFS's metadata.
pub const MAX_BUFFER_BYTES: u64 = 1 << 20;

/// Default number of shards: so many that threads which work in different places seldom meet in one.
const MOST_SHARDS: usize = 1 << 10;

/// How a cache is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheOptions {
    /// Memory for buffers, with what it costs to keep each.
    pub budget_bytes: u64,
    /// Parts with a lock each; rounded up to a power of two. `None` chooses by the budget.
    pub shards: Option<usize>,
    /// Decides which shard a buffer falls into. `None` takes a random one, so that an image cannot be made to
    /// crowd one place.
    pub seed: Option<u64>,
    /// How batches are read. `None` chooses by what the device shows.
    pub strategy: Option<ReadStrategy>,
}

impl CacheOptions {
    /// With a budget, and all else chosen.
    pub fn with_budget(budget_bytes: u64) -> Self {
        Self { budget_bytes, shards: None, seed: None, strategy: None }
    }
}

/// Why a buffer could not be had.
#[derive(Debug, Error)]
pub enum ReadError<E> {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The bytes are not what the caller's verifier wants.
    #[error("{0}")]
    Verify(E),
}

/// The cache of one device. Usable from many threads through `&Cache`.
pub struct Cache {
    device: Arc<dyn BlockDevice>,
    pool: BufferPool,
    budget: Arc<Budget>,
    account: MemoryAccount,
    hasher: Hasher,
    shards: Box<[OwnLine<Shard>]>,
    counters: OwnLine<SharedCounters>,
    /// Charged for dirty buffers.
    dirty_bytes: OwnLine<AtomicU64>,
    /// Counts changes of buffers: the clock by which cold ones are told.
    changes: OwnLine<AtomicU64>,
    planner: OwnLine<Mutex<Planner>>,
    clock: Arc<dyn Clock>,
}

impl Cache {
    /// An empty cache in front of `device`.
    pub fn new(device: Arc<dyn BlockDevice>, options: &CacheOptions) -> Self {
        Self::with_clock(device, options, Arc::new(SystemClock::default()))
    }

    /// As [`new`](Self::new), with the clock by which the device is measured.
    pub fn with_clock(device: Arc<dyn BlockDevice>, options: &CacheOptions, clock: Arc<dyn Clock>) -> Self {
        let shards = options.shards.unwrap_or_else(|| {
            usize::try_from(options.budget_bytes >> 19).unwrap_or(usize::MAX).clamp(1, MOST_SHARDS)
        });
        let shards = shards.clamp(1, 1024).next_power_of_two();
        // A chunk is mapped at once: large ones need few page faults, but must stay a small part of the budget.
        let chunk_bytes = usize::try_from(options.budget_bytes / 64).unwrap_or(usize::MAX).min(2 << 20);
        let budget = Arc::new(Budget::new(options.budget_bytes));
        Self {
            pool: BufferPool::new(chunk_bytes, 512),
            device,
            account: MemoryAccount::new(&budget),
            budget,
            hasher: Hasher::new(options.seed),
            shards: (0..shards).map(|_| OwnLine::default()).collect(),
            counters: OwnLine::default(),
            dirty_bytes: OwnLine::default(),
            changes: OwnLine::default(),
            planner: OwnLine(Mutex::new(Planner::new(options.strategy))),
            clock,
        }
    }

    /// The device below.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// The buffer made of `pieces` in this order, from memory or the device, verified by `verifier`.
    ///
    /// # Errors
    /// The device failed, or the verifier did.
    pub fn read<V: BufferVerifier>(
        &self,
        pieces: &[Piece],
        verifier: &V,
    ) -> Result<Buffer, ReadError<V::Error>> {
        loop {
            match self.find_or_load(pieces)? {
                CachedBuffer::Clean(buffer) => return self.verified(buffer, pieces, verifier),
                CachedBuffer::Dirty(dirty) => {
                    if let Some(buffer) = self.snapshot(&dirty, verifier)? {
                        return Ok(buffer);
                    }
                }
            }
        }
    }

    /// Several buffers, each with its verifier. All that are not in memory are read in as few submissions as their
    /// number allows. The results are in the order of the requests.
    pub fn read_many<V: BufferVerifier>(
        &self,
        requests: &[(&[Piece], V)],
    ) -> Vec<Result<Buffer, ReadError<V::Error>>> {
        let buffers = self.find_or_load_many(requests.iter().map(|(pieces, _)| *pieces));
        let verify =
            |(found, (pieces, verifier)): (Result<CachedBuffer, DeviceError>, &(&[Piece], V))| match found? {
                CachedBuffer::Clean(buffer) => self.verified(buffer, pieces, verifier),
                CachedBuffer::Dirty(dirty) => match self.snapshot(&dirty, verifier)? {
                    Some(buffer) => Ok(buffer),
                    None => self.read(pieces, verifier),
                },
            };
        buffers.into_iter().zip(requests).map(verify).collect()
    }

    /// Forgets the buffer made of `pieces`, if it is in memory; the next lookup reads it again. Callers that hold it
    /// keep their bytes.
    pub fn forget(&self, pieces: &[Piece]) {
        let Ok(key) = Key::new(pieces, &self.hasher) else { return };
        let forgotten = self.shard(key.hash).forget(&key);
        drop(forgotten);
    }

    /// Forgets all buffers that no caller holds.
    pub fn clear(&self) {
        self.shrink_to(0);
        self.pool.trim();
    }

    /// Changes the budget, and evicts at once what no longer fits.
    pub fn set_budget(&self, budget_bytes: u64) {
        self.budget.set_limit(budget_bytes);
        self.shrink_to(self.budget.for_buffers());
        self.pool.trim();
    }

    /// The budget.
    pub fn budget_bytes(&self) -> u64 {
        self.budget.limit()
    }

    /// Evicts until buffers take at most `resident_bytes`, or all that is left is held by callers. The budget stays.
    pub fn shrink_to(&self, resident_bytes: u64) {
        for shard in 0..self.shards.len() {
            let Some(excess) = self.budget.used().checked_sub(resident_bytes).filter(|excess| *excess > 0)
            else {
                return;
            };
            let mut excess = excess;
            while excess > 0 && self.evict_from(shard, excess) {
                excess = self.budget.used().saturating_sub(resident_bytes);
            }
        }
    }

    /// The counters so far.
    pub fn counters(&self) -> CacheCounters {
        let mut sum = self.counters.read();
        for shard in &self.shards {
            shard.add_counters(&mut sum);
        }
        sum.budget_bytes = self.budget.limit();
        sum.resident_bytes = self.budget.used() + self.budget.outside();
        sum.peak_bytes = self.budget.peak();
        sum.mapped_bytes = self.pool.mapped_bytes();
        sum
    }

    /// The cost of requests and bytes on the device, once batches have shown it.
    pub fn device_costs(&self) -> Option<DeviceCosts> {
        self.planner.lock().costs()
    }

    /// Whether the device is slow enough, by what batches have taken, for another thread to be worth waking for them.
    pub fn is_device_slow(&self) -> bool {
        self.planner.lock().is_device_slow()
    }

    fn shard_index(&self, hash: u64) -> usize {
        // The table inside a shard takes its bits from both ends of the hash.
        (hash >> 24) as usize & (self.shards.len() - 1)
    }

    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[self.shard_index(hash)]
    }

    fn verified<V: BufferVerifier>(
        &self,
        buffer: Buffer,
        pieces: &[Piece],
        verifier: &V,
    ) -> Result<Buffer, ReadError<V::Error>> {
        match buffer.verify_once(verifier, &self.counters.verified) {
            Ok(()) => Ok(buffer),
            Err(error) => {
                self.counters.verification_failures.add(1);
                if !buffer.is_verified() {
                    self.forget(pieces);
                }
                Err(ReadError::Verify(error))
            }
        }
    }

    /// Bytes of the budget that the probationary queue of one shard aims at.
    fn probation_target(&self) -> u64 {
        self.budget.for_buffers() / self.shards.len() as u64 / eviction::PROBATION_SHARE
    }

    fn evict_from(&self, shard: usize, wanted_bytes: u64) -> bool {
        let victims = self.shards[shard].evict(wanted_bytes, self.probation_target());
        !victims.is_empty()
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("device", &self.device)
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "edit_tests.rs"]
mod edit_tests;

#[cfg(test)]
#[path = "cache_threads_tests.rs"]
mod threads_tests;
