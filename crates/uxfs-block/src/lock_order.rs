//! The order in which locks are acquired.
//!
//! A thread that holds a lock waits only for locks with a higher [`LockKey`]. So threads never wait for each other in a
//! circle. With [`self_checks`] on, every wait checks the order; otherwise no list of held locks is kept.
//!
//! Two rules belong to the commit locks: a thread that holds all of them holds no single one, and may lock groups in any
//! order, because no other transaction is under way. A lock that is taken without waiting (`try_lock`, or one that no
//! other thread can hold) may come in any order, and counts as held.

use std::{
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    sync::MutexGuard,
};

use crate::self_checks;

/// A lock, in the order of acquisition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockKey {
    /// Held while a directory gets another parent.
    Tree,
    /// An inode that is open, by its number.
    Inode(u64),
    /// Held by the thread that loads an inode; others that want the inode wait for it.
    InodeLoad,
    /// Held by the first of the transactions that wait for log space.
    LogSpace,
    /// Held by the thread that completes pending frees.
    PendingFrees,
    /// Held while a checkpoint is written.
    Writer,
    /// Held while buffers are written back.
    WriteBack,
    /// The commit locks of all thread shards, exclusively: no transaction is under way.
    AllCommitLocks,
    /// The commit lock of one thread shard, shared: until the transaction commits.
    CommitLock,
    /// An allocation group, by its number.
    Group(u32),
    /// Groups that have changed. Short, as all that follow: no other lock is waited for under them but where said.
    ChangedGroups,
    /// Freed extents whose checkpoint is stable.
    FreedExtents,
    /// Contents that have moved.
    MovedContents,
    /// The items committed to the checkpoint that is being filled.
    PendingItems,
    /// The active items. Under them the open intents are locked.
    ActiveItems,
    /// The intents without end.
    OpenIntents,
    /// A shard of the inode table.
    InodeShard,
    /// A queue of inodes that lost their last handle.
    InodeQueue,
}

/// Says that the thread holds a lock, until it is dropped.
#[must_use]
pub struct HeldLock {
    /// Its entry in the thread's list of held locks; `None` when self-checks are off.
    listed: Option<LockKey>,
    /// A lock is released by the thread that took it.
    stays: PhantomData<MutexGuard<'static, ()>>,
}

impl LockKey {
    /// Before the thread waits for the lock.
    ///
    /// # Panics
    /// Self-checks are on, and the thread holds a lock that comes later.
    #[inline]
    pub fn wait(self) -> HeldLock {
        if self_checks::are_on() {
            held::check(self);
        }
        self.held()
    }

    /// After the thread took the lock without waiting.
    #[inline]
    pub fn held(self) -> HeldLock {
        let listed = self_checks::are_on().then_some(self);
        listed.into_iter().for_each(held::push);
        HeldLock { listed, stays: PhantomData }
    }
}

impl Drop for HeldLock {
    #[inline]
    fn drop(&mut self) {
        self.listed.into_iter().for_each(held::remove);
    }
}

impl fmt::Debug for HeldLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldLock").finish_non_exhaustive()
    }
}

/// The guard of a lock that was acquired in order.
#[derive(Debug)]
pub struct Ordered<G> {
    guard: G,
    _held: HeldLock,
}

impl<G> Ordered<G> {
    /// Waits for a lock by `lock`.
    #[inline]
    pub fn wait(key: LockKey, lock: impl FnOnce() -> G) -> Self {
        let held = key.wait();
        Self { guard: lock(), _held: held }
    }

    /// The guard of a lock that was taken without waiting.
    #[inline]
    pub fn taken(key: LockKey, guard: G) -> Self {
        Self { guard, _held: key.held() }
    }
}

impl<G: Deref> Deref for Ordered<G> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Ordered<G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// The locks that each thread holds.
mod held {
    use std::cell::RefCell;

    use super::LockKey;

    thread_local! {
        static HELD: RefCell<Vec<LockKey>> = const { RefCell::new(Vec::new()) };
    }

    pub fn check(key: LockKey) {
        HELD.with_borrow(|held| {
            let has_all = held.contains(&LockKey::AllCommitLocks);
            assert!(
                !has_all || key != LockKey::CommitLock,
                "{key:?} is waited for under all of them: {held:?}"
            );
            let is_free = |before: &LockKey| {
                *before < key || has_all && matches!((before, key), (LockKey::Group(_), LockKey::Group(_)))
            };
            assert!(
                held.iter().all(is_free),
                "{key:?} is waited for out of order: this thread holds {held:?}"
            );
        });
    }

    pub fn push(key: LockKey) {
        HELD.with_borrow_mut(|held| held.push(key));
    }

    pub fn remove(key: LockKey) {
        // A guard may outlive the thread's list where a thread ends.
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(index) = held.iter().rposition(|other| *other == key) {
                held.swap_remove(index);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::{panic::catch_unwind, thread};

    use parking_lot::Mutex;

    use super::*;

    fn is_refused(take: impl FnOnce() + Send + 'static) -> bool {
        thread::spawn(move || catch_unwind(std::panic::AssertUnwindSafe(take)).is_err())
            .join()
            .unwrap_or(true)
    }

    #[test]
    fn locks_are_waited_for_in_their_order() {
        assert!(!is_refused(|| {
            let mutex = Mutex::new(1);
            let _tree = LockKey::Tree.wait();
            let first = LockKey::Inode(5).wait();
            let _second = LockKey::Inode(6).wait();
            drop(first);
            let _group = LockKey::Group(0).wait();
            let mut guard = Ordered::wait(LockKey::ActiveItems, || mutex.lock());
            *guard += 1;
            let _short = LockKey::OpenIntents.wait();
        }));
    }

    #[test]
    fn a_lock_out_of_order_is_refused() {
        let pairs = [
            (LockKey::Inode(5), LockKey::Tree),
            (LockKey::Inode(5), LockKey::Inode(5)),
            (LockKey::Inode(6), LockKey::Inode(5)),
            (LockKey::Group(1), LockKey::Group(0)),
            (LockKey::Group(0), LockKey::CommitLock),
            (LockKey::CommitLock, LockKey::AllCommitLocks),
            (LockKey::AllCommitLocks, LockKey::CommitLock),
            (LockKey::CommitLock, LockKey::Writer),
            (LockKey::OpenIntents, LockKey::ActiveItems),
        ];
        for (first, second) in pairs {
            let take = move || {
                let _first = first.wait();
                let _second = second.wait();
            };
            assert!(is_refused(take), "{second:?} after {first:?}");
        }
    }

    #[test]
    fn only_waiting_has_an_order() {
        assert!(!is_refused(|| {
            let _group = LockKey::Group(1).wait();
            let _tried = LockKey::Group(0).held();
        }));
        assert!(is_refused(|| {
            let _group = LockKey::Group(1).held();
            let _waited = LockKey::Group(0).wait();
        }));
        assert!(!is_refused(|| {
            let _all = LockKey::AllCommitLocks.wait();
            let _high = LockKey::Group(7).wait();
            let _low = LockKey::Group(3).wait();
        }));
        assert!(!is_refused(|| drop(LockKey::Group(3).wait())));
    }
}
