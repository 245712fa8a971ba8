//! The end of a transaction, and of each of its steps.

use uxfs_format::{
    log::{free_extent::FreedExtent, item::ItemType},
    units::{AgBlock, AgNumber, FsBlock},
};
use uxfs_journal::{
    journal::{IntentId, Journal, LogReservation, Ticket},
    transaction::Mode,
};

use super::{Transaction, deferred::FreedOwner};
use crate::allocation_group::state::GroupState;
use crate::engine::Engine;
use uxfs_volume::{
    cause,
    error::{OperationError, Result},
};

impl<'fs> Transaction<'fs> {
    /// Ends the transaction: does deferred work, in steps of its own where there is much, puts counters where they
    /// belong, gives the groups back. In bulk mode what is left can be used for the next operation.
    ///
    /// # Errors
    /// Damage; the device; no space.
    #[doc(alias = "xfs_trans_commit")]
    pub fn commit(&mut self) -> Result<()> {
        let sequence = self.finish()?;
        self.engine.after_commit(sequence)
    }

    /// As [`commit`](Self::commit), leaving to others what is to be done from time to time.
    ///
    /// # Errors
    /// As there.
    pub fn commit_quietly(&mut self) -> Result<()> {
        self.finish().map(drop)
    }

    /// Gives the checkpoint in which the last step is; 0 in bulk mode.
    fn finish(&mut self) -> Result<u64> {
        if self.buffers.mode() == Mode::Bulk {
            self.finish_deferred()?;
        } else {
            self.finish_deferred_in_steps()?;
        }
        let reserved_blocks = std::mem::take(&mut self.reserved_blocks);
        let sequence = self.end_step_of(reserved_blocks);
        self.has_begun = false;
        Ok(sequence)
    }

    /// What has changed so far becomes visible to a cut; groups are given back, after the journal knows what was done in
    /// them.
    pub(super) fn end_step(&mut self) -> u64 {
        self.end_step_of(0)
    }

    /// As above, giving back `reserved_blocks` that will not be taken any more.
    fn end_step_of(&mut self, reserved_blocks: u64) -> u64 {
        self.list_changed_groups();
        let ticket = self.buffers.take_ticket();
        let sequence = ticket.as_ref().map_or(0, Ticket::sequence);
        self.engine.apply_counters(std::mem::take(&mut self.counters));
        self.engine.release_blocks(reserved_blocks);
        if let Some(ticket) = ticket {
            ticket.commit();
        }
        self.groups.clear();
        sequence
    }

    /// Gives all groups back in the middle of a step; the next cut settles them whoever has them then.
    pub fn give_back_groups(&mut self) {
        self.list_changed_groups();
        self.has_begun |= self.groups.iter().any(|state| state.has_changed);
        self.groups.clear();
    }

    /// Tells the next cut which groups it has to settle.
    fn list_changed_groups(&mut self) {
        let Some(ticket) = self.buffers.ticket() else { return };
        for state in &mut self.groups {
            if state.lists_itself() {
                self.engine.note_changed_group(state.group());
                ticket.reserve(self.engine.needs().log.group());
            }
        }
    }

    /// Ends a step under intents for what is left to do, and begins the next.
    #[doc(alias = "xfs_trans_roll")]
    pub(super) fn roll(&mut self) -> Result<()> {
        let sequence = self.end_step();
        self.has_begun = true;
        let is_immediate = self.buffers.mode() == Mode::Immediate;
        if is_immediate {
            self.engine.force_sequence(sequence)?;
        }
        // Intents to free what earlier steps gave up hold the tail, too.
        if is_immediate || self.engine.journal().is_some_and(Journal::is_half_full) {
            self.engine.complete_pending_frees_beside()?;
        }
        let old = self.old_intents()?;
        // The intents of this transaction hold the tail from now on: who waits for room in turn may be waiting for their end.
        let claim_bytes = self.next_step_bytes() + old.map_or(0, |old| old.bytes);
        if let Some(ticket) = self.engine.begin_ticket(claim_bytes, LogReservation::Urgent)? {
            self.buffers.set_ticket(ticket);
        }
        old.map_or(Ok(()), |old| self.relog_intents(old))
    }

    /// What a cut itself changes.
    pub fn for_checkpoint_switch(engine: &'fs Engine, ticket: Ticket<'fs>) -> Self {
        Self::new(engine, Mode::Delayed, Some(ticket))
    }

    /// Has the trees of a group told what waits in memory.
    pub fn flush_group(&mut self, group: AgNumber) -> Result<()> {
        self.group(group)?.settle()
    }

    /// Makes sure, before a checkpoint says that blocks are to be freed, that they can be: that none of them is free already.
    /// Otherwise the log would hold an intent that recovery cannot finish, and the image could not be opened.
    pub fn require_in_use(&mut self, freed: &[FreedExtent], settled: &[AgNumber]) -> Result<()> {
        let mut behind = 0;
        for extent in freed {
            let (start, length_blocks) = (FsBlock::new(extent.start_block.get()), extent.length_blocks.get());
            let place = self.engine.geometry().split_fs_block(start);
            let (group, block) = place.ok_or(OperationError::NoSuchGroup)?;
            let held = self.held_groups();
            let mut edit = self.group(group)?;
            // Two owners have given up the same blocks.
            if start.get() < behind {
                return Err(edit.freed_twice(block, length_blocks));
            }
            edit.require_in_use(block, length_blocks)?;
            if !settled.contains(&group) {
                self.give_back_untouched(held);
            }
            behind = start.get().saturating_add(length_blocks.into());
        }
        Ok(())
    }

    /// Brings the headers of all settled groups into their buffers.
    pub fn finish_checkpoint_switch(&mut self, groups: &[AgNumber]) -> Result<()> {
        self.finish_deferred()?;
        debug_assert!(
            self.groups.iter().all(|held| groups.contains(&held.group())),
            "a cut changes nothing but what it settles"
        );
        for group in groups {
            let edit = self.group(*group)?;
            edit.state.store(edit.buffers)?;
            (edit.state.is_listed, edit.state.reserved_reverse_map_bytes) = (false, 0);
            let change = edit.state.change_of_ag_reservation_blocks();
            self.engine.add_ag_reservation_blocks(change);
        }
        self.engine.apply_counters(std::mem::take(&mut self.counters));
        if let Some(ticket) = self.buffers.take_ticket() {
            ticket.commit();
        }
        self.groups.clear();
        Ok(())
    }

    /// Puts blocks back among the free ones that nobody owns.
    pub fn complete_free(&mut self, (group, start): (AgNumber, AgBlock), length_blocks: u32) -> Result<()> {
        self.group(group)?.free_of(start, length_blocks, FreedOwner::Nobody)
    }

    /// The work of an intent has been done.
    pub fn intent_done(&mut self, kind: ItemType, id: IntentId, extents: &[FreedExtent]) {
        if let Some(ticket) = self.buffers.ticket() {
            ticket.done(kind, id, extents);
        }
    }

    /// File contents have been written that mappings in this transaction make visible: they are flushed before it is
    /// stable, so that nobody ever reads there what was before.
    pub fn depends_on_data(&mut self) {
        self.has_written_contents = true;
        if let Some(journal) = self.engine.journal() {
            journal.depends_on_write();
        }
    }

    /// Whether contents of files were written.
    pub fn has_written_contents(&self) -> bool {
        self.has_written_contents
    }

    /// Another mapping leads to these contents from now on: nobody overwrites them before this transaction is stable.
    pub fn note_moved_contents(&mut self, start: FsBlock, length_blocks: u64) {
        let sequence = self.sequence();
        self.engine.note_moved_contents(start, length_blocks, sequence);
    }

    /// The checkpoint in which changes made now will be; 0 in bulk mode.
    pub fn sequence(&mut self) -> u64 {
        self.buffers.ticket().map_or(0, |ticket| ticket.sequence())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.engine.release_blocks(self.reserved_blocks);
        if self.buffers.ticket().is_some() || self.has_begun {
            self.give_up();
        }
        cause::end();
    }
}

impl Transaction<'_> {
    /// It ends without a commit. Half a change shuts the journal down while the commit lock is still held, so that no
    /// checkpoint takes it along.
    #[cold]
    fn give_up(&mut self) {
        cause::count_failure();
        let cause = cause::last();
        if self.is_half_done()
            && let Some(journal) = self.engine.journal()
        {
            let cause = cause.as_deref().unwrap_or("no error was given");
            journal.shut_down(&format_args!("a change was left half done: {cause}"));
        }
    }
}

impl GroupState {
    /// Whether it has changed since the last cut and nobody has said so yet.
    fn lists_itself(&mut self) -> bool {
        let is_new = !self.is_listed && self.needs_settling();
        self.is_listed |= is_new;
        is_new
    }
}
