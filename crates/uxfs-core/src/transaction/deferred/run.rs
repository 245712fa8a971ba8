//! Doing deferred work.

use uxfs_format::units::{AgBlock, AgNumber};

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
            self.give_back_groups_above(step.first().map(Work::group));
            let result = step.iter().try_for_each(|work| self.do_work(work));
            self.deferred.end_step(step);
            result?;
        }
        Ok(())
    }

    /// Gives groups back where a lower one is wanted: see invariant 2 of the transaction.
    fn give_back_groups_above(&mut self, lowest: Option<AgNumber>) {
        let Some(lowest) = lowest else { return };
        let is_held = self.groups.iter().any(|held| held.group() == lowest);
        if !is_held && self.groups.iter().any(|held| held.group() > lowest) {
            self.groups.clear();
        }
    }

    fn do_work(&mut self, work: &Work) -> Result<()> {
        let mut group = self.group(work.group())?;
        match *work {
            Work::Owners { operation, mapping, .. } => group.change_owner(operation, mapping),
            Work::References { operation, start, length_blocks, .. } => {
                group.change_references(operation, start, length_blocks)
            }
            Work::Free { start, length_blocks, owner, .. } => group.free_of(start, length_blocks, owner),
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
