//! Writing the journal: delayed logging.
//!
//! Transactions change buffers in the cache and commit; nothing is written yet. Later one *checkpoint* writes the changes
//! of all of them, each buffer once, however often it was changed. A transaction is wholly in one checkpoint.
//!
//! ```text
//! transactions ──▶ commit lock (shared) ──▶ buffers changed in place, lists of what changed
//!                    │
//!      checkpoint switch: commit lock (exclusive), for a moment: the checkpoint is closed, the next begins
//!                    ▼
//! changed runs ──▶ records ──▶ flush ──▶ record that commits ──▶ flush ──▶ stable
//!                                                                            │
//!                 buffers are written back in the order of the disk ◀────────┤
//!                 freed blocks may be used again                    ◀────────┘
//! ```
//!
//! A checkpoint is closed by the first thread that finds it large enough after its own commit, or by a thread that wants it
//! written. The background thread writes it; a thread that waits for it (`fsync`, no log space) may write it instead.
//!
//! Invariants:
//! 1. **Whole.** All changes of a transaction are in one checkpoint: a transaction holds the commit lock from its first change
//!    to its commit, and the checkpoint switch takes the lock exclusively.
//! 2. **Room.** Before a transaction changes anything, the log has room for the most that it may take beside all that
//!    waits already. So a checkpoint can always be written, and no thread that holds the commit lock waits for room. Recovery
//!    alone may go on without ([`LogReservation::Alone`]): a checkpoint that does not fit then is an error, and nothing of it
//!    counts.
//! 3. **Log before write-back** (invariant 13 of the cache), and write-back before the tail moves: the tail passes a buffer
//!    only after its write was flushed.
//! 4. **In order.** At most one checkpoint is closed and not stable, and it is written before the next is closed.
//! 5. **Fails once.** The first error that leaves the log or a transaction half done shuts the journal down: later
//!    transactions fail with its cause, reads go on.
//!
//! Locks come in the order of [`LockKey`](uxfs_block::lock_order::LockKey).
//!
//! | module | holds |
//! |---|---|
//! | [`ticket`] | what a transaction holds |
//! | [`reservations`] | the commit lock, and how much of the log is reserved |
//! | [`pending`] | the checkpoint that is being filled |
//! | [`checkpoint`] | cutting and writing it |
//! | [`push_tail`] | pushing the tail (AIL push), closing the log |
//! | `locks` | acquiring the locks in their order |
//! | [`items`] | what items look like in the log |
//! | [`records`] | records, windows, flushes |
//! | [`verify`] | verifying buffers before they are logged |
//! | [`active`] | what holds the tail |

pub mod active;
pub mod checkpoint;
pub mod items;
mod locks;
mod pending;
mod push_tail;
pub mod records;
mod reservations;
pub mod ticket;
mod verify;

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

use parking_lot::Mutex;
use uxfs_block::{cache::Cache, own_line::OwnLine};
use uxfs_format::{
    geometry::Geometry,
    log::record::{MAX_RECORD_SIZE_BYTES, PAYLOAD_PER_HEADER_BYTES},
    units::Lsn,
};

use self::{
    active::ActiveItems,
    checkpoint::Closed,
    pending::Pending,
    records::{LogGeometry, LogHead},
    reservations::Reservations,
};
pub use self::{
    checkpoint::{ClosedCheckpoint, FreedExtents},
    pending::IntentId,
    ticket::{LogReservation, Ticket},
};
use crate::{
    area::{BLOCK, LogArea},
    error::{JournalError, Result, ShutdownCause},
    metadata::NewestLsn,
};

/// A checkpoint is begun to be written when it holds so much: more would not make hot buffers any rarer in the log.
const MAX_CHECKPOINT_BYTES: u64 = 32 << 20;
/// No checkpoint takes more than this part of the log, so that several can be on their way home.
const CHECKPOINTS_IN_LOG: u64 = 5;

/// Kept beside the quarter for the changes of the checkpoint switch itself, and for headers; the padding of the last record comes on top.
const SPARE_BYTES: u64 = 64 << 10;

/// Options of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalOptions {
    /// Size of the buffers that records are built in: 32, 64, 128 or 256 KiB.
    #[doc(alias = "logbsize")]
    pub record_size_bytes: u32,
    /// The largest reservation that will ever be made: it must find room in a log where nothing waits.
    pub max_reservation_bytes: u64,
    /// Log space kept for urgent reservations.
    pub urgent_bytes: u64,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self { record_size_bytes: PAYLOAD_PER_HEADER_BYTES, max_reservation_bytes: 0, urgent_bytes: 0 }
    }
}

/// Counters of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JournalCounters {
    /// Transactions that committed.
    pub transactions: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Bytes written to the log, headers and padding included.
    pub log_bytes: u64,
    /// Bytes that had changed, rounded to 128 bytes: runs of buffers, the core and each fork of an inode.
    pub changed_bytes: u64,
    /// Buffers in checkpoints.
    pub buffers: u64,
    /// Of these, buffers with changes of an older checkpoint that were not written back.
    pub relogged: u64,
    /// Buffers written back.
    pub buffers_written_back: u64,
    /// Nanoseconds that threads waited for a checkpoint to be stable.
    pub force_nanoseconds: u64,
    /// Number of these waits.
    pub forces: u64,
    /// Transactions that took more of the log than they had asked for.
    pub overruns: u64,
}

#[derive(Debug, Default)]
struct Counters {
    checkpoints: AtomicU64,
    log_bytes: AtomicU64,
    changed_bytes: AtomicU64,
    buffers: AtomicU64,
    relogged: AtomicU64,
    buffers_written_back: AtomicU64,
    force_nanoseconds: AtomicU64,
    forces: AtomicU64,
    overruns: AtomicU64,
}

/// Where a journal goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogStart {
    /// Where the next record begins.
    pub head: Lsn,
    /// Block of the newest record; all ones if there is none.
    pub previous_block: u32,
    /// Where replay began whose intents have not ended yet; `None` where nothing is left of it.
    pub recovered_tail: Option<Lsn>,
}

/// The journal of a file system that is mounted for changes.
#[doc(alias = "xlog")]
#[derive(Debug)]
pub struct Journal {
    cache: Arc<Cache>,
    geometry: Geometry,
    place: LogGeometry,
    max_reservation_bytes: u64,
    urgent_bytes: u64,
    /// Where the newest checkpoint ended; the volume compares the LSNs of the metadata that it reads with it.
    newest: Arc<NewestLsn>,
    /// The checkpoint that is being filled.
    sequence: AtomicU64,
    reservations: Reservations,
    pending: OwnLine<Mutex<Pending>>,
    writer: Mutex<Writer>,
    /// The writer has a closed checkpoint to write.
    has_closed: AtomicBool,
    /// One thread writes home at a time.
    write_back: Mutex<()>,
    active: Mutex<ActiveItems>,
    /// Intents without end, with the checkpoint that holds each.
    open_intents: Mutex<HashMap<IntentId, u64>>,
    next_intent: AtomicU64,
    /// The newest checkpoint that is in the log for good.
    stable: AtomicU64,
    /// Something was written that the next checkpoint relies on, and not flushed.
    needs_flush: AtomicBool,
    /// The error that shut the journal down, and whether it was damage in the image.
    failure: OnceLock<(Arc<str>, bool)>,
    counters: Counters,
}

#[derive(Debug)]
struct Writer {
    head: LogHead,
    /// Where the newest stable checkpoint began: the tail where nothing is active.
    newest: Lsn,
    /// The checkpoint that is to be written next.
    closed: Option<Closed>,
    window: Vec<u8>,
    /// Memory in which buffers are verified before they are logged.
    verified_copy: Vec<u8>,
    transaction: u32,
}

/// The checkpoint in which the intents of replay are, if there are any.
pub const RECOVERED_SEQUENCE: u64 = 1;

impl Journal {
    /// Goes on writing a log at `start`. `newest` is told where it ends.
    ///
    /// # Errors
    /// The log is external, or its size cannot be.
    pub fn open(
        cache: Arc<Cache>,
        geometry: Geometry,
        start: LogStart,
        options: JournalOptions,
        newest: Arc<NewestLsn>,
    ) -> Result<Self> {
        let area = LogArea::new(cache.device().as_ref(), &geometry)?;
        // A record fills stripe units: its headers must cover one.
        let size = options.record_size_bytes.max(geometry.log_unit_bytes);
        let size = size.clamp(PAYLOAD_PER_HEADER_BYTES, MAX_RECORD_SIZE_BYTES);
        let place = LogGeometry {
            start: area.start(),
            blocks: area.blocks(),
            uuid: area.uuid(),
            buffer_size_bytes: size.next_power_of_two(),
            unit_bytes: geometry.log_unit_bytes.max(BLOCK as u32),
        };
        let mut active = ActiveItems::new(RECOVERED_SEQUENCE);
        if let Some(tail) = start.recovered_tail {
            active.open(RECOVERED_SEQUENCE, tail);
        }
        let head = LogHead { lsn: start.head, previous_block: start.previous_block };
        let journal = Self {
            cache,
            geometry,
            place,
            max_reservation_bytes: options.max_reservation_bytes,
            urgent_bytes: options.urgent_bytes,
            newest,
            sequence: AtomicU64::new(RECOVERED_SEQUENCE + 1),
            reservations: Reservations::default(),
            pending: OwnLine::default(),
            writer: Mutex::new(Writer {
                head,
                newest: start.head,
                closed: None,
                window: Vec::new(),
                verified_copy: Vec::new(),
                transaction: random(),
            }),
            has_closed: AtomicBool::new(false),
            write_back: Mutex::new(()),
            active: Mutex::new(active),
            open_intents: Mutex::default(),
            next_intent: AtomicU64::new(u64::from(random()) << 16),
            stable: AtomicU64::new(RECOVERED_SEQUENCE),
            needs_flush: AtomicBool::new(false),
            failure: OnceLock::new(),
            counters: Counters::default(),
        };
        journal.update_limit(&journal.lock_writer(), 0);
        Ok(journal)
    }

    /// Where the log ends.
    pub fn newest(&self) -> &NewestLsn {
        &self.newest
    }

    fn head(&self) -> Lsn {
        self.newest.get().unwrap_or_default()
    }

    /// An intent that replay found without end. It holds the tail until [`Ticket::done`] says that it has ended, in a
    /// checkpoint that is stable. Only for a journal that was opened with a recovered tail.
    pub fn adopt_intent(&self, id: IntentId) {
        self.lock_active().enter(RECOVERED_SEQUENCE);
        self.lock_open_intents().insert(id, RECOVERED_SEQUENCE);
    }

    /// All that replay found is known: what it left in the log is held by [`adopt_intent`](Self::adopt_intent) alone.
    pub fn recovered(&self) {
        self.lock_active().release(RECOVERED_SEQUENCE);
    }

    /// Its counters.
    pub fn counters(&self) -> JournalCounters {
        let Counters {
            checkpoints,
            log_bytes,
            changed_bytes,
            buffers,
            relogged,
            buffers_written_back,
            force_nanoseconds,
            forces,
            overruns,
        } = &self.counters;
        JournalCounters {
            transactions: self.reservations.transactions(),
            checkpoints: checkpoints.load(Relaxed),
            log_bytes: log_bytes.load(Relaxed),
            changed_bytes: changed_bytes.load(Relaxed),
            buffers: buffers.load(Relaxed),
            relogged: relogged.load(Relaxed),
            buffers_written_back: buffers_written_back.load(Relaxed),
            force_nanoseconds: force_nanoseconds.load(Relaxed),
            forces: forces.load(Relaxed),
            overruns: overruns.load(Relaxed),
        }
    }

    /// The checkpoint that is being filled.
    pub fn sequence(&self) -> u64 {
        self.sequence.load(Acquire)
    }

    /// The newest checkpoint that is in the log for good.
    pub fn stable(&self) -> u64 {
        self.stable.load(Acquire)
    }

    /// The first failure, if there was one.
    ///
    /// # Errors
    /// That.
    pub fn check(&self) -> Result<()> {
        match self.failure.get() {
            None => Ok(()),
            Some((cause, is_corruption)) => {
                Err(JournalError::ShutDown { cause: Arc::clone(cause), is_corruption: *is_corruption })
            }
        }
    }

    /// Lets nothing be changed any more.
    #[doc(alias = "xfs_force_shutdown")]
    pub fn shut_down(&self, cause: &dyn ShutdownCause) {
        self.failure.get_or_init(|| (cause.to_string().into(), cause.is_corruption()));
    }

    /// A checkpoint that is being written is needed until [`Ticket::release_later`]'s transaction is stable.
    pub(crate) fn hold(&self, sequence: u64) {
        self.lock_active().enter(sequence);
    }

    /// Something was written that the next checkpoint relies on: it is flushed before that checkpoint commits.
    pub fn depends_on_write(&self) {
        self.needs_flush.store(true, Release);
    }

    /// Whether it is time to write the checkpoint that is being filled: it is large, or fills half of what the log
    /// has left.
    pub fn is_checkpoint_due(&self) -> bool {
        self.reservations.is_half_reserved()
    }

    /// Whether a checkpoint would make room: what has been changed is much of what may be. Else the room is what
    /// transactions under way have reserved and will mostly give back.
    pub fn would_checkpoint_help(&self) -> bool {
        self.reservations.logged_bytes() > self.reservations.limit_bytes() / 8
    }

    /// Whether half of the log is in use.
    pub fn is_half_full(&self) -> bool {
        self.room_blocks(self.head()) < u64::from(self.place.blocks) / 2
    }

    /// Whether a quarter of the log is free: what the largest checkpoint may take, and more.
    pub fn has_ample_room(&self) -> bool {
        self.room_blocks(self.head()) >= u64::from(self.place.blocks) / 4
    }

    /// The newest checkpoint that lies further behind the head than a quarter of the log: intents that it holds should be
    /// logged anew.
    pub fn newest_far_behind(&self) -> Option<u64> {
        let head = self.head();
        let most_blocks = u64::from(self.place.blocks) / 4;
        self.lock_active().newest_where(|lsn| self.place.used_blocks(head, lsn) > most_blocks)
    }

    /// Blocks of the log that nothing needs any more.
    fn room_blocks(&self, head: Lsn) -> u64 {
        self.place.room_blocks(head, self.lock_active().tail().unwrap_or(head))
    }

    /// A checkpoint ends on a boundary of stripe units, which may be as long as a record.
    fn spare_bytes(&self) -> u64 {
        SPARE_BYTES + u64::from(self.place.unit_bytes)
    }

    /// The most of the log that a checkpoint takes which has reserved so much: invariant 2 relies on it.
    fn most_log_bytes(&self, reserved_bytes: u64) -> u64 {
        let of_limit = reserved_bytes.div_ceil(3) * 4 + self.spare_bytes();
        of_limit.min(self.place.blocks_for(reserved_bytes) * BLOCK as u64)
    }

    /// The log space that may be reserved by the checkpoint that is being filled while another of `in_flight_bytes` is written.
    fn update_limit(&self, writer: &Writer, in_flight_bytes: u64) {
        self.newest.set(writer.head.lsn);
        let room = self.room_blocks(writer.head.lsn) * BLOCK as u64;
        let in_flight = self.place.blocks_for(in_flight_bytes) * BLOCK as u64;
        let all = u64::from(self.place.blocks) * BLOCK as u64;
        // A quarter is kept for headers and padding, and for the changes of the checkpoint switch itself.
        let free = room.saturating_sub(in_flight + self.spare_bytes()) / 4 * 3;
        // In the smallest logs the largest operations are more than that.
        let most = (all / CHECKPOINTS_IN_LOG)
            .min(MAX_CHECKPOINT_BYTES)
            .max(self.max_reservation_bytes + self.urgent_bytes);
        self.reservations.set_limit_bytes(free.min(most));
    }
}

/// A number that the last mount is unlikely to have begun with.
fn random() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    (RandomState::new().hash_one(0_u8) as u32) | 1
}
