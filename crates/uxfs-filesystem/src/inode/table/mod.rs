//! Inodes that are kept in memory for operations on a live file system.
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

/// Parts of the table.
const SHARDS: usize = 64;
/// Inodes with numbers next to each other that are in one shard: a thread that makes or removes many stays in a shard for so
/// long. Fewer cost two threads a twentieth of a microsecond each time, for lines that travel; all of a chunk would crowd it.
const NEIGHBOURS: u64 = 16;
/// Slots that nobody has open and that are kept all the same: as many as stay in a processor's own cache, because whoever
/// makes files pays for each that goes, and reading one again from its cluster takes half a microsecond.
const USUAL_SLOTS: usize = 1 << 8;

/// The inode, as long as nobody changes it.
pub type InodeReadGuard<'a> = Ordered<RwLockReadGuard<'a, EditInode>>;

/// The inodes of one file system that are in memory.
#[derive(Debug)]
pub(crate) struct InodeTable {
    shards: Box<[Shard]>,
    queues: Arc<Queues>,
    lanes: ThreadShards<OnceLock<QueuesOfShard>>,
}

/// What slots know the queues by. Each slot counts as one who does, and threads that make and drop slots must not all write
/// one count.
type QueuesOfShard = Arc<OwnLine<Arc<Queues>>>;

/// Inodes that lost their last handle, and something is to be done.
#[derive(Debug, Default)]
struct Queues {
    /// They have no name: to be freed.
    unlinked: Queue,
    /// They have blocks allocated past EOF for appends, to be given back.
    ahead: Queue,
    /// The engine of the file system, where it is mounted for changes with a journal: an inode whose change was not stored is read
    /// anew through it.
    engine: OnceLock<Weak<LoggedEngine>>,
}

#[derive(Debug, Default)]
struct Queue {
    numbers: Mutex<Vec<InodeNumber>>,
    /// How many there are, so that nobody takes the lock for nothing.
    length: AtomicUsize,
}

/// One inode in memory.
pub(crate) struct Slot {
    number: InodeNumber,
    handles: AtomicU32,
    /// Used since the clock's hand came by.
    is_recent: AtomicBool,
    /// It has no name left: the last handle puts it into the queue.
    is_unlinked: AtomicBool,
    /// It may get a name again: a temporary file.
    may_get_name: AtomicBool,
    /// It has blocks ahead of who appends: the last handle sees to it that they go.
    has_ahead: AtomicBool,
    /// It is being freed.
    is_dying: AtomicBool,
    inode: RwLock<EditInode>,
    queues: QueuesOfShard,
}

/// An inode that stays in memory, and stays an inode even without a name, as long as there is a handle. Cloning one
/// costs two counts.
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
            has_ahead: AtomicBool::new(false),
            is_dying: AtomicBool::new(false),
            inode: RwLock::new(inode),
            queues,
        }
    }
}

impl InodeHandle {
    /// Its number.
    #[inline]
    pub fn number(&self) -> InodeNumber {
        self.slot.number
    }

    /// Waits until nobody changes the inode, and keeps others from it. A thread that has this must not ask for it again:
    /// somebody who wants to change the inode may wait between the two.
    #[inline]
    pub fn read(&self) -> InodeReadGuard<'_> {
        Ordered::wait(self.key(), || self.slot.inode.read())
    }

    /// Waits until nobody uses the inode. Whoever wants several takes them by [`lock_in_order`]; whoever has begun a
    /// transaction takes none.
    #[inline]
    pub fn write(&self) -> InodeWriteGuard<'_> {
        let inode = Ordered::wait(self.key(), || self.slot.inode.write());
        InodeWriteGuard::new(inode, &self.slot)
    }

    #[inline]
    fn key(&self) -> LockKey {
        LockKey::Inode(self.slot.number.get())
    }

    /// As [`write`](Self::write), but gives `None` instead of waiting.
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

    /// Says whether the inode has a name. One without is freed when its last handle goes.
    #[inline]
    pub(crate) fn set_unlinked(&self, is_unlinked: bool) {
        self.slot.is_unlinked.store(is_unlinked, Ordering::Release);
    }
}

impl InodeHandle {
    /// Whether an inode without a name may get one.
    #[doc(alias = "I_LINKABLE")]
    pub(crate) fn may_get_name(&self) -> bool {
        self.slot.may_get_name.load(Ordering::Acquire)
    }

    /// Says that the file has blocks ahead of who appends.
    pub(crate) fn set_has_ahead(&self) {
        self.slot.has_ahead.store(true, Ordering::Release);
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
        } else if slot.has_ahead.load(Ordering::Acquire) {
            slot.has_ahead.store(false, Ordering::Release);
            slot.queues.ahead.push(slot.number);
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
    /// Says whose inodes they are.
    pub(crate) fn belongs_to(&self, engine: &Arc<LoggedEngine>) {
        self.queues.engine.get_or_init(|| Arc::downgrade(engine));
    }

    /// For so many slots that nobody has open.
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

    /// A new inode, which `lock` locks before others can reach it by its number.
    pub(crate) fn insert_new(&self, inode: EditInode) -> NewSlot<'_> {
        NewSlot {
            table: self,
            handle: InodeHandle { slot: Arc::new(Slot::new(inode, self.queues_of_shard())) },
        }
    }

    /// Decides that an inode is to be freed, if nobody has it open but `handle`.
    pub(crate) fn begin_free(&self, handle: &InodeHandle) -> bool {
        let number = handle.number();
        self.shard_of(number).is_some_and(|(shard, hash)| shard.begin_free(number, hash, &handle.slot))
    }

    /// An inode that was to be freed stays, or is gone.
    pub(crate) fn end_free(&self, handle: &InodeHandle, is_gone: bool) {
        if is_gone {
            handle.set_unlinked(false);
            self.forget(handle);
        } else {
            handle.slot.is_dying.store(false, Ordering::Release);
        }
    }

    /// Takes a slot out of the table, for whoever has another in its place or none.
    fn forget(&self, handle: &InodeHandle) {
        if let Some((shard, hash)) = self.shard_of(handle.number()) {
            shard.forget(&handle.slot, hash);
        }
    }

    /// The next inode without names that nobody has open; it is dying from now on.
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

    /// The number of the next file that was closed with blocks ahead of who appended. Perhaps another file has it by now.
    #[inline]
    pub(crate) fn next_with_ahead(&self) -> Option<InodeNumber> {
        self.queues.ahead.pop()
    }

    /// Whether there may be inodes to be freed.
    #[inline]
    pub(crate) fn has_unlinked(&self) -> bool {
        self.queues.unlinked.length.load(Ordering::Acquire) > 0
    }

    /// How many slots there are.
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
    /// Locks the inode and puts it into the table, in the place of whatever is known of its number: an inode that was
    /// freed.
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
