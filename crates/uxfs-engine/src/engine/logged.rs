//! Changing through the log.
//!
//! Changes, freed blocks and buffers wait for a later event:
//!
//! | waits | for | done by |
//! |---|---|---|
//! | changes of transactions | a checkpoint | a caller that wants them durable or finds no log space, [`Background`] |
//! | freed blocks | their checkpoint to be stable | [`LoggedEngine::complete_pending_frees`] |
//! | buffers | their checkpoint to be stable | [`LoggedEngine::push_active_items`] |
//!
//! A thread that holds a transaction waits for none of these.

use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use uxfs_block::lock_order::{LockKey, Ordered};
use uxfs_format::{
    fault::Structure,
    units::{AgNumber, Sector},
};
use uxfs_journal::journal::{Journal, JournalOptions, LogStart, Ticket};
use uxfs_volume::{superblock::refuse_unwritable, volume::Volume};

use super::{
    Engine, background::Background, busy_extents::PendingFrees, forget_quota_counts, log_space::RoomQueue,
    moved_contents::MovedContents,
};
use crate::options::MountOptions;
use crate::transaction::{Transaction, checkpoint::CheckpointTransaction, reservation::Operation};
use uxfs_volume::error::{Error, OperationError, Result};

/// A log that still holds something after so many rounds will always do.
const MOST_ROUNDS: u32 = 10_000;

/// Something else may change the file system while it comes to rest.
const MOST_TRIES: u32 = 10;

/// An engine that changes through the log.
#[derive(Debug)]
pub struct LoggedEngine {
    pub(super) engine: Engine,
    /// Every step of every transaction is a checkpoint of its own.
    is_immediate: bool,
    pub(super) journal: Journal,
    /// Groups that have changed since the last checkpoint was closed, once each.
    changed_groups: Mutex<Vec<AgNumber>>,
    pub(super) pending_frees: PendingFrees,
    /// The transactions that wait for log space.
    pub(super) room: RoomQueue,
    /// Contents that another mapping leads to than the one on the device.
    pub(super) moved: MovedContents,
    pub(super) background: OnceLock<Background>,
}

impl std::ops::Deref for LoggedEngine {
    type Target = Engine;

    #[inline]
    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl LoggedEngine {
    /// An engine that changes through the log, with the log at `start`.
    ///
    /// # Errors
    /// The device is read-only; the log is too small or cannot be written; damaged group headers; no thread.
    pub fn new(volume: Volume, options: MountOptions, start: LogStart) -> Result<Arc<Self>> {
        refuse_unwritable(volume.device().as_ref(), volume.superblock())?;
        volume.begin_log_at(start.head)?;
        let has_quota_counts = forget_quota_counts(&mut volume.superblock().clone());
        let engine = Engine::new(volume, options);
        let options = options.log;
        let mut journal_options = JournalOptions {
            max_reservation_bytes: engine.needs.log.largest(&engine.needs),
            urgent_bytes: engine.needs.log.largest_urgent(&engine.needs) / 2 * 3,
            ..JournalOptions::default()
        };
        if options.record_size_bytes != 0 {
            journal_options.record_size_bytes = options.record_size_bytes;
        }
        let (cache, newest) = (Arc::clone(engine.cache()), Arc::clone(engine.newest_lsn()));
        let journal = Journal::open(cache, engine.geometry().clone(), start, journal_options, newest)?;
        let engine = Self {
            engine,
            is_immediate: options.is_immediate,
            journal,
            changed_groups: Mutex::default(),
            pending_frees: PendingFrees::default(),
            room: RoomQueue::new(start.recovered_tail.is_some()),
            moved: MovedContents::default(),
            background: OnceLock::new(),
        };
        engine.count_ag_reservations()?;
        let engine = Arc::new(engine);
        // Recovery has written it already, beside the counters.
        if has_quota_counts {
            engine.store_superblock()?;
        }
        if options.has_background {
            Background::start(&engine)?;
        }
        Ok(engine)
    }

    /// The journal.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Whether every step of every transaction is a checkpoint of its own, and stable when it has ended.
    pub fn is_immediate(&self) -> bool {
        self.is_immediate
    }

    /// The thread that writes checkpoints, as long as it does.
    fn background(&self) -> Option<&Background> {
        self.background.get().filter(|background| background.is_running())
    }

    /// Makes everything durable that has been done so far.
    ///
    /// # Errors
    /// The device failed, now or before.
    #[doc(alias = "syncfs")]
    pub fn force(&self) -> Result<()> {
        self.force_sequence(self.journal.sequence())
    }

    /// Makes everything durable up to this checkpoint: that of a change is [`Journal::sequence`] right after it.
    ///
    /// # Errors
    /// As [`force`](Self::force).
    pub fn force_sequence(&self, sequence: u64) -> Result<()> {
        let written = self.journal.force::<Error>(sequence, |ticket| self.settle(ticket))?;
        self.pending_frees.add(written.freed);
        // Many small checkpoints fill the log as well.
        if self.journal.is_half_full()
            && let Some(background) = self.background()
        {
            background.wake();
        }
        Ok(())
    }

    /// Makes changes of one inode durable: those up to checkpoint `sequence`, and contents that were written while checkpoint
    /// `contents` was being filled. Where that is so already, nothing is done.
    ///
    /// # Errors
    /// As [`force`](Self::force).
    #[doc(alias = "xfs_log_force_inode")]
    pub fn force_inode(&self, sequence: u64, contents: u64) -> Result<()> {
        let journal = &self.journal;
        journal.check()?;
        if journal.stable() < sequence {
            self.force_sequence(sequence)?;
        }
        if journal.stable() < contents {
            journal.flush_device()?;
        }
        Ok(())
    }

    /// Writes a checkpoint of what has been done so far.
    pub(super) fn write_checkpoint(&self) -> Result<()> {
        let written = self.journal.checkpoint::<Error>(None, |ticket| self.settle(ticket))?;
        self.pending_frees.add(written.freed);
        Ok(())
    }

    /// Writes what has been changed and not been logged, if there is anything.
    pub(super) fn write_uncommitted(&self) -> Result<()> {
        if self.journal.has_uncommitted() {
            self.write_checkpoint()?;
            self.complete_pending_frees()?;
        }
        Ok(())
    }

    fn is_upkeep_due(&self) -> bool {
        self.journal.is_checkpoint_due() || self.is_crowded()
    }

    /// Writes the checkpoint that has been closed; if there is none, the one that is being filled, where it is time.
    fn write_due_checkpoint(&self) -> Result<()> {
        if !self.journal.has_closed_checkpoint() {
            return if self.is_upkeep_due() { self.write_checkpoint() } else { Ok(()) };
        }
        let written = self.journal.write_closed_checkpoint()?;
        self.pending_frees.add(written.freed);
        Ok(())
    }

    /// Brings what is only in memory of the groups that have changed into their buffers. No transaction is under way.
    fn settle(&self, ticket: Ticket<'_>) -> Result<()> {
        let mut groups = std::mem::take(&mut *self.lock_changed_groups());
        groups.sort_unstable();
        let mut transaction = CheckpointTransaction::begin(self, ticket);
        for group in &groups {
            transaction.flush_group(*group)?;
        }
        transaction.require_may_become_free(&self.journal.freed_so_far(), &groups)?;
        transaction.end(&groups)
    }

    /// A group has changed in the checkpoint that is being filled, for the first time.
    pub fn note_changed_group(&self, group: AgNumber) {
        self.lock_changed_groups().push(group);
    }

    fn lock_changed_groups(&self) -> Ordered<MutexGuard<'_, Vec<AgNumber>>> {
        Ordered::wait(LockKey::ChangedGroups, || self.changed_groups.lock())
    }

    /// Writes back what is stable: what holds the older half of the log, or all where `is_all`.
    ///
    /// # Errors
    /// The device failed, now or before.
    pub fn push_active_items(&self, is_all: bool) -> Result<()> {
        let first_at_most = if is_all { u64::MAX } else { self.journal.older_half() };
        self.journal.push_active_items(first_at_most)?;
        Ok(())
    }

    /// Periodic work after a transaction: done by the background thread if there is one, else now.
    pub fn after_commit(&self, sequence: u64) -> Result<()> {
        if self.is_immediate {
            self.force_sequence(sequence)?;
            self.complete_pending_frees()?;
        }
        if !self.is_upkeep_due() {
            return Ok(());
        }
        let background = self.background();
        if let Some(background) = background {
            self.journal.close_if_due::<Error>(|ticket| self.settle(ticket))?;
            background.wake();
        }
        // Transactions that change faster than the thread writes must not fill all memory.
        if background.is_some() && self.cache().dirty_bytes() <= self.cache().buffer_budget_bytes() {
            return Ok(());
        }
        self.upkeep()
    }

    /// Writes a checkpoint, completes pending frees, and writes back what holds the log or fills the memory.
    pub fn upkeep(&self) -> Result<()> {
        self.write_due_checkpoint()?;
        self.complete_pending_frees()?;
        let journal = &self.journal;
        let first_at_most = match (self.is_crowded(), journal.is_half_full()) {
            (true, _) => u64::MAX,
            (false, true) => journal.older_half(),
            (false, false) => return Ok(()),
        };
        // Meanwhile transactions go on. They must not have to wait for the next checkpoint until all this is written.
        let is_needed = || journal.has_closed_checkpoint() || journal.is_checkpoint_due();
        let write_checkpoint = || {
            if is_needed() {
                self.write_due_checkpoint()?;
                self.complete_pending_frees()?;
            }
            Ok::<(), Error>(())
        };
        journal.push_active_items_beside(first_at_most, is_needed, write_checkpoint)?;
        Ok(())
    }

    /// Writes everything back and closes the log cleanly.
    pub(super) fn close(&self) -> Result<()> {
        if let Some(background) = self.background() {
            background.stop();
        }
        self.bring_home()?;
        Ok(self.journal.close()?)
    }

    /// Writes everything back and makes the log clean, while nothing is changed. Later changes make it dirty again.
    ///
    /// # Errors
    /// The device failed, now or before.
    pub fn rest(&self) -> Result<()> {
        for _ in 0..MOST_TRIES {
            self.bring_home()?;
            if self.journal.say_clean()? {
                return Ok(());
            }
        }
        Err(OperationError::Busy.into())
    }

    /// Writes everything back: nothing needs the log any more, unless it is changed meanwhile.
    fn bring_home(&self) -> Result<()> {
        // Completing frees changes trees, and the blocks that those give up become pending frees in turn.
        loop {
            self.write_checkpoint()?;
            if self.pending_frees.is_empty() {
                break;
            }
            self.complete_pending_frees()?;
        }
        self.store_superblock()?;
        for _ in 0..MOST_ROUNDS {
            self.write_checkpoint()?;
            if self.journal.push_active_items(u64::MAX)? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Gives the file system another label, durably: up to 12 bytes.
    ///
    /// # Errors
    /// A longer label; the device.
    pub fn set_label(&self, label: &[u8]) -> Result<()> {
        let mut bytes = [0; 12];
        let place = bytes.get_mut(..label.len()).ok_or(OperationError::InvalidArgument)?;
        place.copy_from_slice(label);
        *self.engine.label.lock() = bytes;
        self.store_superblock()?;
        self.force()
    }

    /// Logs the superblock with the counters as they are.
    fn store_superblock(&self) -> Result<()> {
        let mut transaction = Transaction::logged(self, Operation::Release)?;
        let length_bytes = self.geometry().sector_size_bytes;
        let mut buffer = transaction.buffers().edit(Structure::Superblock, Sector::new(0), length_bytes)?;
        buffer.edit().put_value(0, &self.superblock_now());
        drop(buffer);
        transaction.commit_quietly()
    }
}
