//! Writing changed buffers back, in the order of the disk and in large writes.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use super::{Buffer, BufferSealer, Cache, ReadError, edit::Dirty};
use crate::device::WriteSegment;

/// Bytes of one submission.
const MAX_BATCH_BYTES: usize = 4 << 20;

/// Which changed buffers are to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteBack {
    /// All.
    All,
    /// Those that have not been changed for a while: what is being worked on would only be written twice.
    Cold,
}

/// One buffer on its way.
struct Writing {
    dirty: Arc<Dirty>,
    buffer: Buffer,
    version: u64,
}

impl Cache {
    /// Writes changed buffers back and returns how many were written. Buffers that are being changed are waited for.
    /// Those that could not be written stay as they were.
    ///
    /// # Errors
    /// The device failed, or the sealer refused bytes; other buffers may have been written.
    pub fn write_back<S: BufferSealer>(
        &self,
        which: WriteBack,
        sealer: &S,
    ) -> Result<usize, ReadError<S::Error>> {
        let mut all = Vec::new();
        self.shards.iter().for_each(|shard| shard.collect_dirty(&mut all));
        if which == WriteBack::Cold {
            retain_cold(&mut all);
        }
        all.sort_unstable_by_key(|dirty| dirty.pieces.first().map(|piece| piece.offset_bytes));
        let mut written = 0;
        let mut rest = all.into_iter().peekable();
        while rest.peek().is_some() {
            written += self.write_batch(&mut rest, sealer)?;
        }
        Ok(written)
    }

    fn write_batch<S: BufferSealer>(
        &self,
        rest: &mut impl Iterator<Item = Arc<Dirty>>,
        sealer: &S,
    ) -> Result<usize, ReadError<S::Error>> {
        let (mut batch, mut clean, mut bytes) = (Vec::new(), Vec::new(), 0);
        for dirty in rest.by_ref() {
            match self.prepare_write(&dirty, sealer)? {
                Some((buffer, version)) => {
                    bytes += buffer.len();
                    batch.push(Writing { dirty, buffer, version });
                }
                None => clean.push(dirty),
            }
            if bytes >= MAX_BATCH_BYTES {
                break;
            }
        }
        let segments = segments_of(batch.iter().map(|writing| (&*writing.dirty, &writing.buffer)));
        self.device.write_batch(&segments)?;
        drop(segments);
        let count = batch.len();
        for Writing { dirty, buffer, version } in batch {
            drop(buffer);
            self.retire(&dirty, Some(version));
        }
        clean.iter().for_each(|dirty| self.retire(dirty, None));
        Ok(count)
    }

    /// Seals the bytes; gives them and their version, or nothing where they do not differ from the device.
    fn prepare_write<S: BufferSealer>(
        &self,
        dirty: &Dirty,
        sealer: &S,
    ) -> Result<Option<(Buffer, u64)>, ReadError<S::Error>> {
        let mut state = dirty.state.lock();
        if state.is_gone || !state.is_dirty {
            return Ok(None);
        }
        if state.buffer.is_pinned() {
            state.buffer = self.copy_of(&state.buffer, &dirty.pieces)?;
        }
        let (offset_bytes, changes) = (state.buffer.offset_bytes(), state.changes);
        sealer.seal(state.buffer.unshared_bytes(), offset_bytes, &changes).map_err(ReadError::Verify)?;
        Ok(Some((state.buffer.clone(), state.version)))
    }

    /// Takes a buffer that is like the device again back into the queues, unless it has been changed meanwhile or
    /// a thread waits to change it.
    pub(super) fn retire(&self, dirty: &Arc<Dirty>, written_version: Option<u64>) {
        let Some(mut state) = dirty.state.try_lock() else { return };
        if state.is_gone {
            return;
        }
        match written_version {
            Some(version) if state.version == version => state.is_dirty = false,
            _ if state.is_dirty => return,
            _ => {}
        }
        if state.is_pending || state.snapshot.is_some() {
            return;
        }
        let Ok(key) = super::key::Key::new(&dirty.pieces, &self.hasher) else { return };
        let shard = self.shard(key.hash);
        if shard.make_clean(&key, dirty, &state.buffer, self.probation_target(), &self.dirty_bytes) {
            state.is_gone = true;
        }
    }
}

/// The segments to write of buffers: one for each piece.
pub(super) fn segments_of<'b>(
    buffers: impl ExactSizeIterator<Item = (&'b Dirty, &'b Buffer)>,
) -> Vec<WriteSegment<'b>> {
    let mut segments = Vec::with_capacity(buffers.len());
    for (dirty, buffer) in buffers {
        let mut left: &[u8] = buffer;
        for piece in &dirty.pieces {
            let (bytes, after) = left.split_at(piece.length_bytes as usize);
            segments.push(WriteSegment { offset_bytes: piece.offset_bytes, bytes });
            left = after;
        }
    }
    segments
}

/// Leaves the half that was changed longest ago.
fn retain_cold(all: &mut Vec<Arc<Dirty>>) {
    let mut stamps: Vec<u64> = all.iter().map(|dirty| dirty.changed_at.load(Relaxed)).collect();
    let middle = stamps.len() / 2;
    if middle == 0 {
        return;
    }
    let (_, median, _) = stamps.select_nth_unstable(middle);
    let median = *median;
    all.retain(|dirty| dirty.changed_at.load(Relaxed) <= median);
}
