//! The locks of the journal, acquired in the order that [`LockKey`] declares.

use std::collections::HashMap;

use parking_lot::MutexGuard;
use uxfs_block::lock_order::{LockKey, Ordered};

use super::{IntentId, Journal, Writer, active::ActiveItems, pending::Pending};

impl Journal {
    pub(super) fn lock_writer(&self) -> Ordered<MutexGuard<'_, Writer>> {
        Ordered::wait(LockKey::Writer, || self.writer.lock())
    }

    pub(super) fn try_lock_writer(&self) -> Option<Ordered<MutexGuard<'_, Writer>>> {
        Some(Ordered::taken(LockKey::Writer, self.writer.try_lock()?))
    }

    pub(super) fn lock_write_back(&self) -> Ordered<MutexGuard<'_, ()>> {
        Ordered::wait(LockKey::WriteBack, || self.write_back.lock())
    }

    #[inline]
    pub(super) fn lock_pending(&self) -> Ordered<MutexGuard<'_, Pending>> {
        Ordered::wait(LockKey::PendingItems, || self.pending.lock())
    }

    pub(super) fn lock_active(&self) -> Ordered<MutexGuard<'_, ActiveItems>> {
        Ordered::wait(LockKey::ActiveItems, || self.active.lock())
    }

    pub(super) fn lock_open_intents(&self) -> Ordered<MutexGuard<'_, HashMap<IntentId, u64>>> {
        Ordered::wait(LockKey::OpenIntents, || self.open_intents.lock())
    }
}
