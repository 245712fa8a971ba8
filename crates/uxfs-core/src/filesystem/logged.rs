//! A file system that is mounted for changes with its journal.
//!
//! What waits for something else to happen, and who does it:
//!
//! | waits | for | done by |
//! |---|---|---|
//! | changes of transactions | a checkpoint | who wants them durable, who finds no room in the log, [`Background`] |
//! | freed blocks | their checkpoint to be stable | [`FileSystem::put_back_freed`] |
//! | buffers | their checkpoint to be stable | [`FileSystem::write_home`] |
//!
//! Nobody who holds a transaction waits for any of these.

use std::sync::{
    Arc, OnceLock,
    atomic::Ordering::{AcqRel, Acquire, Relaxed},
};

use parking_lot::{Mutex, MutexGuard};
use uxfs_block::device::BlockDevice;
use uxfs_format::{
    fault::Structure,
    log::item::ItemType,
    units::{AgNumber, FsBlock, Lsn, Sector},
};
use uxfs_journal::{
    LogState,
    area::LogArea,
    journal::{FreedExtents, Journal, JournalCounters, JournalOptions, LogStart, Ticket},
    recovery::stale::clear_ahead_of_clean,
    transaction::Mode,
};

use super::{
    FileSystem, background::Background, log_room::RoomQueue, moved::MovedContents, writing::Writing,
};
use crate::{
    error::{Error, OperationError, Result},
    mount::MountOptions,
    recovery,
    transaction::{Transaction, reservation::Operation},
};

/// A log that still holds something after so many rounds will always do.
const MOST_ROUNDS: u32 = 10_000;

/// What changing through the log takes.
#[derive(Debug)]
pub(super) struct Logged {
    pub journal: Journal,
    /// Groups that have changed since the last cut, once each.
    changed_groups: Mutex<Vec<AgNumber>>,
    /// Blocks whose checkpoint is stable: to be put back.
    freed: Mutex<Vec<FreedExtents>>,
    /// One thread puts back at a time: who waits for free blocks waits for what another is putting back, too.
    putting_back: Mutex<()>,
    /// Who waits for room in the log.
    pub(super) room: RoomQueue,
    /// Contents that another mapping leads to than the one on the device.
    pub(super) moved: MovedContents,
    pub background: OnceLock<Background>,
}

impl Logged {
    /// The thread that writes checkpoints, as long as it does.
    fn background(&self) -> Option<&Background> {
        self.background.get().filter(|background| background.is_running())
    }
}

impl FileSystem {
    /// Mounts for changes that survive a crash at any moment. A dirty log is replayed first, and the image is recovered.
    ///
    /// # Errors
    /// As for [`mount`](Self::mount); the device is read-only; features that uxfs cannot write.
    pub fn mount_logged(device: Arc<dyn BlockDevice>, options: &MountOptions) -> Result<Arc<Self>> {
        if device.is_read_only() {
            return Err(OperationError::ReadOnly.into());
        }
        let file_system = match Self::mount(Arc::clone(&device), options) {
            Err(Error::Operation(OperationError::DirtyLog { .. })) => {
                if let Some(recovered) = recovery::recover(&device, options, &mut ())? {
                    recovered.write()?;
                }
                Self::mount(device, options)?
            }
            result => result?,
        };
        let start = match file_system.log_state() {
            None => return Err(OperationError::ReadOnly.into()),
            Some(LogState::Clean(log)) => {
                let device = file_system.device().as_ref();
                let area = LogArea::new(device, file_system.geometry())?;
                clear_ahead_of_clean(&area, log, device)?;
                LogStart { head: log.head, previous_block: log.newest.block(), recovered_tail: None }
            }
            Some(_) => {
                LogStart { head: Lsn::from_parts(1, 0), previous_block: u32::MAX, recovered_tail: None }
            }
        };
        file_system.into_logged(start)
    }

    /// Goes on from mounted for reading to mounted for changes, with the log at `start`.
    pub(crate) fn into_logged(mut self, start: LogStart) -> Result<Arc<Self>> {
        let options = self.options.log;
        let mut journal_options = JournalOptions {
            largest_claim_bytes: self.needs.log.largest(&self.needs),
            urgent_bytes: self.needs.log.largest_urgent(&self.needs) / 2 * 3,
            ..JournalOptions::default()
        };
        if options.record_size_bytes != 0 {
            journal_options.record_size_bytes = options.record_size_bytes;
        }
        let journal = Journal::open(Arc::clone(&self.cache), self.geometry.clone(), start, journal_options)?;
        let mode = if options.is_immediate { Mode::Immediate } else { Mode::Delayed };
        let mut writing = Writing::new(mode, &self.geometry, &self.superblock);
        writing.logged = Some(Logged {
            journal,
            changed_groups: Mutex::default(),
            freed: Mutex::default(),
            putting_back: Mutex::default(),
            room: RoomQueue::new(start.recovered_tail.is_some()),
            moved: MovedContents::default(),
            background: OnceLock::new(),
        });
        self.writing = Some(writing);
        self.count_hidden_blocks()?;
        let file_system = Arc::new(self);
        file_system.inode_table().belongs_to(&file_system);
        if options.has_background {
            Background::start(&file_system)?;
        }
        Ok(file_system)
    }

    pub(super) fn logged(&self) -> Option<&Logged> {
        self.writing.as_ref()?.logged.as_ref()
    }

    /// The journal, of a file system that has one.
    pub fn journal(&self) -> Option<&Journal> {
        self.logged().map(|logged| &logged.journal)
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
        let Some(logged) = self.logged() else { return Ok(()) };
        let cut = logged.journal.force::<Error>(sequence, |ticket| self.settle(ticket))?;
        logged.freed.lock().extend(cut.freed);
        // Many small checkpoints fill the log as well.
        if logged.journal.is_half_full()
            && let Some(background) = logged.background()
        {
            background.wake();
        }
        Ok(())
    }

    /// Writes a checkpoint of what has been done so far.
    pub(super) fn write_checkpoint(&self) -> Result<()> {
        let Some(logged) = self.logged() else { return Ok(()) };
        let cut = logged.journal.checkpoint::<Error>(None, |ticket| self.settle(ticket))?;
        logged.freed.lock().extend(cut.freed);
        Ok(())
    }

    /// Brings what is only in memory of the groups that have changed into their buffers. No transaction is under way.
    fn settle(&self, ticket: Ticket<'_>) -> Result<()> {
        let Some(logged) = self.logged() else { return Ok(()) };
        let mut groups = std::mem::take(&mut *logged.changed_groups.lock());
        groups.sort_unstable();
        let mut transaction = Transaction::of_cut(self, ticket);
        for group in &groups {
            transaction.settle_group(*group)?;
        }
        transaction.require_in_use(&logged.journal.freed_so_far(), &groups)?;
        transaction.end_cut(&groups)
    }

    /// A group has changed in the checkpoint that is being filled, for the first time.
    pub(crate) fn note_changed_group(&self, group: AgNumber) {
        if let Some(logged) = self.logged() {
            logged.changed_groups.lock().push(group);
        }
    }

    /// Reserves blocks for an operation, which leaves `kept_blocks` to those that are more important; freed blocks that
    /// wait for their checkpoint are waited for.
    ///
    /// # Errors
    /// [`OperationError::NoSpace`]; the device failed, now or before.
    pub(crate) fn reserve_blocks(&self, blocks: u64, kept_blocks: u64) -> Result<()> {
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
        if counters.take_credit(blocks) {
            if may_reserve(counters.reserved_blocks.load(Acquire)) {
                return Ok(());
            }
            counters.reserved_blocks.fetch_sub(wanted, AcqRel);
        }
        for _ in 0..3 {
            counters.reserved_blocks.fetch_add(wanted, AcqRel);
            let reserved = || counters.reserved_blocks.load(Acquire);
            if may_reserve(reserved()) || counters.take_credits() && may_reserve(reserved()) {
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
    pub(crate) fn wait_for_freed_blocks(&self) -> Result<bool> {
        if self.freed_blocks() == 0 {
            return Ok(false);
        }
        self.write_checkpoint()?;
        self.put_back_freed()?;
        Ok(true)
    }

    /// Gives back what an operation has not taken.
    pub(crate) fn release_blocks(&self, blocks: u64) {
        if let Some(counters) = self.logged_counters().filter(|_| blocks > 0) {
            counters.give_credit(blocks);
        }
    }

    /// Free blocks that operations may take: without those that groups keep for their trees and free lists.
    #[doc(alias = "xfs_fdblocks_unavailable")]
    pub fn available_blocks(&self) -> i64 {
        let hidden = self.logged_counters().map_or(0, |counters| counters.hidden_blocks.load(Relaxed));
        let set_aside = i64::from(self.geometry.ag_count) * 8;
        self.free_blocks().cast_signed() - set_aside - hidden
    }

    /// Reads the headers of all groups: each keeps blocks for its own trees, which operations must not promise to each
    /// other.
    fn count_hidden_blocks(&self) -> Result<()> {
        let features = &self.geometry.features;
        if !features.has_reflink() && !features.has_free_inode_btree() && !features.has_reverse_map() {
            return Ok(());
        }
        for group in self.geometry.groups() {
            let mut state = self.group_state(group)?.lock();
            state.load(self)?;
            self.add_hidden_blocks(state.change_of_hidden_blocks());
        }
        Ok(())
    }

    pub(crate) fn add_hidden_blocks(&self, change: i64) {
        if let Some(counters) = self.logged_counters() {
            counters.hidden_blocks.fetch_add(change, Relaxed);
        }
    }

    /// Blocks that have been freed and will be free once their checkpoint is stable.
    pub fn freed_blocks(&self) -> u64 {
        self.logged_counters()
            .map_or(0, |counters| counters.freed_blocks.load(Acquire).max(0).cast_unsigned())
    }

    pub(crate) fn note_freed_blocks(&self, blocks: i64) {
        if let Some(counters) = self.logged_counters() {
            counters.freed_blocks.fetch_add(blocks, Relaxed);
        }
    }

    /// Puts freed blocks back whose checkpoint is stable. Who calls this holds no transaction.
    ///
    /// # Errors
    /// Damage; the device failed, now or before.
    #[doc(alias = "xfs_extent_busy_clear")]
    pub fn put_back_freed(&self) -> Result<()> {
        let Some(logged) = self.logged() else { return Ok(()) };
        self.put_back_all(logged, logged.putting_back.lock())
    }

    /// As [`put_back_freed`](Self::put_back_freed), if nobody does it already: for who is between two transactions of one
    /// operation, which may be that of putting back.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn put_back_freed_beside(&self) -> Result<()> {
        let Some(logged) = self.logged() else { return Ok(()) };
        logged.putting_back.try_lock().map_or(Ok(()), |one| self.put_back_all(logged, one))
    }

    fn put_back_all(&self, logged: &Logged, _one: MutexGuard<'_, ()>) -> Result<()> {
        let all = std::mem::take(&mut *logged.freed.lock());
        if !all.is_empty() {
            logged.journal.wait_for_writes();
        }
        for freed in all {
            let extents = u32::try_from(freed.extents.len()).unwrap_or(u32::MAX);
            let mut transaction = Transaction::begin_for(self, Operation::PutBack { extents })?;
            let mut blocks = 0;
            for extent in &freed.extents {
                let start = FsBlock::new(extent.start_block.get());
                let place = self.geometry.split_fs_block(start).ok_or(OperationError::NoSuchGroup)?;
                let length_blocks = extent.length_blocks.get();
                transaction.put_back(place, length_blocks)?;
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
    pub fn write_home(&self, is_all: bool) -> Result<()> {
        let Some(journal) = self.journal() else { return Ok(()) };
        journal.write_home(if is_all { u64::MAX } else { journal.older_half() }).map(drop)?;
        Ok(())
    }

    /// What is to be done from time to time, after a transaction: by the background thread if there is one, else now.
    pub(crate) fn after_commit(&self, sequence: u64) -> Result<()> {
        let Some(logged) = self.logged() else { return self.write_back_if_crowded() };
        if self.mode() == Some(Mode::Immediate) {
            self.force_sequence(sequence)?;
            self.put_back_freed()?;
        }
        if !self.is_upkeep_due() {
            return Ok(());
        }
        let has_background = logged.background().inspect(|background| background.wake()).is_some();
        // Who changes faster than the thread writes must not fill all memory.
        if has_background && self.cache.dirty_bytes() <= self.cache.budget_bytes() {
            return Ok(());
        }
        self.upkeep()
    }

    fn is_upkeep_due(&self) -> bool {
        self.journal().is_some_and(Journal::is_checkpoint_due) || self.is_crowded()
    }

    fn is_crowded(&self) -> bool {
        self.cache.dirty_bytes() > self.cache.budget_bytes() / 2
    }

    /// Writes a checkpoint, puts back what has become free, and brings home what holds the log or fills the memory.
    pub(crate) fn upkeep(&self) -> Result<()> {
        let Some(logged) = self.logged() else { return Ok(()) };
        self.write_checkpoint()?;
        self.put_back_freed()?;
        let journal = &logged.journal;
        let first_at_most = match (self.is_crowded(), journal.is_half_full()) {
            (true, _) => u64::MAX,
            (false, true) => journal.older_half(),
            (false, false) => return Ok(()),
        };
        // Meanwhile transactions go on. They must not have to wait for the next checkpoint until all this is home.
        let write_checkpoint = || {
            self.write_checkpoint()?;
            self.put_back_freed()
        };
        journal.write_home_beside(first_at_most, || journal.is_checkpoint_due(), write_checkpoint)?;
        Ok(())
    }

    /// Brings everything home and closes the log in good order.
    pub(super) fn close_logged(&self) -> Result<()> {
        let Some(logged) = self.logged() else { return Ok(()) };
        if let Some(background) = logged.background() {
            background.stop();
        }
        // What is put back changes trees, and what those give up is to be put back in turn.
        loop {
            self.write_checkpoint()?;
            if logged.freed.lock().is_empty() {
                break;
            }
            self.put_back_freed()?;
        }
        self.store_superblock()?;
        for _ in 0..MOST_ROUNDS {
            self.write_checkpoint()?;
            if logged.journal.write_home(u64::MAX)? == 0 {
                break;
            }
        }
        Ok(logged.journal.close()?)
    }

    /// Logs the superblock with the counters as they are.
    fn store_superblock(&self) -> Result<()> {
        let mut transaction = Transaction::begin_for(self, Operation::Release)?;
        let length_bytes = self.geometry.sector_size_bytes;
        let mut buffer = transaction.buffers().edit(Structure::Superblock, Sector::new(0), length_bytes)?;
        buffer.edit().put_value(0, &self.superblock_now());
        drop(buffer);
        transaction.commit_quietly()
    }
}
