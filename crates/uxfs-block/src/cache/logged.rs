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
//! 14. **One version a checkpoint.** What is taken for a checkpoint is the buffer as that checkpoint left it: before
//!     a later checkpoint changes a buffer, the version that has not been taken is kept as a snapshot.
//! 15. **Accounted.** From the moment that a checkpoint's changes are taken until the buffer is home, the oldest such
//!     checkpoint is told to the journal exactly once as entered and once as released, so that its tail stays behind it.
//! 16. **Sealed once.** A version that was sealed when its checkpoint took it is written back as it is: every later
//!     change makes another version, and that one is sealed anew.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use parking_lot::MutexGuard;
use uxfs_format::edit::DirtyMap;

pub use super::sealing::{SealableBytes, TakenBytes};
use super::{
    Buffer, BufferVerifier, Cache, EditBuffer, Piece, ReadError,
    edit::{Dirty, DirtyState},
    key::Key,
};
use crate::device::{DeviceError, WriteSegment};

/// Bytes of one submission: few enough for the thread that writes them to be free again within a millisecond.
const MAX_BATCH_BYTES: usize = 1 << 20;

/// What one transaction has changed: handed along with each change, and to the journal at its end.
#[derive(Debug, Default)]
pub struct EditLog {
    sequence: u64,
    touched: RefCell<Vec<ChangedBuffer>>,
    /// Whether any buffer was changed: also one that the checkpoint holds already, in runs that are marked already.
    has_changed: Cell<bool>,
    /// Upper bound of what the changes take in the log.
    logged_bytes: Cell<u64>,
}

/// What a run of 128 bytes takes in the log, with the header of its region.
pub const RUN_LOG_BYTES: u32 = 140;
/// What each piece of a buffer takes beside its runs.
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

/// What becomes of a buffer's changes that are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taking {
    /// They have been logged.
    Logged,
    /// They are not logged: the whole buffer goes home before its checkpoint is stable.
    Ordered,
}

/// What came of taking a buffer's changes.
#[derive(Debug, Default)]
pub struct Taken {
    /// This checkpoint now holds changes that are not at home, and no older one does.
    pub entered: Option<u64>,
    /// An older checkpoint has changes of the buffer that are not at home.
    pub is_relogged: bool,
    /// The buffer as this checkpoint left it, where it was asked for.
    pub version: Option<TakenVersion>,
    /// The same where it is not logged, for [`Cache::write_ordered`].
    pub ordered: Option<TakenVersion>,
}

/// A buffer as a checkpoint left it, to be written home when that is stable, however often it changes meanwhile.
#[derive(Debug)]
pub struct TakenVersion {
    dirty: Arc<Dirty>,
    buffer: Buffer,
    sequence: u64,
}

impl ChangedBuffer {
    /// Hands what checkpoint `sequence` has changed to `log`, and takes it off the buffer's list. Where the oldest
    /// changes that are not at home are of a checkpoint before `keep_before`, this version is kept for
    /// [`Cache::write_versions`], so that the old checkpoint is soon no longer needed. `seal` seals and verifies what has
    /// been logged.
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
                Some(aside) => seal(TakenBytes {
                    offset_bytes: aside.buffer.offset_bytes(),
                    changes,
                    bytes: SealableBytes::InCopy(&aside.buffer),
                })?,
                None => state.seal(changes, seal)?,
            }
        }
        let buffer = snapshot.as_ref().map_or(&state.buffer, |aside| &aside.buffer);
        let version = || TakenVersion { dirty: Arc::clone(&self.0), buffer: buffer.clone(), sequence };
        // Also of one that is gone, or will be in a moment: the checkpoint refers to it.
        let mut taken = Taken { ordered: (taking == Taking::Ordered).then(version), ..Taken::default() };
        // Of a buffer that is gone the invalidation has accounted for.
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

/// Which buffers may go home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedWriteBack {
    /// The newest stable checkpoint.
    pub stable: u64,
    /// Only buffers with changes of this checkpoint or an older one; `u64::MAX` for all.
    pub first_at_most: u64,
}

/// Changed buffers that have not been looked at yet, in the order of the disk.
#[derive(Debug)]
pub struct WriteBackCursor {
    rest: std::vec::IntoIter<Arc<Dirty>>,
}

impl WriteBackCursor {
    /// Whether all have been.
    pub fn is_at_end(&self) -> bool {
        self.rest.len() == 0
    }
}

/// Seals a buffer for its way home: bytes, where they lie, the newest checkpoint in them, what differs from the device.
pub type LoggedSeal<'a, E> = dyn Fn(&mut [u8], u64, u64, &DirtyMap) -> Result<(), E> + 'a;

struct Writing {
    dirty: Arc<Dirty>,
    buffer: Buffer,
    /// Which version it is, if it is the last one that there was.
    version: Option<u64>,
    first_sequence: u64,
    unwritten: DirtyMap,
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

    /// As [`create`](Self::create), for a transaction that is logged. All bytes count as changed. `hold` and what else is
    /// given as for [`invalidate_logged`](Self::invalidate_logged).
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

    /// As [`invalidate`](Self::invalidate), in checkpoint `sequence`. Gives the checkpoint that holds changes which are not
    /// at home, if one does: it is to be released once `sequence` is stable, since until then a crash gives the buffer back
    /// to its owner. `hold` is told of it where it has not been entered yet; as long as `hold` runs, its changes are not
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
        self.write_back_part(&mut self.write_back_cursor(), which, seal, released, || false)
    }

    /// All changed buffers, to be brought home in parts.
    pub fn write_back_cursor(&self) -> WriteBackCursor {
        let mut all = Vec::new();
        self.shards.iter().for_each(|shard| shard.collect_dirty(&mut all));
        all.sort_unstable_by_key(|dirty| dirty.pieces.first().map(|piece| piece.offset_bytes));
        WriteBackCursor { rest: all.into_iter() }
    }

    /// As [`write_back_logged`](Self::write_back_logged), from where the last part ended; `is_enough` is asked after each
    /// batch. Between two parts anything may happen to the buffers.
    ///
    /// # Errors
    /// As there.
    pub fn write_back_part<E>(
        &self,
        way: &mut WriteBackCursor,
        which: LoggedWriteBack,
        seal: &LoggedSeal<'_, E>,
        released: &mut Vec<u64>,
        is_enough: impl Fn() -> bool,
    ) -> Result<(usize, usize), ReadError<E>> {
        let (mut written, mut left) = (0, 0);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for dirty in way.rest.by_ref() {
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
                if is_enough() {
                    break;
                }
            }
        }
        written += self.write_logged(&mut batch, released)?;
        Ok((written, left))
    }

    /// Writes home what is not logged ([`Taken::ordered`]), and must be there before the checkpoint that refers to it is
    /// stable: as that left it, also where others have freed or changed it since it was taken.
    ///
    /// # Errors
    /// As [`write_back_logged`](Self::write_back_logged).
    pub fn write_ordered<E>(
        &self,
        versions: Vec<TakenVersion>,
        seal: &LoggedSeal<'_, E>,
        released: &mut Vec<u64>,
    ) -> Result<(), ReadError<E>> {
        let mut batch = Vec::with_capacity(versions.len());
        for version in versions {
            match self.prepare_ordered(version, seal) {
                Ok(writing) => batch.push(writing),
                Err(error) => {
                    batch.drain(..).for_each(put_back);
                    return Err(error);
                }
            }
        }
        self.write_logged(&mut batch, released)?;
        Ok(())
    }

    fn prepare_ordered<E>(
        &self,
        TakenVersion { dirty, buffer: taken, sequence }: TakenVersion,
        seal: &LoggedSeal<'_, E>,
    ) -> Result<Writing, ReadError<E>> {
        let state = dirty.state.lock();
        if !state.is_gone && !state.is_pending && state.sequence == sequence {
            // Editors must not have to continue in a copy because of this reference.
            drop(taken);
            return self.prepare_state(&dirty, state, seal);
        }
        drop(state);
        let mut buffer = self.copy_of(&taken, &dirty.pieces)?;
        let (offset_bytes, unwritten) = (buffer.offset_bytes(), DirtyMap::clean());
        seal(buffer.unshared_bytes(), offset_bytes, sequence, &unwritten).map_err(ReadError::Verify)?;
        // The thread that freed or changed it has accounted for it.
        Ok(Writing { dirty, buffer, version: None, first_sequence: 0, unwritten })
    }

    /// Writes versions home that [`ChangedBuffer::take`] has kept, in the order of the disk; their checkpoint is stable, and
    /// no later one has been taken. `released` as in [`write_back_logged`](Self::write_back_logged), and who calls this is
    /// the one thread of there.
    ///
    /// # Errors
    /// As there.
    pub fn write_versions<E>(
        &self,
        mut versions: Vec<TakenVersion>,
        seal: &LoggedSeal<'_, E>,
        released: &mut Vec<u64>,
    ) -> Result<usize, ReadError<E>> {
        versions.sort_unstable_by_key(|version| version.buffer.offset_bytes());
        let mut batch = Vec::with_capacity(versions.len());
        for TakenVersion { dirty, buffer: taken, sequence } in versions {
            let mut buffer = self.copy_of(&taken, &dirty.pieces)?;
            drop(taken);
            let mut state = dirty.state.lock();
            // Somebody has brought it home meanwhile, or freed it and said so.
            if state.is_gone || state.first_sequence == 0 {
                continue;
            }
            let offset_bytes = buffer.offset_bytes();
            seal(buffer.unshared_bytes(), offset_bytes, sequence, &state.unwritten)
                .map_err(ReadError::Verify)?;
            let writing = Writing {
                buffer,
                version: None,
                first_sequence: std::mem::take(&mut state.first_sequence),
                // They stay marked: what is in memory has not been sealed, and inodes must not go home later with an older
                // number than this.
                unwritten: state.unwritten,
                dirty: Arc::clone(&dirty),
            };
            drop(state);
            batch.push(writing);
        }
        Ok(self.write_logged(&mut batch, released)?)
    }

    fn prepare_logged<E>(
        &self,
        dirty: &Arc<Dirty>,
        which: LoggedWriteBack,
        seal: &LoggedSeal<'_, E>,
    ) -> Result<Prepared, ReadError<E>> {
        let state = dirty.state.lock();
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
        if state.is_pending || state.snapshot.is_some() || state.sequence > which.stable {
            return Ok(Prepared::Later);
        }
        self.prepare_state(dirty, state, seal).map(|writing| Prepared::Write(Box::new(writing)))
    }

    fn prepare_state<E>(
        &self,
        dirty: &Arc<Dirty>,
        mut state: MutexGuard<'_, DirtyState>,
        seal: &LoggedSeal<'_, E>,
    ) -> Result<Writing, ReadError<E>> {
        if state.sealed_version != Some(state.version) {
            if state.buffer.is_pinned() {
                state.buffer = self.copy_of(&state.buffer, &dirty.pieces)?;
            }
            let (offset_bytes, sequence, unwritten) =
                (state.buffer.offset_bytes(), state.sequence, state.unwritten);
            seal(state.buffer.unshared_bytes(), offset_bytes, sequence, &unwritten)
                .map_err(ReadError::Verify)?;
        }
        Ok(Writing {
            dirty: Arc::clone(dirty),
            buffer: state.buffer.clone(),
            version: Some(state.version),
            first_sequence: std::mem::take(&mut state.first_sequence),
            unwritten: std::mem::take(&mut state.unwritten),
        })
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
            if version.is_some() {
                self.retire(&dirty, version);
            }
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
    if writing.first_sequence == 0 {
        return;
    }
    let mut state = writing.dirty.state.lock();
    state.unwritten.merge(&writing.unwritten);
    if state.first_sequence == 0 || state.first_sequence > writing.first_sequence {
        state.first_sequence = writing.first_sequence;
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
