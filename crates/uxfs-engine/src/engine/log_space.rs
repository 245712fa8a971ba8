//! Waiting for room in the log.
//!
//! Who wants to begin a transaction reserves the most that it may add to the log. Where there is no room, he makes some, by
//! cutting a checkpoint and bringing home what holds the tail; all others who come meanwhile wait behind him. Who ends what
//! holds the tail himself waits behind nobody.
//!
//! Recovery is alone, and whoever left the log may have left little room behind the intents in it. What it reserves is the most
//! that could be needed, mostly far more than is: so it goes on without room for its reservation, one transaction in a checkpoint.
//! Should that not fit either, nothing of it is written, and the log is as it was.

use std::{
    sync::atomic::{
        AtomicU32,
        Ordering::{AcqRel, Acquire},
    },
    time::Duration,
};

use parking_lot::Mutex;
use uxfs_journal::journal::{LogReservation, Ticket};

use super::{Engine, logged::Logged};
use uxfs_volume::error::{Error, OperationError, Result};

/// More tries to get room in the log mean that there is none to be had.
const MOST_TRIES: u32 = 10_000;
/// After so many tries somebody else must get on, who may not even be running: an intent that he has yet to end holds the
/// tail.
const QUICK_TRIES: u32 = 16;
/// So often others are let go on first, who will give back much of what they have reserved.
const MOST_WAITS: u32 = 100;

/// Who waits for room in the log.
#[derive(Debug, Default)]
pub(super) struct RoomQueue {
    /// How many.
    waiting: AtomicU32,
    /// Held by the first of them.
    first: Mutex<()>,
    /// Nobody else will ever make room: recovery.
    is_alone: bool,
}

impl RoomQueue {
    pub(super) fn new(is_alone: bool) -> Self {
        Self { is_alone, ..Self::default() }
    }
}

impl Logged {
    /// A place without room for the reservation, where nobody will ever make any.
    fn begin_alone(&self, log_bytes: u64, attempt: u32) -> Result<Option<Ticket<'_>>> {
        if !self.room.is_alone || attempt < QUICK_TRIES {
            return Ok(None);
        }
        Ok(self.journal.begin(log_bytes, LogReservation::Alone)?)
    }
}

/// Waits a little before a try, once the quick ones have been made.
fn let_others_work(tries: u32) {
    if tries >= QUICK_TRIES {
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Engine {
    /// A place in the journal for a transaction, once there is room. `None` in bulk mode.
    ///
    /// # Errors
    /// The device failed, now or before.
    pub fn begin_ticket(&self, log_bytes: u64, reserve: LogReservation) -> Result<Option<Ticket<'_>>> {
        let Some(logged) = self.log() else { return Ok(None) };
        if reserve == LogReservation::Urgent {
            return self.wait_for_urgent_room(log_bytes);
        }
        if logged.room.waiting.load(Acquire) == 0
            && let Some(ticket) = logged.journal.begin(log_bytes, reserve)?
        {
            return Ok(Some(ticket));
        }
        logged.room.waiting.fetch_add(1, AcqRel);
        let ticket = self.wait_for_room(log_bytes);
        logged.room.waiting.fetch_sub(1, AcqRel);
        ticket
    }

    /// One thread waits for room at a time, and all that come later wait behind it: what is under way ends, so that also the
    /// largest reservation finds room in the end. Much of the room may be reserves that are mostly given back: these are waited for
    /// before a checkpoint is cut.
    #[cold]
    fn wait_for_room(&self, log_bytes: u64) -> Result<Option<Ticket<'_>>> {
        let Some(logged) = self.log() else { return Ok(None) };
        let _first = logged.room.first.lock();
        let mut waits = 0;
        for attempt in 0..MOST_TRIES {
            let_others_work(attempt);
            loop {
                if let Some(ticket) = logged.journal.begin(log_bytes, LogReservation::Usual)? {
                    return Ok(Some(ticket));
                }
                if waits >= MOST_WAITS || logged.journal.would_checkpoint_help() {
                    break;
                }
                waits += 1;
                std::thread::yield_now();
            }
            // Intents to free blocks hold the tail, too, until those are back.
            self.write_checkpoint()?;
            self.complete_pending_frees()?;
            // Mostly that was all: nobody needs to wait for what is on its way home.
            if logged.journal.has_ample_room()
                && let Some(ticket) = logged.journal.begin(log_bytes, LogReservation::Usual)?
            {
                return Ok(Some(ticket));
            }
            self.make_room(attempt)?;
            if let Some(ticket) = logged.begin_alone(log_bytes, attempt)? {
                return Ok(Some(ticket));
            }
        }
        Err(self.no_room())
    }

    /// Waits behind nobody: those who wait rely on what comes of this.
    fn wait_for_urgent_room(&self, log_bytes: u64) -> Result<Option<Ticket<'_>>> {
        let Some(logged) = self.log() else { return Ok(None) };
        for attempt in 0..MOST_TRIES {
            let_others_work(attempt);
            if let Some(ticket) = logged.journal.begin(log_bytes, LogReservation::Urgent)? {
                return Ok(Some(ticket));
            }
            self.make_room(attempt)?;
            if let Some(ticket) = logged.begin_alone(log_bytes, attempt)? {
                return Ok(Some(ticket));
            }
        }
        Err(self.no_room())
    }

    #[cold]
    fn no_room(&self) -> Error {
        let error = OperationError::LogTooSmall;
        if let Some(journal) = self.journal() {
            journal.shut_down(&error);
        }
        error.into()
    }

    /// Makes room in the log: first by writing what waits, then by bringing home what holds the tail.
    #[cold]
    fn make_room(&self, attempt: u32) -> Result<()> {
        let Some(logged) = self.log() else { return Ok(()) };
        self.write_checkpoint()?;
        let first_at_most = if attempt == 0 { logged.journal.older_half() } else { u64::MAX };
        logged.journal.push_active_items(first_at_most)?;
        Ok(())
    }
}
