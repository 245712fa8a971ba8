//! Changed buffers that a journal must have written down before they go home.
//!
//! Changes belong to *checkpoints*, which are numbered. All changes of one checkpoint become durable together, when
//! the journal has written them. A transaction hands its [`EditLog`] along with every change; the buffer remembers the
//! newest checkpoint that changed it and which runs of bytes that one changed.
//!
//! ```text
//! changed ──(the journal takes the runs: ChangedBuffer::take)──▶ formatted ──(checkpoint stable)──▶ may go home
//!    ▲                                                               │
//!    └───────────────── changed by a later checkpoint ◀──────────────┘
//! ```
//!
//! Invariants, beside those of [`edit`](super::edit), cited by the tests:
//! 13. **Log before home.** A buffer goes home only when all checkpoints that changed it are stable.
//! 14. **One version a checkpoint.** What is taken for a checkpoint is the buffer as that checkpoint left it: whoever
//!     changes a buffer for a later one first sets the version aside that has not been taken.
//! 15. **Accounted.** From the moment that a checkpoint's changes are taken until the buffer is home, the oldest such
//!     checkpoint is told to the journal exactly once as entered and once as released, so that its tail stays behind it.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use uxfs_format::edit::DirtyMap;

use super::{
    Buffer, BufferVerifier, Cache, EditBuffer, Piece, ReadError,
    edit::{Dirty, DirtyState},
    key::Key,
};
use crate::device::{DeviceError, WriteSegment};

/// Bytes of one submission.
const MAX_BATCH_BYTES: usize = 4 << 20;

/// What one transaction has changed: handed along with each change, and to the journal at its end.
#[derive(Debug, Default)]
pub struct EditLog {
    sequence: u64,
    touched: RefCell<Vec<ChangedBuffer>>,
    /// Upper bound of what the changes take in the log.
    logged_bytes: Cell<u64>,
}

/// What a run of 128 bytes takes in the log, with the header of its region.
pub const RUN_LOG_BYTES: u32 = 140;
/// What each piece of a buffer takes beside its runs.
const PIECE_LOG_BYTES: u64 = 100;

impl EditLog {
    /// Of a transaction in the checkpoint `sequence`, which is not 0.
    pub fn new(sequence: u64) -> Self {
        Self { sequence, ..Self::default() }
    }

    /// The checkpoint.
    pub fn sequence(&self) -> u64 {
        self.sequence
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
pub(super) struct SetAside {
    sequence: u64,
    buffer: Buffer,
    changes: DirtyMap,
}

/// A buffer that transactions of a checkpoint have changed.
#[derive(Debug, Clone)]
pub struct ChangedBuffer(Arc<Dirty>);

/// What a checkpoint has changed in a buffer.
#[derive(Debug)]
pub struct LoggedChange<'a> {
    /// Where the buffer lies.
    pub pieces: &'a [Piece],
    /// Its bytes as the checkpoint left them.
    pub bytes: &'a [u8],
    /// What is to be logged of them.
    pub changes: DirtyMap,
}

/// How taking a buffer's changes moved what the journal's tail must stay behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accounting {
    /// This checkpoint now holds changes that are not at home.
    pub entered: Option<u64>,
    /// This one holds none of this buffer any more.
    pub released: Option<u64>,
}

impl ChangedBuffer {
    /// Hands what checkpoint `sequence` has changed to `log`, and takes it off the buffer's list. Where the oldest
    /// changes that are not at home are of a checkpoint before `relog_before`, all that is not at home is logged again,
    /// so that the old checkpoint is no longer needed.
    ///
    /// # Errors
    /// Those of `log`; the changes then stay.
    pub fn take<E>(
        &self,
        sequence: u64,
        relog_before: u64,
        log: impl FnOnce(&LoggedChange<'_>) -> Result<(), E>,
    ) -> Result<Accounting, E> {
        let mut state = self.0.state.lock();
        let state = &mut *state;
        let set_aside = state.set_aside.take_if(|aside| aside.sequence == sequence);
        if set_aside.is_none() && (!state.is_pending || state.sequence != sequence || state.is_gone) {
            return Ok(Accounting::default());
        }
        let (buffer, changes) = match &set_aside {
            Some(aside) => (&aside.buffer, aside.changes),
            None => (&state.buffer, state.changes),
        };
        let mut not_home = state.unwritten;
        not_home.merge(&changes);
        // Marks do not say what an item made: its checkpoint is needed until the buffer is home.
        let is_old =
            state.first_sequence != 0 && state.first_sequence < relog_before && !state.is_made_by_item;
        let changes = if is_old { not_home } else { changes };
        log(&LoggedChange { pieces: &self.0.pieces, bytes: buffer, changes })?;
        if set_aside.is_none() {
            (state.is_pending, state.changes) = (false, DirtyMap::clean());
        }
        // Of a buffer that is gone the invalidation has accounted for.
        if state.is_gone {
            return Ok(Accounting::default());
        }
        state.unwritten = not_home;
        let mut accounting = Accounting::default();
        if state.first_sequence == 0 || is_old {
            accounting.released = Some(state.first_sequence).filter(|first| *first != 0);
            accounting.entered = Some(sequence);
            state.first_sequence = sequence;
        }
        Ok(accounting)
    }
}

/// What invalidating a changed buffer means for the journal: what it held back is free only when the checkpoint that
/// freed the buffer is stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Invalidated {
    /// A checkpoint that was entered, to be released once the one that invalidates is stable.
    pub release: Option<u64>,
    /// A checkpoint whose changes have not been taken yet: to be entered, and released likewise.
    pub hold: Option<u64>,
}

/// Which buffers may go home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedWriteBack {
    /// The newest stable checkpoint.
    pub stable: u64,
    /// Only buffers with changes of this checkpoint or an older one; `u64::MAX` for all.
    pub first_at_most: u64,
}

/// Seals a buffer for its way home: bytes, where they lie, the newest checkpoint in them, what differs from the device.
pub type LoggedSeal<'a, E> = dyn Fn(&mut [u8], u64, u64, &DirtyMap) -> Result<(), E> + 'a;

struct Writing {
    dirty: Arc<Dirty>,
    buffer: Buffer,
    version: u64,
    first_sequence: u64,
    unwritten: DirtyMap,
    is_made_by_item: bool,
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

    /// As [`create`](Self::create), for a transaction that is logged. All bytes count as changed.
    ///
    /// # Errors
    /// As there.
    pub fn create_logged(
        &self,
        pieces: &[Piece],
        kind: u16,
        log: &Rc<EditLog>,
    ) -> Result<(EditBuffer, Invalidated), DeviceError> {
        let invalidated = self.invalidate_logged(pieces, log.sequence());
        let mut buffer = self.create_for(pieces, kind, Some(log))?;
        buffer.edit().all();
        Ok((buffer, invalidated))
    }

    /// As [`invalidate`](Self::invalidate), in checkpoint `sequence`.
    pub fn invalidate_logged(&self, pieces: &[Piece], sequence: u64) -> Invalidated {
        let mut invalidated = Invalidated::default();
        let Ok(key) = Key::new(pieces, &self.hasher) else { return invalidated };
        let shard = self.shard(key.hash);
        drop(shard.forget(&key));
        if let Some(dirty) = shard.find_dirty(&key) {
            if dirty.is_held_by_me() {
                dirty.doom();
                shard.remove_dirty(&key, &dirty, &self.dirty_bytes);
                return invalidated;
            }
            // In the order "buffer, then shard", as everywhere.
            let mut state = dirty.state.lock();
            if state.is_gone {
                return invalidated;
            }
            state.set_aside_before(sequence);
            let first = std::mem::take(&mut state.first_sequence);
            invalidated.release = Some(first).filter(|first| *first != 0);
            if invalidated.release.is_none() {
                invalidated.hold = state.set_aside.as_ref().map(|aside| aside.sequence);
            }
            state.is_gone = true;
            shard.remove_dirty(&key, &dirty, &self.dirty_bytes);
        }
        invalidated
    }

    /// Writes buffers home whose changes are stable, in the order of the disk. `released` gets the checkpoint of each
    /// buffer that is home: tell the journal after the device has been flushed. Gives how many were written, and how
    /// many had to stay although they were asked for.
    ///
    /// One thread at a time may do this.
    ///
    /// # Errors
    /// The device failed, or bytes that must not be written; what could not be written stays dirty.
    pub fn write_back_logged<E>(
        &self,
        which: LoggedWriteBack,
        seal: &LoggedSeal<'_, E>,
        released: &mut Vec<u64>,
    ) -> Result<(usize, usize), ReadError<E>> {
        let mut all = Vec::new();
        self.shards.iter().for_each(|shard| shard.collect_dirty(&mut all));
        all.sort_unstable_by_key(|dirty| dirty.pieces.first().map(|piece| piece.offset_bytes));
        let (mut written, mut left) = (0, 0);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for dirty in all {
            match self.prepare_logged(&dirty, which, seal) {
                Ok(Prepared::Write(writing)) => {
                    bytes += writing.buffer.len();
                    batch.push(*writing);
                }
                Ok(Prepared::Clean) => self.retire(&dirty, None),
                Ok(Prepared::Later) => left += 1,
                Ok(Prepared::NotAsked) => {}
                Err(error) => {
                    batch.drain(..).for_each(put_back);
                    return Err(error);
                }
            }
            if bytes >= MAX_BATCH_BYTES {
                written += self.write_logged(&mut batch, released)?;
                bytes = 0;
            }
        }
        written += self.write_logged(&mut batch, released)?;
        Ok((written, left))
    }

    /// Writes these buffers home now: what is not logged, and must be there before the checkpoint that refers to it.
    ///
    /// # Errors
    /// As [`write_back_logged`](Self::write_back_logged).
    pub fn write_ordered<E>(
        &self,
        buffers: &[ChangedBuffer],
        seal: &LoggedSeal<'_, E>,
        released: &mut Vec<u64>,
    ) -> Result<(), ReadError<E>> {
        let mut batch = Vec::with_capacity(buffers.len());
        let which = LoggedWriteBack { stable: u64::MAX, first_at_most: u64::MAX };
        for ChangedBuffer(dirty) in buffers {
            if let Prepared::Write(writing) = self.prepare_logged(dirty, which, seal)? {
                batch.push(*writing);
            }
        }
        self.write_logged(&mut batch, released)?;
        Ok(())
    }

    fn prepare_logged<E>(
        &self,
        dirty: &Arc<Dirty>,
        which: LoggedWriteBack,
        seal: &LoggedSeal<'_, E>,
    ) -> Result<Prepared, ReadError<E>> {
        let mut state = dirty.state.lock();
        if state.is_gone {
            return Ok(Prepared::NotAsked);
        }
        if !state.is_dirty {
            return Ok(Prepared::Clean);
        }
        if state.first_sequence > which.first_at_most {
            return Ok(Prepared::NotAsked);
        }
        // Invariant 13.
        if state.is_pending || state.set_aside.is_some() || state.sequence > which.stable {
            return Ok(Prepared::Later);
        }
        if state.buffer.is_pinned() {
            state.buffer = self.copy_of(&state.buffer, &dirty.pieces)?;
        }
        let (offset_bytes, sequence, unwritten) =
            (state.buffer.offset_bytes(), state.sequence, state.unwritten);
        seal(state.buffer.unshared_bytes(), offset_bytes, sequence, &unwritten).map_err(ReadError::Verify)?;
        Ok(Prepared::Write(Box::new(Writing {
            dirty: Arc::clone(dirty),
            buffer: state.buffer.clone(),
            version: state.version,
            first_sequence: std::mem::take(&mut state.first_sequence),
            unwritten: std::mem::take(&mut state.unwritten),
            is_made_by_item: std::mem::take(&mut state.is_made_by_item),
        })))
    }

    fn write_logged(&self, batch: &mut Vec<Writing>, released: &mut Vec<u64>) -> Result<usize, DeviceError> {
        let mut segments = Vec::with_capacity(batch.len());
        for Writing { dirty, buffer, .. } in batch.iter() {
            let mut left: &[u8] = buffer;
            for piece in &dirty.pieces {
                let (bytes, after) = left.split_at(piece.length_bytes as usize);
                segments.push(WriteSegment { offset_bytes: piece.offset_bytes, bytes });
                left = after;
            }
        }
        let result = self.device.write_batch(&segments);
        drop(segments);
        if let Err(error) = result {
            batch.drain(..).for_each(put_back);
            return Err(error);
        }
        let count = batch.len();
        for Writing { dirty, buffer, version, first_sequence, .. } in batch.drain(..) {
            drop(buffer);
            released.extend(Some(first_sequence).filter(|first| *first != 0));
            self.retire(&dirty, Some(version));
        }
        Ok(count)
    }
}

enum Prepared {
    Write(Box<Writing>),
    /// It is like the device.
    Clean,
    /// It must wait for its checkpoint.
    Later,
    NotAsked,
}

/// A write failed: all is as it was.
fn put_back(writing: Writing) {
    let mut state = writing.dirty.state.lock();
    state.unwritten.merge(&writing.unwritten);
    state.is_made_by_item |= writing.is_made_by_item;
    if state.first_sequence == 0 || state.first_sequence > writing.first_sequence {
        state.first_sequence = writing.first_sequence;
    }
}

impl DirtyState {
    /// Sets the version aside that a checkpoint before `sequence` left and that has not been taken (invariant 14).
    pub(super) fn set_aside_before(&mut self, sequence: u64) {
        if self.is_pending && self.sequence < sequence {
            let changes = std::mem::take(&mut self.changes);
            let buffer = self.buffer.clone();
            self.set_aside = Some(SetAside { sequence: self.sequence, buffer, changes });
            self.is_pending = false;
        }
    }
}

#[cfg(test)]
#[path = "logged_tests.rs"]
mod tests;
