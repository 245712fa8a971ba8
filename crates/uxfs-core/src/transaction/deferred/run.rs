//! Doing deferred work.

use uxfs_format::units::AgBlock;

use super::{FreedOwner, Transaction, queue::Work};
use crate::{error::Result, transaction::GroupEdit};

impl Transaction<'_> {
    /// Does all deferred work, and what follows from it.
    ///
    /// # Errors
    /// Damage; the device; no space for the trees that say what is to be said.
    #[doc(alias = "xfs_defer_finish")]
    pub fn finish_deferred(&mut self) -> Result<()> {
        while let Some(step) = self.deferred.begin_step() {
            self.give_back_groups_for(&step);
            let result = step.iter().try_for_each(|work| self.do_work(work));
            self.deferred.end_step(step);
            result?;
        }
        Ok(())
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
            self.groups.clear();
        }
    }

    fn do_work(&mut self, work: &Work) -> Result<()> {
        match *work {
            Work::Owners { operation, group, mapping } => self.group(group)?.change_owner(operation, mapping),
            Work::References { operation, group, start, length_blocks } => {
                self.group(group)?.change_references(operation, start, length_blocks)
            }
            Work::ExtentMap { operation, inode, fork, extent } => {
                self.change_extent_map(operation, inode, fork, &extent)
            }
            Work::Attribute(stored) => self.change_attribute(&stored),
            Work::Free { group, start, length_blocks, owner } => {
                self.group(group)?.free_of(start, length_blocks, owner)
            }
        }
    }
}

impl GroupEdit<'_, '_> {
    /// Takes blocks from their owner and makes them free, now.
    ///
    /// # Errors
    /// They are free already, or another's; damage; the device.
    #[doc(alias = "xfs_free_extent")]
    pub fn free_of(&mut self, start: AgBlock, length_blocks: u32, owner: FreedOwner) -> Result<()> {
        if owner != FreedOwner::Nobody {
            self.ready_free_list()?;
            self.remove_freed_owner(start, length_blocks, owner)?;
        }
        self.free(start, length_blocks)
    }
}
