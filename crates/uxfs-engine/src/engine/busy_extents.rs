//! Busy extents: freed blocks that wait for their checkpoint to be stable (pending frees).
//!
//! Freed blocks lose their owner in the transaction that frees them, and an intent to free them goes into its checkpoint.
//! After that checkpoint is stable another transaction makes them free, and logs the end of the intent. So a crash never
//! gives blocks back to their old owner after something else was written to them.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use parking_lot::{Mutex, MutexGuard};
use uxfs_block::lock_order::{LockKey, Ordered};
use uxfs_format::{log::item::ItemType, units::FsBlock};
use uxfs_journal::journal::FreedExtents;

use super::LoggedEngine;
use crate::transaction::{Transaction, deferred::queue::FreedOwner, reservation::Operation};
use uxfs_volume::error::{OperationError, Result};

/// Freed blocks whose checkpoint is stable.
#[derive(Debug, Default)]
pub(super) struct PendingFrees {
    freed: Mutex<Vec<FreedExtents>>,
    /// One thread completes frees at a time: a thread that waits for free blocks waits for those of another thread, too.
    completing_frees: Mutex<()>,
}

impl PendingFrees {
    fn lock(&self) -> Ordered<MutexGuard<'_, Vec<FreedExtents>>> {
        Ordered::wait(LockKey::FreedExtents, || self.freed.lock())
    }

    /// Adds what a checkpoint freed that is stable now.
    pub fn add(&self, freed: impl IntoIterator<Item = FreedExtents>) {
        self.lock().extend(freed);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}

impl LoggedEngine {
    /// Waits until freed blocks are free: returns whether there were any. The caller holds no transaction.
    ///
    /// # Errors
    /// Damage; the device failed, now or before.
    pub fn wait_for_freed_blocks(&self) -> Result<bool> {
        if self.freed_blocks() == 0 {
            return Ok(false);
        }
        self.write_checkpoint()?;
        self.complete_pending_frees()?;
        Ok(true)
    }

    /// Blocks that have been freed and will be free once their checkpoint is stable.
    pub fn freed_blocks(&self) -> u64 {
        self.counters.freed_blocks.load(Acquire).max(0).cast_unsigned()
    }

    /// Blocks have been freed that wait for their checkpoint; or have become free.
    pub fn note_freed_blocks(&self, blocks: i64) {
        self.counters.freed_blocks.fetch_add(blocks, Relaxed);
    }

    /// Completes the pending frees whose checkpoint is stable. The caller holds no transaction.
    ///
    /// # Errors
    /// Damage; the device failed, now or before.
    #[doc(alias = "xfs_extent_busy_clear")]
    pub fn complete_pending_frees(&self) -> Result<()> {
        let completing = &self.pending_frees.completing_frees;
        self.complete_all_pending_frees(Ordered::wait(LockKey::PendingFrees, || completing.lock()))
    }

    /// As [`complete_pending_frees`](Self::complete_pending_frees), unless another thread does it: for a caller that is between two
    /// transactions of one operation, which may itself be the one that completes frees.
    ///
    /// # Errors
    /// As there.
    pub fn complete_pending_frees_beside(&self) -> Result<()> {
        let Some(one) = self.pending_frees.completing_frees.try_lock() else { return Ok(()) };
        self.complete_all_pending_frees(Ordered::taken(LockKey::PendingFrees, one))
    }

    fn complete_all_pending_frees(&self, _one: Ordered<MutexGuard<'_, ()>>) -> Result<()> {
        let all = std::mem::take(&mut *self.pending_frees.lock());
        if !all.is_empty() {
            self.journal.wait_for_writes();
        }
        for freed in all {
            let extents = u32::try_from(freed.extents.len()).unwrap_or(u32::MAX);
            let mut transaction = Transaction::logged(self, Operation::CompleteFrees { extents })?;
            let mut blocks = 0;
            for extent in &freed.extents {
                let start = FsBlock::new(extent.start_block.get());
                let (group, start) =
                    self.geometry().split_fs_block(start).ok_or(OperationError::NoSuchGroup)?;
                let length_blocks = extent.length_blocks.get();
                transaction.group(group)?.free_of(start, length_blocks, FreedOwner::NoOwner)?;
                blocks += i64::from(length_blocks);
            }
            transaction.intent_done(ItemType::FreeExtentDone, freed.intent, &freed.extents);
            transaction.commit_quietly()?;
            self.note_freed_blocks(-blocks);
        }
        Ok(())
    }
}
