//! Changed buffers of logged transactions: they are written back after the journal has made the changes durable.
//!
//! Changes belong to *checkpoints*, which are numbered. All changes of one checkpoint become durable together, when
//! the journal has written them. A transaction hands its [`EditLog`] along with every change; the buffer remembers the
//! newest checkpoint that changed it and which runs of bytes that one changed.
//!
//! ```text
//! changed ──(the journal takes the runs: ChangedBuffer::take)──▶ formatted ──(checkpoint stable)──▶ may be written back
//!    ▲                                                               │
//!    └───────────────── changed by a later checkpoint ◀──────────────┘
//! ```
//!
//! Invariants, beside those of [`edit`](super::edit), cited by the tests:
//! 13. **Log before write-back.** A buffer is written back only when all checkpoints that changed it are stable.
//! 14. **One version a checkpoint.** A checkpoint takes the buffer as that checkpoint left it: before
//!     a later checkpoint changes a buffer, the version that has not been taken is kept as a snapshot.
//! 15. **Accounted.** From the moment that a checkpoint's changes are taken until the buffer is written back, the oldest such
//!     checkpoint is told to the journal exactly once as entered and once as released, so that its tail stays behind it.
//! 16. **Sealed once.** A version that was sealed when its checkpoint took it is written back as it is: every later
//!     change makes another version, and that one is sealed anew: at write-back, if older changes wait for it already.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use uxfs_format::edit::DirtyMap;

pub use super::sealing::{SealableBytes, TakenBytes};
use super::{
    Buffer, BufferVerifier, Cache, EditBuffer, Piece, ReadError,
    edit::{Dirty, DirtyState},
    key::Key,
};
use crate::device::DeviceError;

/// The changes of one transaction: handed along with each change, and to the journal at its end.
#[derive(Debug, Default)]
pub struct EditLog {
    sequence: u64,
    touched: RefCell<Vec<ChangedBuffer>>,
    /// Whether any buffer was changed: also one that the checkpoint holds already, in runs that are marked already.
    has_changed: Cell<bool>,
    /// Upper bound of what the changes take in the log.
    logged_bytes: Cell<u64>,
}

/// Log space for a run of 128 bytes, with the header of its region.
pub const RUN_LOG_BYTES: u32 = 140;
/// Log space for each piece of a buffer beside its runs.
pub const PIECE_LOG_BYTES: u64 = 100;

impl EditLog {
    /// Of a transaction in the checkpoint `sequence`, which is not 0.
    pub fn new(sequence: u64) -> Self {
        Self { sequence, ..Self::default() }
    }

    /// The checkpoint.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether any buffer was changed.
    pub fn has_changed(&self) -> bool {
        self.has_changed.get()
    }

    /// Buffers that this transaction is the first of its checkpoint to have changed.
    pub fn touched(&self) -> std::cell::RefMut<'_, Vec<ChangedBuffer>> {
        self.touched.borrow_mut()
    }

    /// The most that the changes of this transaction add to the log: what the checkpoint holds already is not counted.
    pub fn logged_bytes(&self) -> u64 {
        self.logged_bytes.get()
    }

    /// Takes note of what the holder of a buffer has changed. `run_bytes` is what each marked run takes.
    #[inline]
    pub(super) fn note(&self, dirty: &Arc<Dirty>, state: &mut DirtyState, runs_before: u32, run_bytes: u32) {
        self.has_changed.set(true);
        let runs = state.changes.count().saturating_sub(runs_before);
        let mut bytes = self.logged_bytes.get() + u64::from(runs) * u64::from(run_bytes);
        if !state.is_pending {
            (state.is_pending, state.sequence) = (true, self.sequence);
            bytes += PIECE_LOG_BYTES * dirty.pieces.len() as u64;
            self.touched.borrow_mut().push(ChangedBuffer(Arc::clone(dirty)));
        }
        self.logged_bytes.set(bytes);
    }
}

/// A version that a later checkpoint is about to change, kept until it is taken.
#[derive(Debug)]
pub(super) struct BufferSnapshot {
    sequence: u64,
    buffer: Buffer,
    changes: DirtyMap,
}

/// A buffer that transactions of a checkpoint have changed.
#[derive(Debug)]
pub struct ChangedBuffer(Arc<Dirty>);

/// A buffer's changes in a checkpoint.
#[derive(Debug)]
pub struct LoggedChange<'a> {
    /// Where the buffer lies.
    pub pieces: &'a [Piece],
    /// Its bytes as the checkpoint left them.
    pub bytes: &'a [u8],
    /// The runs to log.
    pub changes: DirtyMap,
}

/// The way of a buffer's changes to the device, once they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taking {
    /// They have been logged.
    Logged,
    /// They are not logged: the whole buffer is written back before its checkpoint is stable.
    Ordered,
}

/// Result of taking a buffer's changes.
#[derive(Debug, Default)]
pub struct Taken {
    /// This checkpoint now holds changes that are not written back, and no older one does.
    pub entered: Option<u64>,
    /// An older checkpoint has changes of the buffer that are not written back.
    pub is_relogged: bool,
    /// The buffer as this checkpoint left it, where it was asked for.
    pub version: Option<TakenVersion>,
    /// The buffer as this checkpoint left it where it is not logged, for
    /// [`LoggedWriteBack::ordered`](super::logged_write_back::LoggedWriteBack::ordered).
    pub ordered: Option<TakenVersion>,
}

/// A buffer as a checkpoint left it, to be written back when the checkpoint is stable, however often the buffer changes meanwhile.
#[derive(Debug)]
pub struct TakenVersion {
    pub(super) dirty: Arc<Dirty>,
    pub(super) buffer: Buffer,
    pub(super) sequence: u64,
}

impl ChangedBuffer {
    /// Hands what checkpoint `sequence` has changed to `log`, and takes it off the buffer's list. Where the oldest changes that
    /// are not written back belong to a checkpoint before `keep_before`, this version is kept for
    /// [`LoggedWriteBack::versions`](super::logged_write_back::LoggedWriteBack::versions), so that the log's tail can soon
    /// pass the old checkpoint. `seal` seals and verifies what has been logged.
    ///
    /// # Errors
    /// Those of `log` and `seal`; the changes then stay.
    pub fn take<E>(
        &self,
        sequence: u64,
        keep_before: u64,
        log: impl FnOnce(&LoggedChange<'_>) -> Result<Taking, E>,
        seal: impl FnOnce(TakenBytes<'_>) -> Result<(), E>,
    ) -> Result<Taken, E> {
        let mut state = self.0.state.lock();
        let state = &mut *state;
        let snapshot = state.snapshot.take_if(|aside| aside.sequence == sequence);
        if snapshot.is_none() && (!state.is_pending || state.sequence != sequence || state.is_gone) {
            return Ok(Taken::default());
        }
        let (buffer, changes) = match &snapshot {
            Some(aside) => (&aside.buffer, aside.changes),
            None => (&state.buffer, state.changes),
        };
        let taking = log(&LoggedChange { pieces: &self.0.pieces, bytes: buffer, changes })?;
        if taking == Taking::Logged {
            match &snapshot {
                Some(aside) => {
                    let bytes: fn(_) -> _ = match state.first_sequence {
                        0 => SealableBytes::InCopy,
                        _ => SealableBytes::ChangedAgain,
                    };
                    let (offset_bytes, bytes) = (aside.buffer.offset_bytes(), bytes(&aside.buffer));
                    seal(TakenBytes { offset_bytes, changes, bytes })?;
                }
                None => state.seal(changes, seal)?,
            }
        }
        let buffer = snapshot.as_ref().map_or(&state.buffer, |aside| &aside.buffer);
        let version = || TakenVersion { dirty: Arc::clone(&self.0), buffer: buffer.clone(), sequence };
        // The checkpoint refers also to a buffer that is freed already, or will be in a moment.
        let mut taken = Taken { ordered: (taking == Taking::Ordered).then(version), ..Taken::default() };
        // The invalidation has accounted for a buffer that is gone.
        if !state.is_gone {
            state.unwritten.merge(&changes);
            if state.first_sequence == 0 {
                taken.entered = Some(sequence);
                state.first_sequence = sequence;
            } else {
                taken.is_relogged = true;
                taken.version = (state.first_sequence < keep_before).then(version);
            }
        }
        if snapshot.is_none() {
            (state.is_pending, state.changes) = (false, DirtyMap::clean());
        }
        Ok(taken)
    }
}

impl Cache {
    /// As [`edit`](Self::edit), for a transaction that is logged.
    ///
    /// # Errors
    /// As there.
    pub fn edit_logged<V: BufferVerifier>(
        &self,
        pieces: &[Piece],
        verifier: &V,
        log: &Rc<EditLog>,
    ) -> Result<EditBuffer, ReadError<V::Error>> {
        self.edit_for(pieces, verifier, Some(log))
    }

    /// As [`create`](Self::create), for a transaction that is logged. All bytes count as changed. `hold` and
    /// the checkpoint in the result are those of [`invalidate_logged`](Self::invalidate_logged).
    ///
    /// # Errors
    /// As there.
    pub fn create_logged(
        &self,
        pieces: &[Piece],
        kind: u16,
        log: &Rc<EditLog>,
        hold: &dyn Fn(u64),
    ) -> Result<(EditBuffer, Option<u64>), DeviceError> {
        let invalidated = self.invalidate_logged(pieces, log.sequence(), hold);
        let mut buffer = self.create_for(pieces, kind, Some(log))?;
        buffer.edit().all();
        Ok((buffer, invalidated))
    }

    /// The newest checkpoint that may hold a change of these runs of the buffer made of `pieces`, 0 for none. Of what has been
    /// taken and is not written back only the newest checkpoint of the whole buffer is known; it has been closed.
    pub fn newest_change(&self, pieces: &[Piece], runs: std::ops::Range<u32>) -> u64 {
        let Ok(key) = Key::new(pieces, &self.hasher) else { return 0 };
        let Some(dirty) = self.shard(key.hash).find_dirty(&key) else { return 0 };
        // The state cannot be seen, so the caller waits for all checkpoints.
        let Ok(state) = dirty.look() else { return u64::MAX };
        state.newest_change(runs)
    }

    /// As [`invalidate`](Self::invalidate), in checkpoint `sequence`. Gives the checkpoint that holds changes which are
    /// not written back, if one does: it is to be released once `sequence` is stable, since until then a crash gives the buffer
    /// back to its owner. `hold` is told of it where it has not been entered yet; as long as `hold` runs, its changes are not
    /// taken.
    pub fn invalidate_logged(&self, pieces: &[Piece], sequence: u64, hold: &dyn Fn(u64)) -> Option<u64> {
        let Ok(key) = Key::new(pieces, &self.hasher) else { return None };
        let shard = self.shard(key.hash);
        drop(shard.forget(&key));
        if let Some(dirty) = shard.find_dirty(&key) {
            if dirty.is_held_by_me() {
                dirty.doom();
                shard.remove_dirty(&key, &dirty, &self.dirty_bytes);
                return None;
            }
            // In the order "buffer, then shard", as everywhere.
            let mut state = dirty.state.lock();
            if state.is_gone {
                return None;
            }
            state.snapshot_before(sequence);
            let first = std::mem::take(&mut state.first_sequence);
            let mut holder = Some(first).filter(|first| *first != 0);
            if holder.is_none() {
                holder = state.snapshot.as_ref().map(|aside| aside.sequence);
                holder.into_iter().for_each(hold);
            }
            state.is_gone = true;
            shard.remove_dirty(&key, &dirty, &self.dirty_bytes);
            return holder;
        }
        None
    }
}

impl DirtyState {
    fn newest_change(&self, runs: std::ops::Range<u32>) -> u64 {
        let has = |changes: &DirtyMap| runs.clone().any(|run| changes.is_dirty(run));
        if self.is_gone {
            return 0;
        }
        if self.is_pending && has(&self.changes) {
            return self.sequence;
        }
        match &self.snapshot {
            Some(snapshot) if has(&snapshot.changes) => snapshot.sequence,
            _ if !has(&self.unwritten) => 0,
            _ if self.is_pending => self.sequence.saturating_sub(1),
            _ => self.sequence,
        }
    }

    /// Sets the version aside that a checkpoint before `sequence` left and that has not been taken (invariant 14).
    pub(super) fn snapshot_before(&mut self, sequence: u64) {
        if self.is_pending && self.sequence < sequence {
            let changes = std::mem::take(&mut self.changes);
            let buffer = self.buffer.clone();
            self.snapshot = Some(BufferSnapshot { sequence: self.sequence, buffer, changes });
            self.is_pending = false;
        }
    }
}

#[cfg(test)]
#[path = "logged_tests.rs"]
mod tests;
