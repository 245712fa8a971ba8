//! A logged transaction in several steps.
//!
//! Each step is a transaction of its own in the log. Where the next step may not have room any more in the log space that
//! was reserved, and after each step in immediate mode, the transaction ends under intents for what is left to do, and goes
//! on in the next.

use uxfs_journal::journal::{LogReservation, Ticket};

use super::Transaction;
use crate::engine::LoggedEngine;
use uxfs_volume::error::Result;

/// The change of reservations between two steps.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NextStep {
    /// Blocks of its reservation that it has allocated by now.
    pub returned_blocks: u64,
    /// The least log space that the next step needs.
    pub log_bytes: u64,
}

/// A logged transaction that can end a step and begin the next.
pub(super) struct LoggedSteps<'t, 'fs> {
    pub(super) transaction: &'t mut Transaction<'fs>,
    pub(super) engine: &'fs LoggedEngine,
}

impl<'t, 'fs> LoggedSteps<'t, 'fs> {
    /// To divide a transaction of `engine` into steps.
    pub fn new(transaction: &'t mut Transaction<'fs>, engine: &'fs LoggedEngine) -> Self {
        Self { transaction, engine }
    }

    /// Does all deferred work of a transaction whose inodes have all been stored.
    #[inline]
    pub fn finish_deferred(&mut self) -> Result<()> {
        while !self.transaction.deferred.is_empty() {
            if self.should_roll() {
                self.log_intents()?;
                self.roll()?;
            }
            let Some(step) = self.transaction.deferred.begin_step() else { break };
            self.transaction.do_step(step)?;
        }
        Ok(())
    }

    fn should_roll(&mut self) -> bool {
        let is_immediate = self.engine.is_immediate();
        let step_bytes = self.transaction.next_step_bytes();
        self.ticket().is_some_and(|ticket| {
            ticket.logged_bytes() > 0 && (is_immediate || ticket.left_bytes() < step_bytes)
        })
    }

    /// Ends a step under intents for what is left to do, and begins the next.
    #[doc(alias = "xfs_trans_roll")]
    fn roll(&mut self) -> Result<()> {
        self.roll_around(NextStep::default(), || ())
    }

    /// As [`roll`](Self::roll), and calls `between` when the step has ended and the next has not begun: the transaction
    /// then holds neither the commit lock nor a group. Returns what `between` returns.
    pub(super) fn roll_around<T>(&mut self, next: NextStep, between: impl FnOnce() -> T) -> Result<T> {
        let engine = self.engine;
        let sequence = self.transaction.end_logged_step(engine, next.returned_blocks)?;
        self.transaction.has_begun = true;
        if engine.is_immediate() {
            engine.force_sequence(sequence)?;
        }
        // Intents to free what earlier steps gave up hold the tail, too.
        if engine.is_immediate() || engine.journal().is_half_full() {
            engine.complete_pending_frees_beside()?;
        }
        let between = between();
        let old = self.old_intents()?;
        // The intents of this transaction hold the tail from now on: transactions that queue for log space may be waiting
        // for their end.
        let step_bytes = self.transaction.next_step_bytes().max(next.log_bytes);
        let reservation_bytes = step_bytes + old.map_or(0, |old| old.bytes);
        let ticket = engine.begin_ticket(reservation_bytes, LogReservation::Urgent)?;
        self.transaction.buffers.set_ticket(ticket);
        old.map_or(Ok(()), |old| self.relog_intents(old))?;
        Ok(between)
    }

    pub(super) fn ticket(&mut self) -> Option<&mut Ticket<'fs>> {
        self.transaction.buffers.ticket()
    }
}
