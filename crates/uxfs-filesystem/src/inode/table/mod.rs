//! The inode cache of a live file system.
//!
//! ```text
//! FileSystem::open(number) ──▶ InodeHandle ──▶ slot: RwLock<EditInode>
//!                                  │ last one dropped, and no name left
//!                                  └──▶ queue ──▶ FileSystem::inactivate_pending()
//! ```
//!
//! Invariants, cited by the tests:
//! 1. **One slot for a number.** While an inode is loaded, others who want it wait for that; no lock of the table is held
//!    over I/O.
//! 2. **In step.** While no thread holds a slot's lock for writing, the slot says what the buffer of the inode's cluster
//!    says: the thread that changes it stores it ([`Transaction::store_inode`](uxfs_engine::transaction::Transaction::store_inode))
//!    before the lock goes. So a slot without handles can be dropped at any time at no cost.
//! 3. **Open stays.** A slot with handles stays in the table; an inode without names is freed only when it has none.
//! 4. **Dropping a handle only counts.** The last handle of an inode without names puts its number into a queue, and so
//!    does that of a file with speculative preallocation. The queue worker does the I/O and reports its errors.
//! 5. **A dying inode is not opened.** From the decision to free an inode on, made under the lock of its shard while no other
//!    handle exists, its number names no inode until a new inode gets the number.
//! 6. **Bounded.** Slots without handles are given up, the least recently used first (roughly: a clock), when there
//!    are more than the table is for; those with very many extents also where these take a quarter of the cache's budget.
//! 7. **No half change stays.** An inode in a slot can be changed only through an [`InodeWriteGuard`], and every way to change it
//!    marks it as changed ([`EditInode`]'s `DerefMut`). Only
//!    [`Transaction::store_inode`](uxfs_engine::transaction::Transaction::store_inode) takes the mark away. A guard that goes
//!    while the inode is marked reads it anew from its cluster, which holds what was stored last; where that cannot be read, the
//!    slot holds an inode that is not in use from then on. A transaction that stored an inode and is dropped without a commit
//!    shuts the journal down (invariant 4 of transactions): so what the slot says is in a commit, or nothing follows it to
//!    the device.
//!
//! Lock order: a slot's lock before any lock of the table; slots in ascending order of their numbers.

mod give_up;
mod guard;
mod lock;
mod shard;

#[cfg(test)]
mod table_tests;

use std::{
    fmt,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use uxfs_block::{
    lock_order::{LockKey, Ordered},
    own_line::OwnLine,
    thread_shards::ThreadShards,
};
use uxfs_format::units::InodeNumber;

use self::shard::{Shard, SlotLookup, hash_of};
pub use self::{guard::InodeWriteGuard, lock::lock_in_order};
use uxfs_engine::engine::LoggedEngine;
use uxfs_engine::inode::edit::EditInode;
use uxfs_volume::error::{OperationError, Result};

const SHARDS: usize = 64;
/// Consecutive inode numbers in one shard, so that a thread that creates or removes many files stays in a shard for a while.
/// Fewer cost two threads 0.05 µs a file, because cache lines travel between processors; all 64 of a chunk would crowd a shard.
const NEIGHBOURS: u64 = 16;
/// Slots without handles that stay in memory: as many as fit into a processor's own cache. `create` pays for each eviction;
/// reading an evicted inode again from its cluster takes half a microsecond.
const USUAL_SLOTS: usize = 1 << 8;

/// A shared lock on an inode: it does not change meanwhile.
pub type InodeReadGuard<'a> = Ordered<RwLockReadGuard<'a, EditInode>>;

/// The inodes of one file system that are in memory.
#[derive(Debug)]
pub(crate) struct InodeTable {
    shards: Box<[Shard]>,
    queues: Arc<Queues>,
    lanes: ThreadShards<OnceLock<QueuesOfShard>>,
}

/// A slot's reference to the queues. Each thread shard has a counter of its own, so that threads that make and drop slots do
/// not all write one counter.
type QueuesOfShard = Arc<OwnLine<Arc<Queues>>>;

/// Inodes without handles that wait for work.
#[derive(Debug, Default)]
struct Queues {
    /// Unlinked inodes, to be freed.
    unlinked: Queue,
    /// Files whose speculative preallocation is to be freed.
    preallocated: Queue,
    /// The engine of a file system with a journal: an inode whose change was not stored is read anew through it.
    engine: OnceLock<Weak<LoggedEngine>>,
}

#[derive(Debug, Default)]
struct Queue {
    numbers: Mutex<Vec<InodeNumber>>,
    /// The length of `numbers`: an empty queue costs no lock.
    length: AtomicUsize,
}

/// One inode in memory.
pub(crate) struct Slot {
    number: InodeNumber,
    handles: AtomicU32,
    /// Used since the clock's hand last passed.
    is_recent: AtomicBool,
    /// It has no links: the last handle queues it to be freed.
    is_unlinked: AtomicBool,
    /// A temporary file that may be linked.
    may_get_name: AtomicBool,
    /// It has speculative preallocation: the last handle queues it for that to be freed.
    has_preallocation: AtomicBool,
    /// It is being freed.
    is_dying: AtomicBool,
    inode: RwLock<EditInode>,
    queues: QueuesOfShard,
}

/// An open inode: it stays in memory, and is not freed, as long as a handle exists. A clone costs two counts.
pub struct InodeHandle {
    slot: Arc<Slot>,
}

impl Queue {
    fn lock(&self) -> Ordered<MutexGuard<'_, Vec<InodeNumber>>> {
        Ordered::wait(LockKey::InodeQueue, || self.numbers.lock())
    }

    #[cold]
    fn push(&self, number: InodeNumber) {
        let mut numbers = self.lock();
        numbers.push(number);
        self.length.store(numbers.len(), Ordering::Release);
    }

    fn pop(&self) -> Option<InodeNumber> {
        if self.length.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut numbers = self.lock();
        let number = numbers.pop();
        self.length.store(numbers.len(), Ordering::Release);
        number
    }
}

impl Slot {
    /// With one handle, not in the table.
    fn new(inode: EditInode, queues: QueuesOfShard) -> Self {
        Self {
            number: inode.number,
            handles: AtomicU32::new(1),
            is_recent: AtomicBool::new(true),
            is_unlinked: AtomicBool::new(inode.link_count() == 0),
            may_get_name: AtomicBool::new(false),
            has_preallocation: AtomicBool::new(false),
            is_dying: AtomicBool::new(false),
            inode: RwLock::new(inode),
            queues,
        }
    }
}

impl InodeHandle {
    /// The inode number.
    #[inline]
    pub fn number(&self) -> InodeNumber {
        self.slot.number
    }

    /// Locks the inode shared. A thread that holds this lock must not ask for it again: a writer that waits between the two
    /// would block both.
    #[inline]
    pub fn read(&self) -> InodeReadGuard<'_> {
        Ordered::wait(self.key(), || self.slot.inode.read())
    }

    /// Locks the inode exclusively. Threads that need several inodes use [`lock_in_order`]; a thread with a transaction in
    /// progress locks none.
    #[inline]
    pub fn write(&self) -> InodeWriteGuard<'_> {
        let inode = Ordered::wait(self.key(), || self.slot.inode.write());
        InodeWriteGuard::new(inode, &self.slot)
    }

    #[inline]
    fn key(&self) -> LockKey {
        LockKey::Inode(self.slot.number.get())
    }

    /// As [`write`](Self::write), but returns `None` instead of waiting.
    #[inline]
    pub fn try_write(&self) -> Option<InodeWriteGuard<'_>> {
        let inode = Ordered::taken(self.key(), self.slot.inode.try_write()?);
        Some(InodeWriteGuard::new(inode, &self.slot))
    }

    /// Whether both are the same inode.
    #[inline]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.slot, &other.slot)
    }

    /// Records whether the inode has no links: then it is freed with its last handle.
    #[inline]
    pub(crate) fn set_unlinked(&self, is_unlinked: bool) {
        self.slot.is_unlinked.store(is_unlinked, Ordering::Release);
    }
}

impl InodeHandle {
    /// Whether an unlinked inode may be linked.
    #[doc(alias = "I_LINKABLE")]
    pub(crate) fn may_get_name(&self) -> bool {
        self.slot.may_get_name.load(Ordering::Acquire)
    }

    /// Records that the file has speculative preallocation.
    pub(crate) fn set_has_preallocation(&self) {
        self.slot.has_preallocation.store(true, Ordering::Release);
    }

    pub(crate) fn set_may_get_name(&self, may_get_name: bool) {
        self.slot.may_get_name.store(may_get_name, Ordering::Release);
    }
}

impl Clone for InodeHandle {
    #[inline]
    fn clone(&self) -> Self {
        self.slot.handles.fetch_add(1, Ordering::Relaxed);
        Self { slot: Arc::clone(&self.slot) }
    }
}

impl Drop for InodeHandle {
    #[inline]
    fn drop(&mut self) {
        let slot = &self.slot;
        if slot.handles.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        if slot.is_unlinked.load(Ordering::Acquire) {
            slot.queues.unlinked.push(slot.number);
        } else if slot.has_preallocation.load(Ordering::Acquire) {
            slot.has_preallocation.store(false, Ordering::Release);
            slot.queues.preallocated.push(slot.number);
        }
    }
}

impl fmt::Debug for InodeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InodeHandle").field(&self.slot.number).finish()
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("number", &self.number)
            .field("handles", &self.handles)
            .field("is_unlinked", &self.is_unlinked)
            .finish_non_exhaustive()
    }
}

impl Default for InodeTable {
    fn default() -> Self {
        Self::new(USUAL_SLOTS)
    }
}

impl InodeTable {
    /// Names the engine of the file system that these inodes belong to.
    pub(crate) fn belongs_to(&self, engine: &Arc<LoggedEngine>) {
        self.queues.engine.get_or_init(|| Arc::downgrade(engine));
    }

    /// A table that keeps `most` slots without handles.
    fn new(most: usize) -> Self {
        let most_in_shard = most.div_ceil(SHARDS);
        let shards = (0..SHARDS).map(|_| Shard::new(most_in_shard)).collect();
        Self { shards, queues: Arc::default(), lanes: ThreadShards::default() }
    }

    #[inline]
    fn queues_of_shard(&self) -> QueuesOfShard {
        let queues = || Arc::new(OwnLine(Arc::clone(&self.queues)));
        Arc::clone(self.lanes.mine().get_or_init(queues))
    }

    /// The shard of a number, and its hash.
    #[inline]
    fn shard_of(&self, number: InodeNumber) -> Option<(&Shard, u64)> {
        // So threads in different chunks rarely take each other's locks out of their processors' caches.
        let shard = hash_of(InodeNumber::new(number.get() / NEIGHBOURS)) >> 40;
        self.shards.get(shard as usize % SHARDS).map(|shard| (shard, hash_of(number)))
    }

    /// The inode from memory, or else by `load`.
    #[inline]
    pub(crate) fn open(
        &self,
        number: InodeNumber,
        load: impl FnMut() -> Result<EditInode>,
    ) -> Result<InodeHandle> {
        let (shard, hash) = self.shard_of(number).ok_or(OperationError::NoSuchInode)?;
        match shard.find(number, hash) {
            SlotLookup::Slot(handle) => Ok(handle),
            SlotLookup::Dying => Err(OperationError::NoSuchInode.into()),
            SlotLookup::Loading(_) | SlotLookup::Absent => self.load(shard, number, hash, load),
        }
    }

    #[cold]
    fn load(
        &self,
        shard: &Shard,
        number: InodeNumber,
        hash: u64,
        mut load: impl FnMut() -> Result<EditInode>,
    ) -> Result<InodeHandle> {
        loop {
            match shard.find(number, hash) {
                SlotLookup::Slot(handle) => return Ok(handle),
                SlotLookup::Dying => return Err(OperationError::NoSuchInode.into()),
                SlotLookup::Loading(flight) => drop(Ordered::wait(LockKey::InodeLoad, || flight.lock())),
                SlotLookup::Absent => {
                    let Some(loading) = shard.begin_load(number, hash) else { continue };
                    let slot = Arc::new(Slot::new(load()?, self.queues_of_shard()));
                    if let Some(handle) = loading.finish(slot) {
                        return Ok(handle);
                    }
                }
            }
        }
    }

    /// A slot for a new inode; [`NewSlot::lock`] locks it before others can reach it by its number.
    pub(crate) fn insert_new(&self, inode: EditInode) -> NewSlot<'_> {
        NewSlot {
            table: self,
            handle: InodeHandle { slot: Arc::new(Slot::new(inode, self.queues_of_shard())) },
        }
    }

    /// Marks an inode as dying if `handle` is its only handle; returns whether it is.
    pub(crate) fn begin_free(&self, handle: &InodeHandle) -> bool {
        let number = handle.number();
        self.shard_of(number).is_some_and(|(shard, hash)| shard.begin_free(number, hash, &handle.slot))
    }

    /// Ends what [`begin_free`](Self::begin_free) began: the inode is gone, or stays.
    pub(crate) fn end_free(&self, handle: &InodeHandle, is_gone: bool) {
        if is_gone {
            handle.set_unlinked(false);
            self.forget(handle);
        } else {
            handle.slot.is_dying.store(false, Ordering::Release);
        }
    }

    /// Removes a slot, unless another has its place by now.
    fn forget(&self, handle: &InodeHandle) {
        if let Some((shard, hash)) = self.shard_of(handle.number()) {
            shard.forget(&handle.slot, hash);
        }
    }

    /// The next unlinked inode without handles, which is dying from now on.
    pub(crate) fn next_unlinked(&self) -> Option<InodeHandle> {
        while let Some(number) = self.queues.unlinked.pop() {
            if let Some((shard, hash)) = self.shard_of(number)
                && let Some(handle) = shard.take_unlinked(number, hash)
            {
                return Some(handle);
            }
        }
        None
    }

    /// The number of the next file that was closed with speculative preallocation. Another file may have it by now.
    #[inline]
    pub(crate) fn next_with_preallocation(&self) -> Option<InodeNumber> {
        self.queues.preallocated.pop()
    }

    /// Whether unlinked inodes may wait to be freed.
    #[inline]
    pub(crate) fn has_unlinked(&self) -> bool {
        self.queues.unlinked.length.load(Ordering::Acquire) > 0
    }

    /// Slots in the table.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }
}

/// A slot that is not in the table yet.
pub(crate) struct NewSlot<'t> {
    table: &'t InodeTable,
    handle: InodeHandle,
}

impl NewSlot<'_> {
    /// Locks the inode and puts it into the table, in place of a freed inode of the same number.
    pub(crate) fn lock(&self) -> InodeWriteGuard<'_> {
        // No other thread can have it.
        let inode = Ordered::taken(self.handle.key(), self.handle.slot.inode.write());
        let guard = InodeWriteGuard::new(inode, &self.handle.slot);
        if let Some((shard, hash)) = self.table.shard_of(self.handle.number()) {
            shard.put(&self.handle.slot, hash);
        }
        guard
    }

    pub(crate) fn into_handle(self) -> InodeHandle {
        self.handle
    }

    pub(crate) fn handle(&self) -> &InodeHandle {
        &self.handle
    }
}
