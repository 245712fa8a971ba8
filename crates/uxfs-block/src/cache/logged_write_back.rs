//! Writing buffers back that logged transactions have changed. The rules are those of [`logged`](super::logged).

use std::sync::Arc;

use parking_lot::MutexGuard;
use uxfs_format::edit::DirtyMap;

use super::{
    Buffer, Cache, ReadError,
    edit::{Dirty, DirtyState},
    logged::TakenVersion,
    write_back::segments_of,
};
use crate::device::DeviceError;

/// Bytes of one submission: few enough for the thread that writes them to be free again within a millisecond.
pub(super) const MAX_BATCH_BYTES: usize = 1 << 20;

/// Which buffers may be written back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteBackLimits {
    /// The newest stable checkpoint.
    pub stable: u64,
    /// Only buffers with changes of this checkpoint or an older one; `u64::MAX` for all.
    pub first_at_most: u64,
}

/// Changed buffers that a write-back has not looked at yet, in the order of the disk.
#[derive(Debug)]
pub struct WriteBackCursor {
    rest: std::vec::IntoIter<Arc<Dirty>>,
}

impl WriteBackCursor {
    /// Whether the write-back has looked at all of them.
    pub fn is_at_end(&self) -> bool {
        self.rest.len() == 0
    }
}

/// Seals a buffer before it is written back: bytes, where they lie, the newest checkpoint in them, what differs from the device.
pub type LoggedSeal<'a, E> = dyn Fn(&mut [u8], u64, u64, &DirtyMap) -> Result<(), E> + 'a;

/// A buffer that is being written back.
struct Writing {
    dirty: Arc<Dirty>,
    buffer: Buffer,
    /// Which version it is, if it is the last one that there was.
    version: Option<u64>,
    first_sequence: u64,
    unwritten: DirtyMap,
}

/// Writes buffers back that logged transactions have changed: a view of the cache.
pub struct LoggedWriteBack<'c, E> {
    cache: &'c Cache,
    seal: &'c LoggedSeal<'c, E>,
    released: &'c mut Vec<u64>,
}

impl Cache {
    /// To write buffers back that logged transactions have changed. `released` gets the oldest checkpoint of each buffer that
    /// has been written: tell the journal after the device has been flushed.
    pub fn logged_write_back<'c, E>(
        &'c self,
        seal: &'c LoggedSeal<'c, E>,
        released: &'c mut Vec<u64>,
    ) -> LoggedWriteBack<'c, E> {
        LoggedWriteBack { cache: self, seal, released }
    }

    /// All changed buffers, to be written back in parts.
    pub fn write_back_cursor(&self) -> WriteBackCursor {
        let mut all = Vec::new();
        self.shards.iter().for_each(|shard| shard.collect_dirty(&mut all));
        all.sort_unstable_by_key(|dirty| dirty.pieces.first().map(|piece| piece.offset_bytes));
        WriteBackCursor { rest: all.into_iter() }
    }
}

impl<E> LoggedWriteBack<'_, E> {
    /// Writes buffers back whose changes are stable, in the order of the disk. Gives how many were written, and how many had
    /// to stay although they were asked for. One thread at a time may do this.
    ///
    /// # Errors
    /// The device failed, or the sealer refused bytes; buffers that could not be written stay changed.
    pub fn all(&mut self, which: WriteBackLimits) -> Result<(usize, usize), ReadError<E>> {
        self.part(&mut self.cache.write_back_cursor(), which, || false)
    }

    /// As [`all`](Self::all), from where the last part ended; `is_enough` is asked after each batch. Between two parts other
    /// threads may change and free the buffers.
    ///
    /// # Errors
    /// As there.
    pub fn part(
        &mut self,
        cursor: &mut WriteBackCursor,
        which: WriteBackLimits,
        is_enough: impl Fn() -> bool,
    ) -> Result<(usize, usize), ReadError<E>> {
        let (mut written, mut left) = (0, 0);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for dirty in cursor.rest.by_ref() {
            match self.prepare(&dirty, which) {
                Ok(Prepared::Write(writing)) => {
                    bytes += writing.buffer.len();
                    batch.push(*writing);
                }
                Ok(Prepared::Clean) => self.cache.retire(&dirty, None),
                Ok(Prepared::Later) => left += 1,
                Ok(Prepared::NotAsked) => {}
                Err(error) => {
                    batch.drain(..).for_each(put_back);
                    return Err(error);
                }
            }
            if bytes >= MAX_BATCH_BYTES {
                written += self.write(&mut batch)?;
                bytes = 0;
                if is_enough() {
                    break;
                }
            }
        }
        written += self.write(&mut batch)?;
        Ok((written, left))
    }

    /// Writes versions that are not logged ([`Taken::ordered`](super::logged::Taken::ordered)) and must be on the device before
    /// the checkpoint that refers to them is stable: as the checkpoint left them, also where other threads have freed or
    /// changed the buffers since they were taken.
    ///
    /// # Errors
    /// As [`all`](Self::all).
    pub fn ordered(&mut self, versions: Vec<TakenVersion>) -> Result<(), ReadError<E>> {
        let mut batch = self.prepare_each(versions, |version| self.prepare_ordered(version).map(Some))?;
        self.write(&mut batch)?;
        Ok(())
    }

    /// Prepares versions to be written. Where one fails, those before it are as they were.
    fn prepare_each(
        &self,
        versions: Vec<TakenVersion>,
        prepare: impl Fn(TakenVersion) -> Result<Option<Writing>, ReadError<E>>,
    ) -> Result<Vec<Writing>, ReadError<E>> {
        let mut batch = Vec::with_capacity(versions.len());
        for version in versions {
            match prepare(version) {
                Ok(writing) => batch.extend(writing),
                Err(error) => {
                    batch.drain(..).for_each(put_back);
                    return Err(error);
                }
            }
        }
        Ok(batch)
    }

    fn prepare_ordered(
        &self,
        TakenVersion { dirty, buffer: taken, sequence }: TakenVersion,
    ) -> Result<Writing, ReadError<E>> {
        let state = dirty.state.lock();
        if !state.is_gone && !state.is_pending && state.sequence == sequence {
            // Editors must not have to continue in a copy because of this reference.
            drop(taken);
            return self.prepare_state(&dirty, state);
        }
        drop(state);
        let mut buffer = self.cache.copy_of(&taken, &dirty.pieces)?;
        let (offset_bytes, unwritten) = (buffer.offset_bytes(), DirtyMap::clean());
        (self.seal)(buffer.unshared_bytes(), offset_bytes, sequence, &unwritten)
            .map_err(ReadError::Verify)?;
        // The thread that freed or changed it has accounted for it.
        Ok(Writing { dirty, buffer, version: None, first_sequence: 0, unwritten })
    }

    /// Writes versions that [`ChangedBuffer::take`](super::logged::ChangedBuffer::take) has kept, in the order of the disk; their
    /// checkpoint is stable, and no later one has been taken. No other thread writes buffers back meanwhile, as in
    /// [`all`](Self::all).
    ///
    /// # Errors
    /// As there.
    pub fn versions(&mut self, mut versions: Vec<TakenVersion>) -> Result<usize, ReadError<E>> {
        versions.sort_unstable_by_key(|version| version.buffer.offset_bytes());
        let mut batch = self.prepare_each(versions, |version| self.prepare_kept(version))?;
        Ok(self.write(&mut batch)?)
    }

    /// `None` for a version that is not needed any more.
    fn prepare_kept(
        &self,
        TakenVersion { dirty, buffer: taken, sequence }: TakenVersion,
    ) -> Result<Option<Writing>, ReadError<E>> {
        let mut buffer = self.cache.copy_of(&taken, &dirty.pieces)?;
        drop(taken);
        let mut state = dirty.state.lock();
        // It has been written back meanwhile, or freed and released.
        if state.is_gone || state.first_sequence == 0 {
            return Ok(None);
        }
        let offset_bytes = buffer.offset_bytes();
        (self.seal)(buffer.unshared_bytes(), offset_bytes, sequence, &state.unwritten)
            .map_err(ReadError::Verify)?;
        let first_sequence = std::mem::take(&mut state.first_sequence);
        // The runs stay marked: the bytes in memory have not been sealed, and inodes must not be written later with an older
        // LSN than this version has.
        let unwritten = state.unwritten;
        drop(state);
        Ok(Some(Writing { dirty, buffer, version: None, first_sequence, unwritten }))
    }

    fn prepare(&self, dirty: &Arc<Dirty>, which: WriteBackLimits) -> Result<Prepared, ReadError<E>> {
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
        self.prepare_state(dirty, state).map(|writing| Prepared::Write(Box::new(writing)))
    }

    fn prepare_state(
        &self,
        dirty: &Arc<Dirty>,
        mut state: MutexGuard<'_, DirtyState>,
    ) -> Result<Writing, ReadError<E>> {
        if state.sealed_version != Some(state.version) {
            if state.buffer.is_pinned() {
                state.buffer = self.cache.copy_of(&state.buffer, &dirty.pieces)?;
            }
            let (offset_bytes, sequence, unwritten) =
                (state.buffer.offset_bytes(), state.sequence, state.unwritten);
            (self.seal)(state.buffer.unshared_bytes(), offset_bytes, sequence, &unwritten)
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

    fn write(&mut self, batch: &mut Vec<Writing>) -> Result<usize, DeviceError> {
        let segments = segments_of(batch.iter().map(|writing| (&*writing.dirty, &writing.buffer)));
        let result = self.cache.device.write_batch(&segments);
        drop(segments);
        if let Err(error) = result {
            batch.drain(..).for_each(put_back);
            return Err(error);
        }
        let count = batch.len();
        for Writing { dirty, buffer, version, first_sequence, .. } in batch.drain(..) {
            drop(buffer);
            self.released.extend(Some(first_sequence).filter(|first| *first != 0));
            if version.is_some() {
                self.cache.retire(&dirty, version);
            }
        }
        Ok(count)
    }
}

/// Decision about a buffer that a write-back looks at.
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
