//! The end of a transaction, and of each of its steps.

use uxfs_format::{
    fault::Structure,
    log::{free_extent::FreedExtent, item::ItemType},
    units::{FsBlock, Sector},
};
use uxfs_journal::journal::IntentId;

use super::{Transaction, steps::LoggedSteps};
use crate::allocation_group::state::GroupState;
use crate::engine::{EngineRef, LoggedEngine};
use uxfs_volume::{
    cause::{self, Cause},
    error::Result,
};

impl<'fs> Transaction<'fs> {
    /// Ends the transaction: does deferred work, in steps of its own where there is much, applies the counters, and
    /// releases the groups. In bulk mode the transaction can be used for the next operation.
    ///
    /// # Errors
    /// Damage; the device; no space.
    #[doc(alias = "xfs_trans_commit")]
    pub fn commit(&mut self) -> Result<()> {
        match self.mode {
            EngineRef::Logged(engine) => {
                let sequence = self.finish_logged(engine)?;
                engine.after_commit(sequence)
            }
            EngineRef::Bulk(engine) => {
                self.finish_bulk()?;
                engine.write_back_if_crowded()
            }
        }
    }

    /// As [`commit`](Self::commit), leaving to others what is to be done from time to time.
    ///
    /// # Errors
    /// As there.
    pub fn commit_quietly(&mut self) -> Result<()> {
        match self.mode {
            EngineRef::Logged(engine) => self.finish_logged(engine).map(drop),
            EngineRef::Bulk(_) => self.finish_bulk(),
        }
    }

    /// Returns the checkpoint in which the last step is.
    fn finish_logged(&mut self, engine: &'fs LoggedEngine) -> Result<u64> {
        LoggedSteps::new(self, engine).finish_deferred()?;
        let sequence = self.end_logged_step(engine, self.reserved_blocks)?;
        self.has_begun = false;
        Ok(sequence)
    }

    fn finish_bulk(&mut self) -> Result<()> {
        self.finish_deferred()?;
        self.engine.apply_counters(std::mem::take(&mut self.counters));
        self.groups.clear();
        self.has_begun = false;
        if std::mem::take(&mut self.makes_attribute_fork) {
            // Closing the image writes the superblock.
            let _ = self.engine.note_attributes(0);
        }
        Ok(())
    }

    /// Ends a step: its changes become part of the checkpoint, `returned_blocks` of the reservation are released, and so
    /// are the groups, after the journal knows what was done in them. Returns the checkpoint that holds the step.
    ///
    /// # Errors
    /// The superblock cannot be read.
    pub(super) fn end_logged_step(&mut self, engine: &LoggedEngine, returned_blocks: u64) -> Result<u64> {
        let sequence = self.sequence();
        if std::mem::take(&mut self.makes_attribute_fork) && self.engine.note_attributes(sequence) {
            let length_bytes = self.engine.geometry().sector_size_bytes;
            let mut buffer = self.buffers.edit(Structure::Superblock, Sector::new(0), length_bytes)?;
            buffer.edit().put_value(0, &self.engine.superblock_now());
        }
        self.reserved_blocks = self.reserved_blocks.saturating_sub(returned_blocks);
        self.list_changed_groups(engine);
        self.engine.apply_counters(std::mem::take(&mut self.counters));
        engine.release_blocks(returned_blocks);
        if let Some(ticket) = self.buffers.take_ticket() {
            ticket.commit();
        }
        self.groups.clear();
        Ok(sequence)
    }

    /// Releases all groups in the middle of a step; the next checkpoint switch settles them whichever transaction has them
    /// then.
    pub fn give_back_groups(&mut self) {
        if let EngineRef::Logged(engine) = self.mode {
            self.list_changed_groups(engine);
        }
        self.has_begun |= self.groups.iter().any(|state| state.has_changed);
        self.groups.clear();
    }

    /// Tells the next checkpoint switch which groups it has to settle.
    fn list_changed_groups(&mut self, engine: &LoggedEngine) {
        let Some(ticket) = self.buffers.ticket() else { return };
        for state in &mut self.groups {
            if state.lists_itself() {
                engine.note_changed_group(state.group());
                ticket.reserve(engine.needs().log.group());
            }
        }
    }

    /// The work of an intent has been done.
    pub fn intent_done(&mut self, kind: ItemType, id: IntentId, extents: &[FreedExtent]) {
        if let Some(ticket) = self.buffers.ticket() {
            ticket.done(kind, id, extents);
        }
    }

    /// File contents have been written that mappings in this transaction make visible: they are flushed before it is
    /// stable, so that no reader sees there what was before.
    pub fn depends_on_data(&mut self) {
        self.has_written_contents = true;
        if let EngineRef::Logged(engine) = self.mode {
            engine.journal().depends_on_write();
        }
    }

    /// Another mapping leads to these contents from now on: no write in place overwrites them before this transaction is
    /// stable.
    pub fn note_moved_contents(&mut self, start: FsBlock, length_blocks: u64) {
        if let EngineRef::Logged(engine) = self.mode {
            let sequence = self.sequence();
            engine.note_moved_contents(start, length_blocks, sequence);
        }
    }

    /// The checkpoint in which changes made now will be; 0 in bulk mode.
    pub fn sequence(&mut self) -> u64 {
        self.buffers.ticket().map_or(0, |ticket| ticket.sequence())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.mode.release_blocks(self.reserved_blocks);
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
        // What ended a transaction that has changed nothing may also end the one around it, and is left for that.
        if self.is_half_done()
            && let EngineRef::Logged(engine) = self.mode
        {
            let none = || Cause { text: "no error was given".into(), is_corruption: false };
            let mut cause = cause::last().unwrap_or_else(none);
            cause.text.insert_str(0, "a change was left half done: ");
            engine.journal().shut_down(&cause);
        }
    }
}

impl GroupState {
    /// Whether it has changed since the last checkpoint switch and has not been listed yet.
    fn lists_itself(&mut self) -> bool {
        let is_new = !self.is_listed && self.needs_settling();
        self.is_listed |= is_new;
        is_new
    }
}
