//! Waiting for log space.
//!
//! A transaction first reserves its worst-case log space. Where there is none, the thread makes some: it writes a checkpoint
//! and writes back what holds the tail. All others that come meanwhile wait behind it. Transactions that move the tail
//! bypass the queue.
//!
//! Recovery is alone, and the system that crashed may have left little room behind the intents in the log. The worst case is
//! mostly far more than recovery takes, so it goes on without room for its reservation, one transaction in a checkpoint.
//! If that does not fit either, nothing of it is written, and the log is as it was.

use std::{
    sync::atomic::{
        AtomicU32,
        Ordering::{AcqRel, Acquire},
    },
    time::Duration,
};

use parking_lot::Mutex;
use uxfs_journal::journal::{LogReservation, Ticket};

use super::LoggedEngine;
use uxfs_volume::error::{Error, OperationError, Result};

/// More tries to get room in the log mean that there is none to be had.
const MOST_TRIES: u32 = 10_000;
/// After so many tries another thread must get on, which may not even be running: an intent that it has yet to end holds
/// the tail.
const QUICK_TRIES: u32 = 16;
/// So often other transactions are let go on first, which will return much of what they have reserved.
const MOST_WAITS: u32 = 100;

/// The transactions that wait for log space.
#[derive(Debug, Default)]
pub(super) struct RoomQueue {
    /// How many.
    waiting: AtomicU32,
    /// Held by the first of them.
    first: Mutex<()>,
    /// No other transaction will ever make room: recovery.
    is_alone: bool,
}

impl RoomQueue {
    pub(super) fn new(is_alone: bool) -> Self {
        Self { is_alone, ..Self::default() }
    }
}

/// Waits a little before a try, once the quick ones have been made.
fn let_others_work(tries: u32) {
    if tries >= QUICK_TRIES {
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl LoggedEngine {
    /// A place without room for the reservation, where no other transaction will ever make any.
    fn begin_alone(&self, log_bytes: u64, attempt: u32) -> Result<Option<Ticket<'_>>> {
        if !self.room.is_alone || attempt < QUICK_TRIES {
            return Ok(None);
        }
        Ok(self.journal.begin(log_bytes, LogReservation::Alone)?)
    }

    /// A place in the journal for a transaction, once there is room.
    ///
    /// # Errors
    /// The device failed, now or before.
    pub fn begin_ticket(&self, log_bytes: u64, reserve: LogReservation) -> Result<Ticket<'_>> {
        if reserve == LogReservation::Urgent {
            return self.wait_for_urgent_room(log_bytes);
        }
        if self.room.waiting.load(Acquire) == 0
            && let Some(ticket) = self.journal.begin(log_bytes, reserve)?
        {
            return Ok(ticket);
        }
        self.room.waiting.fetch_add(1, AcqRel);
        let ticket = self.wait_for_room(log_bytes);
        self.room.waiting.fetch_sub(1, AcqRel);
        ticket
    }

    /// One thread waits for room at a time, and all that come later wait behind it: the transactions under way end, so that
    /// even the largest reservation finds room. Much of the room may be reserved by transactions that will return most of
    /// it: these are waited for before a checkpoint is written.
    #[cold]
    fn wait_for_room(&self, log_bytes: u64) -> Result<Ticket<'_>> {
        let _first = self.room.first.lock();
        let mut waits = 0;
        for attempt in 0..MOST_TRIES {
            let_others_work(attempt);
            loop {
                if let Some(ticket) = self.journal.begin(log_bytes, LogReservation::Usual)? {
                    return Ok(ticket);
                }
                if waits >= MOST_WAITS || self.journal.would_checkpoint_help() {
                    break;
                }
                waits += 1;
                std::thread::yield_now();
            }
            // Intents to free blocks hold the tail, too, until those are back.
            self.write_checkpoint()?;
            self.complete_pending_frees()?;
            // Mostly that was enough, without waiting for buffers that are being written back.
            if self.journal.has_ample_room()
                && let Some(ticket) = self.journal.begin(log_bytes, LogReservation::Usual)?
            {
                return Ok(ticket);
            }
            self.make_room(attempt)?;
            if let Some(ticket) = self.begin_alone(log_bytes, attempt)? {
                return Ok(ticket);
            }
        }
        Err(self.no_room())
    }

    /// Bypasses the queue: the transactions in it rely on this one.
    fn wait_for_urgent_room(&self, log_bytes: u64) -> Result<Ticket<'_>> {
        for attempt in 0..MOST_TRIES {
            let_others_work(attempt);
            if let Some(ticket) = self.journal.begin(log_bytes, LogReservation::Urgent)? {
                return Ok(ticket);
            }
            self.make_room(attempt)?;
            if let Some(ticket) = self.begin_alone(log_bytes, attempt)? {
                return Ok(ticket);
            }
        }
        Err(self.no_room())
    }

    #[cold]
    fn no_room(&self) -> Error {
        let error = OperationError::LogTooSmall;
        self.journal.shut_down(&error);
        error.into()
    }

    /// Makes log space: first by writing a checkpoint, then by writing back what holds the tail.
    #[cold]
    fn make_room(&self, attempt: u32) -> Result<()> {
        self.write_checkpoint()?;
        let first_at_most = if attempt == 0 { self.journal.older_half() } else { u64::MAX };
        self.journal.push_active_items(first_at_most)?;
        Ok(())
    }
}
