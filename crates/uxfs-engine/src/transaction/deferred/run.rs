//! Doing deferred work.

use uxfs_format::{
    log::free_extent::FreedExtent,
    units::{AgBlock, AgNumber},
};

use super::{
    Transaction,
    queue::{FreedOwner, Work},
};
use crate::engine::{EngineRef, LoggedEngine};
use uxfs_volume::error::{OperationError, Result};

impl Transaction<'_> {
    /// Does all deferred work, and what follows from it.
    ///
    /// # Errors
    /// Damage; the device; no space for the trees that say what is to be said.
    #[doc(alias = "xfs_defer_finish")]
    pub fn finish_deferred(&mut self) -> Result<()> {
        while let Some(step) = self.deferred.begin_step() {
            self.do_step(step)?;
        }
        Ok(())
    }

    pub(in crate::transaction) fn do_step(&mut self, step: Vec<Work>) -> Result<()> {
        self.give_back_groups_for(&step);
        let result = step.iter().try_for_each(|work| self.do_work(work));
        let intent = self.deferred.end_step(step);
        result?;
        if let Some(intent) = intent {
            self.intent_done(intent.end, intent.id, &intent.extents);
        }
        Ok(())
    }

    /// The most that the next step takes of the log.
    pub(in crate::transaction) fn next_step_bytes(&self) -> u64 {
        let needs = self.engine.needs();
        let step = self.deferred.next_step();
        step.map_or(0, |(work, works, waiting)| needs.log.step(work, works, waiting))
    }

    /// Gives groups back where the step locks one below them: see invariant 2 of the transaction.
    fn give_back_groups_for(&mut self, step: &[Work]) {
        let highest = self.groups.iter().map(|held| held.group()).max();
        let is_held = |group| self.groups.iter().any(|held| held.group() == group);
        let is_in_order = |work: &Work| match work.group() {
            Some(group) => highest < Some(group) || is_held(group),
            None => highest.is_none(),
        };
        if !step.iter().all(is_in_order) {
            self.give_back_groups();
        }
    }

    fn do_work(&mut self, work: &Work) -> Result<()> {
        match *work {
            Work::Owners { operation, group, mapping } => self.group(group)?.change_owner(operation, mapping),
            Work::References { operation, group, start, length_blocks } => {
                self.group(group)?.change_references(operation, start, length_blocks)
            }
            Work::ExtentMap { operation, inode, fork, extent } => {
                self.extent_maps().change_extent_map(operation, inode, fork, &extent)
            }
            Work::Attribute(stored) => self.change_attribute(&stored),
            Work::Free { group, start, length_blocks, owner } => match self.mode {
                EngineRef::Logged(engine) => {
                    self.free_when_stable(engine, group, start, length_blocks, owner)
                }
                EngineRef::Bulk(_) => self.group(group)?.free_of(start, length_blocks, owner),
            },
        }
    }

    /// Takes blocks from their owner. They become free in a transaction after the one that is under way is stable: a crash
    /// must not give blocks back to their owner after something else was written to them.
    fn free_when_stable(
        &mut self,
        engine: &LoggedEngine,
        group: AgNumber,
        start: AgBlock,
        length_blocks: u32,
        owner: FreedOwner,
    ) -> Result<()> {
        let geometry = engine.geometry();
        let first = geometry.fs_block(group, start).ok_or(OperationError::NoSuchGroup)?;
        if owner != FreedOwner::NoOwner {
            let mut group = self.group(group)?;
            group.ready_free_list()?;
            group.remove_freed_owner(start, length_blocks, owner)?;
        }
        engine.note_freed_blocks(length_blocks.into());
        if let Some(ticket) = self.buffers().ticket() {
            ticket.free(FreedExtent {
                start_block: first.get().into(),
                length_blocks: length_blocks.into(),
                padding: 0.into(),
            });
        }
        Ok(())
    }
}
