//! A group that a transaction holds, to be changed.

use uxfs_format::units::AgBlock;
use uxfs_journal::transaction::TransactionBuffers;
use uxfs_volume::volume::Volume;

use super::state::GroupState;
use crate::transaction::{
    deferred::queue::{DeferredWork, FreedOwner, Work},
    reservation::Needs,
};
use uxfs_volume::error::Result;

/// Changes of superblock counters that a transaction has made so far.
#[doc(alias = "xfs_trans_mod_sb")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CounterChanges {
    /// Inodes that exist, in use or free.
    pub inodes: i64,
    /// Inodes that are free.
    pub free_inodes: i64,
    /// Free blocks.
    pub free_blocks: i64,
}

/// A group that a transaction holds, with what is needed to change it.
#[derive(Debug)]
pub struct GroupEdit<'t, 'fs> {
    /// The file system, as it can be read.
    pub volume: &'fs Volume,
    /// Reservations of operations.
    pub needs: &'fs Needs,
    /// Headers of the group in memory.
    pub state: &'t mut GroupState,
    /// For the blocks of its trees.
    pub buffers: &'t mut TransactionBuffers<'fs>,
    /// For the superblock's counters.
    pub counters: &'t mut CounterChanges,
    /// For what follows from changes.
    pub deferred: &'t mut DeferredWork,
}

impl<'fs> GroupEdit<'_, 'fs> {
    /// The same group for a shorter time.
    pub fn reborrow(&mut self) -> GroupEdit<'_, 'fs> {
        GroupEdit {
            volume: self.volume,
            needs: self.needs,
            state: self.state,
            buffers: self.buffers,
            counters: self.counters,
            deferred: self.deferred,
        }
    }

    /// Blocks of this group become free when the transaction's step ends.
    pub fn defer_free(&mut self, start: AgBlock, length_blocks: u32, owner: FreedOwner) {
        let group = self.state.group();
        self.deferred.push(Work::Free { group, start, length_blocks, owner });
    }

    /// Takes blocks from their owner and makes them free, now.
    ///
    /// # Errors
    /// They are free already, or another's; damage; the device.
    #[doc(alias = "xfs_free_extent")]
    pub fn free_of(&mut self, start: AgBlock, length_blocks: u32, owner: FreedOwner) -> Result<()> {
        if owner != FreedOwner::NoOwner {
            self.ready_free_list()?;
            self.remove_freed_owner(start, length_blocks, owner)?;
        }
        self.free(start, length_blocks)
    }
}
