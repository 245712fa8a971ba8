//! The changes of a checkpoint switch itself, while no transaction is under way.

use uxfs_block::self_check;
use uxfs_format::{
    log::free_extent::FreedExtent,
    units::{AgNumber, FsBlock},
};
use uxfs_journal::journal::Ticket;

use super::Transaction;
use crate::engine::LoggedEngine;
use uxfs_volume::error::{OperationError, Result};

/// The transaction of a checkpoint switch: it brings what is only in memory of the groups into their buffers.
pub struct CheckpointTransaction<'fs> {
    engine: &'fs LoggedEngine,
    transaction: Transaction<'fs>,
}

impl<'fs> CheckpointTransaction<'fs> {
    /// Begins with the ticket of the checkpoint switch.
    pub fn begin(engine: &'fs LoggedEngine, ticket: Ticket<'fs>) -> Self {
        let mut transaction = Transaction::before_ticket(engine);
        transaction.buffers.set_ticket(ticket);
        Self { engine, transaction }
    }

    /// Flushes the inode-index and reverse-map records of a group that are only in memory.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn flush_group(&mut self, group: AgNumber) -> Result<()> {
        self.transaction.group(group)?.settle()
    }

    /// Makes sure, before a checkpoint says that blocks are to be freed, that they can be: that none of them is free already, or
    /// has an owner still. Otherwise the log would hold an intent that recovery cannot finish, or that takes blocks from another
    /// file.
    ///
    /// # Errors
    /// One is, or has; damage; the device.
    pub fn require_may_become_free(&mut self, freed: &[FreedExtent], settled: &[AgNumber]) -> Result<()> {
        let mut behind = 0;
        let transaction = &mut self.transaction;
        for extent in freed {
            let (start, length_blocks) = (FsBlock::new(extent.start_block.get()), extent.length_blocks.get());
            let place = self.engine.geometry().split_fs_block(start);
            let (group, block) = place.ok_or(OperationError::NoSuchGroup)?;
            let mut edit = transaction.group(group)?;
            // Two owners have given up the same blocks.
            if start.get() < behind {
                return Err(edit.freed_twice(block, length_blocks));
            }
            edit.require_may_become_free(block, length_blocks)?;
            if !settled.contains(&group) {
                // It was locked last, also where the others were given back for it.
                transaction.give_back_untouched(transaction.held_groups().saturating_sub(1));
            }
            behind = start.get().saturating_add(length_blocks.into());
        }
        Ok(())
    }

    /// Brings the headers of all settled groups into their buffers.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn end(mut self, groups: &[AgNumber]) -> Result<()> {
        let transaction = &mut self.transaction;
        transaction.finish_deferred()?;
        self_check!(
            transaction.groups.iter().all(|held| groups.contains(&held.group())),
            "a checkpoint switch changes nothing but what it settles"
        );
        for group in groups {
            let edit = transaction.group(*group)?;
            edit.state.store(edit.buffers)?;
            (edit.state.is_listed, edit.state.reserved_reverse_map_bytes) = (false, 0);
            let change = edit.state.change_of_ag_reservation_blocks();
            self.engine.add_ag_reservation_blocks(change);
        }
        self.engine.apply_counters(std::mem::take(&mut transaction.counters));
        if let Some(ticket) = transaction.buffers.take_ticket() {
            ticket.commit();
        }
        transaction.groups.clear();
        // It gave groups back on the way where a transaction that was just ending had one of them (see `wait_for_group`).
        transaction.has_begun = false;
        Ok(())
    }
}
