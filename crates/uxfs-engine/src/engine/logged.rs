//! A file system that is mounted for changes with its journal.
//!
//! What waits for something else to happen, and who does it:
//!
//! | waits | for | done by |
//! |---|---|---|
//! | changes of transactions | a checkpoint | who wants them durable, who finds no room in the log, [`Background`] |
//! | freed blocks | their checkpoint to be stable | [`Engine::complete_pending_frees`] |
//! | buffers | their checkpoint to be stable | [`Engine::push_active_items`] |
//!
//! Nobody who holds a transaction waits for any of these.

use std::sync::{
    Arc, OnceLock,
    atomic::Ordering::{AcqRel, Acquire, Relaxed},
};

use parking_lot::{Mutex, MutexGuard};
use uxfs_format::{
    fault::Structure,
    log::item::ItemType,
    units::{AgNumber, FsBlock, Sector},
};
use uxfs_journal::{
    journal::{FreedExtents, Journal, JournalCounters, JournalOptions, LogStart, Ticket},
    transaction::Mode,
};
use uxfs_volume::{superblock::refuse_unwritable, volume::Volume};

use super::{
    Engine, background::Background, forget_quota_counts, log_space::RoomQueue, moved_contents::MovedContents,
};
use crate::allocation_group::state::GroupState;
use crate::options::MountOptions;
use crate::transaction::{Transaction, reservation::Operation};
use uxfs_volume::error::{Error, OperationError, Result};

/// A log that still holds something after so many rounds will always do.
const MOST_ROUNDS: u32 = 10_000;

/// Of more groups than these the headers are read when they are needed, and not kept from mount on: a file system may have
/// millions of groups.
const MOST_KEPT_GROUPS: u32 = 1024;

/// What changing through the log takes.
#[derive(Debug)]
pub(super) struct Logged {
    mode: Mode,
    pub journal: Journal,
    /// Groups that have changed since the last checkpoint was closed, once each.
    changed_groups: Mutex<Vec<AgNumber>>,
    /// Blocks whose checkpoint is stable: to be put back.
    freed: Mutex<Vec<FreedExtents>>,
    /// One thread puts back at a time: who waits for free blocks waits for what another is putting back, too.
    completing_frees: Mutex<()>,
    /// Who waits for room in the log.
    pub(super) room: RoomQueue,
    /// Contents that another mapping leads to than the one on the device.
    pub(super) moved: MovedContents,
    pub background: OnceLock<Background>,
}

impl Logged {
    /// How transactions become durable.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The thread that writes checkpoints, as long as it does.
    fn background(&self) -> Option<&Background> {
        self.background.get().filter(|background| background.is_running())
    }
}

impl Engine {
    /// An engine that changes through the log, with the log at `start`.
    ///
    /// # Errors
    /// The device is read-only; the log is too small or cannot be written; damaged group headers; no thread.
    pub fn logged(volume: Volume, options: MountOptions, start: LogStart) -> Result<Arc<Self>> {
        refuse_unwritable(volume.device().as_ref(), volume.superblock())?;
        volume.begin_log_at(start.head)?;
        let has_quota_counts = forget_quota_counts(&mut volume.superblock().clone());
        let mut engine = Self::new(volume, options);
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
        engine.logged = Some(Logged {
            mode: if options.is_immediate { Mode::Immediate } else { Mode::Delayed },
            journal,
            changed_groups: Mutex::default(),
            freed: Mutex::default(),
            completing_frees: Mutex::default(),
            room: RoomQueue::new(start.recovered_tail.is_some()),
            moved: MovedContents::default(),
            background: OnceLock::new(),
        });
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

    pub(super) fn log(&self) -> Option<&Logged> {
        self.logged.as_ref()
    }

    /// The journal, of a file system that has one.
    pub fn journal(&self) -> Option<&Journal> {
        self.log().map(|logged| &logged.journal)
    }

    /// What the journal has done so far.
    pub fn journal_counters(&self) -> JournalCounters {
        self.journal().map(Journal::counters).unwrap_or_default()
    }

    /// Makes everything durable that has been done so far.
    ///
    /// # Errors
    /// The device failed, now or before.
    #[doc(alias = "syncfs")]
    pub fn force(&self) -> Result<()> {
        match self.journal() {
            Some(journal) => self.force_sequence(journal.sequence()),
            None => Ok(()),
        }
    }

    /// Makes everything durable up to this checkpoint: that of a change is [`Journal::sequence`] right after it.
    ///
    /// # Errors
    /// As [`force`](Self::force).
    pub fn force_sequence(&self, sequence: u64) -> Result<()> {
        let Some(logged) = self.log() else { return Ok(()) };
        let written = logged.journal.force::<Error>(sequence, |ticket| self.settle(ticket))?;
        logged.freed.lock().extend(written.freed);
        // Many small checkpoints fill the log as well.
        if logged.journal.is_half_full()
            && let Some(background) = logged.background()
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
        let Some(journal) = self.journal() else { return Ok(()) };
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
        let Some(logged) = self.log() else { return Ok(()) };
        let written = logged.journal.checkpoint::<Error>(None, |ticket| self.settle(ticket))?;
        logged.freed.lock().extend(written.freed);
        Ok(())
    }

    /// Writes what has been changed and not been logged, if there is anything.
    pub(super) fn write_uncommitted(&self) -> Result<()> {
        if self.journal().is_some_and(Journal::has_uncommitted) {
            self.write_checkpoint()?;
            self.complete_pending_frees()?;
        }
        Ok(())
    }

    /// Writes the checkpoint that has been closed; if there is none, the one that is being filled, where it is time.
    fn write_due_checkpoint(&self) -> Result<()> {
        let Some(logged) = self.log() else { return Ok(()) };
        if !logged.journal.has_closed_checkpoint() {
            return if self.is_upkeep_due() { self.write_checkpoint() } else { Ok(()) };
        }
        let written = logged.journal.write_closed_checkpoint()?;
        logged.freed.lock().extend(written.freed);
        Ok(())
    }

    /// Brings what is only in memory of the groups that have changed into their buffers. No transaction is under way.
    fn settle(&self, ticket: Ticket<'_>) -> Result<()> {
        let Some(logged) = self.log() else { return Ok(()) };
        let mut groups = std::mem::take(&mut *logged.changed_groups.lock());
        groups.sort_unstable();
        let mut transaction = Transaction::for_checkpoint_switch(self, ticket);
        for group in &groups {
            transaction.flush_group(*group)?;
        }
        transaction.require_in_use(&logged.journal.freed_so_far(), &groups)?;
        transaction.finish_checkpoint_switch(&groups)
    }

    /// A group has changed in the checkpoint that is being filled, for the first time.
    pub fn note_changed_group(&self, group: AgNumber) {
        if let Some(logged) = self.log() {
            logged.changed_groups.lock().push(group);
        }
    }

    /// Reserves blocks for an operation, which leaves `kept_blocks` to those that are more important; freed blocks that
    /// wait for their checkpoint are waited for.
    ///
    /// # Errors
    /// [`OperationError::NoSpace`]; the device failed, now or before.
    pub fn reserve_blocks(&self, blocks: u64, kept_blocks: u64) -> Result<()> {
        let Some(counters) = self.logged_counters() else {
            // Images are filled to the last block, and who takes away from a full one may try.
            if kept_blocks > 0 && blocks > 0 && self.free_blocks() < blocks {
                return Err(OperationError::NoSpace.into());
            }
            return Ok(());
        };
        if blocks == 0 {
            return Ok(());
        }
        let wanted = i64::try_from(blocks).map_err(|_| OperationError::NoSpace)?;
        let may_reserve =
            |reserved: i64| self.available_blocks().saturating_sub_unsigned(kept_blocks) >= reserved;
        if counters.take_cached(blocks) {
            if may_reserve(counters.reserved_blocks.load(Acquire)) {
                return Ok(());
            }
            counters.reserved_blocks.fetch_sub(wanted, AcqRel);
        }
        for _ in 0..3 {
            counters.reserved_blocks.fetch_add(wanted, AcqRel);
            let reserved = || counters.reserved_blocks.load(Acquire);
            if may_reserve(reserved()) || counters.reclaim_cached() && may_reserve(reserved()) {
                return Ok(());
            }
            counters.reserved_blocks.fetch_sub(wanted, AcqRel);
            if !self.wait_for_freed_blocks()? {
                break;
            }
        }
        Err(OperationError::NoSpace.into())
    }

    /// Has blocks become free that wait for a checkpoint: gives whether there were any. Who calls this holds no
    /// transaction.
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

    /// Gives back what an operation has not taken.
    pub fn release_blocks(&self, blocks: u64) {
        if let Some(counters) = self.logged_counters().filter(|_| blocks > 0) {
            counters.cache_unused(blocks);
        }
    }

    /// Free blocks that operations may take: without those that groups keep for their trees and free lists.
    #[doc(alias = "xfs_fdblocks_unavailable")]
    pub fn available_blocks(&self) -> i64 {
        let hidden =
            self.logged_counters().map_or(0, |counters| counters.ag_reservation_blocks.load(Relaxed));
        let set_aside = i64::from(self.geometry().ag_count) * 8;
        self.free_blocks().cast_signed() - set_aside - hidden
    }

    /// Reads the headers of all groups: each keeps blocks for its own trees, which operations must not promise to each
    /// other.
    fn count_ag_reservations(&self) -> Result<()> {
        if !self.counts_ag_reservations() {
            return Ok(());
        }
        let keeps_all = self.geometry().ag_count <= MOST_KEPT_GROUPS;
        for group in self.groups_with_headers() {
            let mut state = GroupState::new(group);
            state.load(self)?;
            self.add_ag_reservation_blocks(state.ag_reservation_blocks().into());
            if keeps_all || state.has_unlinked() {
                *self.group_state(group)?.lock() = state;
            }
        }
        Ok(())
    }

    /// Whether the blocks that groups keep for their own trees were counted at mount.
    pub fn counts_ag_reservations(&self) -> bool {
        let features = &self.geometry().features;
        let has_trees =
            features.has_reflink() || features.has_free_inode_btree() || features.has_reverse_map();
        has_trees && self.log().is_some()
    }

    /// The blocks that groups keep for their own trees have become more, or fewer.
    pub fn add_ag_reservation_blocks(&self, change: i64) {
        if let Some(counters) = self.logged_counters() {
            counters.ag_reservation_blocks.fetch_add(change, Relaxed);
        }
    }

    /// Blocks that have been freed and will be free once their checkpoint is stable.
    pub fn freed_blocks(&self) -> u64 {
        self.logged_counters()
            .map_or(0, |counters| counters.freed_blocks.load(Acquire).max(0).cast_unsigned())
    }

    /// Blocks have been freed that wait for their checkpoint; or have been put back.
    pub fn note_freed_blocks(&self, blocks: i64) {
        if let Some(counters) = self.logged_counters() {
            counters.freed_blocks.fetch_add(blocks, Relaxed);
        }
    }

    /// Puts freed blocks back whose checkpoint is stable. Who calls this holds no transaction.
    ///
    /// # Errors
    /// Damage; the device failed, now or before.
    #[doc(alias = "xfs_extent_busy_clear")]
    pub fn complete_pending_frees(&self) -> Result<()> {
        let Some(logged) = self.log() else { return Ok(()) };
        self.complete_all_pending_frees(logged, logged.completing_frees.lock())
    }

    /// As [`complete_pending_frees`](Self::complete_pending_frees), if nobody does it already: for who is between two transactions of one
    /// operation, which may be that of putting back.
    ///
    /// # Errors
    /// As there.
    pub fn complete_pending_frees_beside(&self) -> Result<()> {
        let Some(logged) = self.log() else { return Ok(()) };
        logged.completing_frees.try_lock().map_or(Ok(()), |one| self.complete_all_pending_frees(logged, one))
    }

    fn complete_all_pending_frees(&self, logged: &Logged, _one: MutexGuard<'_, ()>) -> Result<()> {
        let all = std::mem::take(&mut *logged.freed.lock());
        if !all.is_empty() {
            logged.journal.wait_for_writes();
        }
        for freed in all {
            let extents = u32::try_from(freed.extents.len()).unwrap_or(u32::MAX);
            let mut transaction = Transaction::begin_for(self, Operation::CompleteFrees { extents })?;
            let mut blocks = 0;
            for extent in &freed.extents {
                let start = FsBlock::new(extent.start_block.get());
                let place = self.geometry().split_fs_block(start).ok_or(OperationError::NoSuchGroup)?;
                let length_blocks = extent.length_blocks.get();
                transaction.complete_free(place, length_blocks)?;
                blocks += i64::from(length_blocks);
            }
            transaction.intent_done(ItemType::FreeExtentDone, freed.intent, &freed.extents);
            transaction.commit_quietly()?;
            self.note_freed_blocks(-blocks);
        }
        Ok(())
    }

    /// Writes home what is stable: what holds the older half of the log, or all where `is_all`.
    ///
    /// # Errors
    /// The device failed, now or before.
    pub fn push_active_items(&self, is_all: bool) -> Result<()> {
        let Some(journal) = self.journal() else { return Ok(()) };
        journal.push_active_items(if is_all { u64::MAX } else { journal.older_half() }).map(drop)?;
        Ok(())
    }

    /// What is to be done from time to time, after a transaction: by the background thread if there is one, else now.
    pub fn after_commit(&self, sequence: u64) -> Result<()> {
        let Some(logged) = self.log() else { return self.write_back_if_crowded() };
        if self.mode() == Mode::Immediate {
            self.force_sequence(sequence)?;
            self.complete_pending_frees()?;
        }
        if !self.is_upkeep_due() {
            return Ok(());
        }
        let background = logged.background();
        if let Some(background) = background {
            logged.journal.close_if_due::<Error>(|ticket| self.settle(ticket))?;
            background.wake();
        }
        // Who changes faster than the thread writes must not fill all memory.
        if background.is_some() && self.cache().dirty_bytes() <= self.cache().buffer_budget_bytes() {
            return Ok(());
        }
        self.upkeep()
    }

    fn is_upkeep_due(&self) -> bool {
        self.journal().is_some_and(Journal::is_checkpoint_due) || self.is_crowded()
    }

    fn is_crowded(&self) -> bool {
        self.cache().dirty_bytes() > self.cache().buffer_budget_bytes() / 2
    }

    /// Writes a checkpoint, puts back what has become free, and brings home what holds the log or fills the memory.
    pub fn upkeep(&self) -> Result<()> {
        let Some(logged) = self.log() else { return Ok(()) };
        self.write_due_checkpoint()?;
        self.complete_pending_frees()?;
        let journal = &logged.journal;
        let first_at_most = match (self.is_crowded(), journal.is_half_full()) {
            (true, _) => u64::MAX,
            (false, true) => journal.older_half(),
            (false, false) => return Ok(()),
        };
        // Meanwhile transactions go on. They must not have to wait for the next checkpoint until all this is home.
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

    /// Brings everything home and closes the log in good order.
    pub(super) fn close_logged(&self) -> Result<()> {
        let Some(logged) = self.log() else { return Ok(()) };
        if let Some(background) = logged.background() {
            background.stop();
        }
        // What is put back changes trees, and what those give up is to be put back in turn.
        loop {
            self.write_checkpoint()?;
            if logged.freed.lock().is_empty() {
                break;
            }
            self.complete_pending_frees()?;
        }
        self.store_superblock()?;
        for _ in 0..MOST_ROUNDS {
            self.write_checkpoint()?;
            if logged.journal.push_active_items(u64::MAX)? == 0 {
                break;
            }
        }
        Ok(logged.journal.close()?)
    }

    /// Logs the superblock with the counters as they are.
    pub(super) fn store_superblock(&self) -> Result<()> {
        let mut transaction = Transaction::begin_for(self, Operation::Release)?;
        let length_bytes = self.geometry().sector_size_bytes;
        let mut buffer = transaction.buffers().edit(Structure::Superblock, Sector::new(0), length_bytes)?;
        buffer.edit().put_value(0, &self.superblock_now());
        drop(buffer);
        transaction.commit_quietly()
    }
}
