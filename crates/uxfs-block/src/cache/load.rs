//! From names to buffers: looking up, making room, reading what is missing.

use std::{io, sync::Arc};

use super::{
    Cache, Piece,
    budget::{Charge, OVERHEAD_BYTES},
    buffer::Buffer,
    edit::Dirty,
    flight::Flight,
    key::Key,
    shard::{Claim, Lookup},
};
use crate::{
    aligned_buffer::AlignedBuffer,
    device::{DeviceError, DeviceOperation, ReadSegment, batch_bytes, contiguous_runs},
};

/// Bytes read in one submission at most.
const MAX_BATCH_BYTES: u64 = 8 << 20;

/// Gaps of a batch take at most one part in this many of the budget…
const GAPS_SHARE: u64 = 16;
/// … and at most this much.
const MAX_GAPS_BYTES: u64 = 8 << 20;

/// Memory is mapped beyond the budget by one part in this many of it…
const MAPPED_SLACK_SHARE: u64 = 8;
/// … and this many chunks: one for each stripe that is not full, and spare ones.
const MAPPED_SLACK_CHUNKS: u64 = 6;
/// How often some buffers are given up so that free pieces of memory join.
const JOINING_ROUNDS: usize = 32;

/// A buffer to be read, and the place where its result goes.
struct Miss<'a> {
    request: usize,
    key: Key<'a>,
    claim: Claim<'a>,
}

/// A miss with memory to read into.
struct Loading<'a> {
    miss: Miss<'a>,
    memory: AlignedBuffer,
    charge: Charge,
}

/// Result of a lookup by name.
pub(super) enum CachedBuffer {
    /// A buffer like the device.
    Clean(Buffer),
    /// One that has been changed.
    Dirty(Arc<Dirty>),
}

type Loaded = (usize, Result<Buffer, DeviceError>);

impl Cache {
    pub(super) fn find_or_load(&self, pieces: &[Piece]) -> Result<CachedBuffer, DeviceError> {
        let key = Key::new(pieces, &self.hasher)?;
        loop {
            match self.shard(key.hash).look_up_or_claim(&key, false) {
                Lookup::Hit(buffer) => return Ok(CachedBuffer::Clean(buffer)),
                Lookup::Dirty(dirty) => return Ok(CachedBuffer::Dirty(dirty)),
                Lookup::Claimed(claim) => {
                    return self.load(Miss { request: 0, key, claim }).map(CachedBuffer::Clean);
                }
                Lookup::InFlight(flight) => {
                    // Where that read failed this thread tries itself, for an error of its own.
                    if let Some(buffer) = flight.wait() {
                        return Ok(CachedBuffer::Clean(buffer));
                    }
                }
            }
        }
    }

    pub(super) fn find_or_load_many<'a>(
        &'a self,
        requests: impl Iterator<Item = &'a [Piece]>,
    ) -> Vec<Result<CachedBuffer, DeviceError>> {
        let mut results = Vec::with_capacity(requests.size_hint().0);
        let (mut misses, mut waits) = (Vec::new(), Vec::<(usize, &[Piece], Arc<Flight>)>::new());
        for (request, pieces) in requests.enumerate() {
            results.push(None);
            match self.look_up_or_claim(pieces, false) {
                Err(error) => results[request] = Some(Err(error)),
                Ok((_, Lookup::Hit(buffer))) => results[request] = Some(Ok(CachedBuffer::Clean(buffer))),
                Ok((_, Lookup::Dirty(dirty))) => results[request] = Some(Ok(CachedBuffer::Dirty(dirty))),
                Ok((_, Lookup::InFlight(flight))) => waits.push((request, pieces, flight)),
                Ok((key, Lookup::Claimed(claim))) => misses.push(Miss { request, key, claim }),
            }
        }
        self.load_batches(misses, |(request, result)| {
            results[request] = Some(result.map(CachedBuffer::Clean))
        });
        // Only now: others may wait for what this thread had claimed.
        for (request, pieces, flight) in waits {
            let found = flight.wait().map(CachedBuffer::Clean);
            results[request] = Some(found.map_or_else(|| self.find_or_load(pieces), Ok));
        }
        results.into_iter().flatten().collect()
    }

    /// Reads buffers that will be wanted soon. Errors are left to the later lookup. Takes no more than fits into
    /// probation, so that what is read first is not given up before it is used.
    pub fn prefetch<'a>(&'a self, requests: impl IntoIterator<Item = &'a [Piece]>) {
        let most = self.probation_target() * self.shards.len() as u64;
        let (mut misses, mut bytes) = (Vec::new(), 0);
        for pieces in requests {
            let Ok((key, Lookup::Claimed(claim))) = self.look_up_or_claim(pieces, true) else { continue };
            bytes += self.charge_bytes(&key);
            if bytes > most && !misses.is_empty() {
                break;
            }
            misses.push(Miss { request: 0, key, claim });
        }
        self.load_batches(misses, |(_, result)| self.counters.prefetched.add(result.is_ok().into()));
    }

    fn look_up_or_claim<'a>(
        &'a self,
        pieces: &'a [Piece],
        is_prefetch: bool,
    ) -> Result<(Key<'a>, Lookup<'a>), DeviceError> {
        let key = Key::new(pieces, &self.hasher)?;
        Ok((key, self.shard(key.hash).look_up_or_claim(&key, is_prefetch)))
    }

    fn load(&self, miss: Miss<'_>) -> Result<Buffer, DeviceError> {
        let mut loading = self.prepare(miss)?;
        let mut segments = Vec::with_capacity(loading.miss.key.pieces.len());
        loading.add_segments(&mut segments);
        self.counters.batches.add(1);
        match segments.as_mut_slice() {
            [segment] => self.device.read(segment.offset_bytes, segment.buffer)?,
            segments => self.device.read_batch(segments)?,
        }
        Ok(self.publish(loading))
    }

    fn load_batches(&self, misses: Vec<Miss<'_>>, mut done: impl FnMut(Loaded)) {
        let mut batch = Vec::with_capacity(misses.len());
        let mut batch_bytes = 0;
        for miss in misses {
            let (request, length_bytes) = (miss.request, u64::from(miss.key.whole.length_bytes));
            if batch_bytes + length_bytes > MAX_BATCH_BYTES {
                self.load_batch(std::mem::take(&mut batch), &mut done);
                batch_bytes = 0;
            }
            batch_bytes += length_bytes;
            match self.prepare(miss) {
                Ok(loading) => batch.push(loading),
                Err(error) => done((request, Err(error))),
            }
        }
        self.load_batch(batch, &mut done);
    }

    fn load_batch(&self, mut batch: Vec<Loading<'_>>, done: &mut impl FnMut(Loaded)) {
        if batch.is_empty() {
            return;
        }
        let outcome = self.read_batch(&mut batch);
        for mut loading in batch {
            let request = loading.miss.request;
            // The batch says only that something failed; each buffer then finds out for itself.
            let result = outcome.as_ref().map_or_else(|_| self.read_alone(&mut loading), |()| Ok(()));
            done((request, result.map(|()| self.publish(loading))));
        }
    }

    fn read_batch(&self, batch: &mut [Loading<'_>]) -> Result<(), DeviceError> {
        let buffers = batch.len();
        let mut segments = Vec::with_capacity(buffers);
        batch.iter_mut().for_each(|loading| loading.add_segments(&mut segments));
        segments.sort_unstable_by_key(|segment| segment.offset_bytes);
        let ranges = segments.iter().map(|segment| (segment.offset_bytes, segment.buffer.len() as u64));
        let gap_limit_bytes = self.planner.lock().gap_limit_bytes(ranges);
        let gaps = gaps_to_read(&segments, gap_limit_bytes, self.budget.for_buffers() / GAPS_SHARE);
        if gaps.is_empty() {
            return self.submit(buffers, &mut segments, 0);
        }
        // The bytes between are thrown away again, but while they are there they count. Slots of the pool have been
        // used before, so that they cost no page faults.
        let footprint = |gap: &Piece| self.pool.footprint_bytes(gap.length_bytes as usize) as u64;
        let _charge = self.make_room(gaps.iter().map(footprint).sum(), 0);
        let mut scratch: Vec<_> =
            gaps.iter().map_while(|gap| self.pool.allocate(gap.length_bytes as usize).ok()).collect();
        let gap_bytes = scratch.iter().map(|buffer| buffer.len() as u64).sum();
        for (gap, buffer) in gaps.iter().zip(&mut scratch) {
            segments.push(ReadSegment { offset_bytes: gap.offset_bytes, buffer });
        }
        segments.sort_unstable_by_key(|segment| segment.offset_bytes);
        self.submit(buffers, &mut segments, gap_bytes)
    }

    fn submit(
        &self,
        buffers: usize,
        segments: &mut [ReadSegment<'_>],
        gap_bytes: u64,
    ) -> Result<(), DeviceError> {
        self.counters.batches.add(1);
        self.counters.gap_bytes_read.add(gap_bytes);
        let (requests, bytes) = (contiguous_runs(segments).count() as u64, batch_bytes(segments));
        let begin = self.clock.now();
        let result = self.device.read_batch(segments);
        let elapsed = self.clock.now().saturating_sub(begin);
        if result.is_ok() {
            self.planner.lock().observe(buffers, requests, bytes, gap_bytes, elapsed);
        }
        result
    }

    fn read_alone(&self, loading: &mut Loading<'_>) -> Result<(), DeviceError> {
        let mut segments = Vec::with_capacity(loading.miss.key.pieces.len());
        loading.add_segments(&mut segments);
        self.counters.batches.add(1);
        self.device.read_batch(&mut segments)
    }

    /// Checks the range and gets memory.
    fn prepare<'a>(&self, miss: Miss<'a>) -> Result<Loading<'a>, DeviceError> {
        let size_bytes = self.device.size_bytes();
        for piece in miss.key.pieces {
            let (offset_bytes, length_bytes) = (piece.offset_bytes, u64::from(piece.length_bytes));
            if offset_bytes.checked_add(length_bytes).is_none_or(|end| end > size_bytes) {
                return Err(DeviceError::outside(DeviceOperation::Read, offset_bytes, length_bytes));
            }
        }
        let home = self.shard_index(miss.key.hash);
        let charge = self.make_room(self.charge_bytes(&miss.key), home);
        let Piece { offset_bytes, length_bytes } = miss.key.whole;
        let memory = self.allocate(length_bytes as usize, home).map_err(|source| DeviceError {
            operation: DeviceOperation::Read,
            offset_bytes,
            length_bytes: length_bytes.into(),
            source,
        })?;
        Ok(Loading { miss, memory, charge })
    }

    /// A buffer of its own for `key`, in no table, holding anything.
    pub(super) fn memory_for(
        &self,
        key: &Key<'_>,
        operation: DeviceOperation,
    ) -> Result<Buffer, DeviceError> {
        let home = self.shard_index(key.hash);
        let charge = self.make_room(self.charge_bytes(key), home);
        let Piece { offset_bytes, length_bytes } = key.whole;
        let memory = self.allocate(length_bytes as usize, home).map_err(|source| DeviceError {
            operation,
            offset_bytes,
            length_bytes: length_bytes.into(),
            source,
        })?;
        Ok(Buffer::new(memory, offset_bytes, charge))
    }

    fn publish(&self, loading: Loading<'_>) -> Buffer {
        let Loading { miss, memory, charge } = loading;
        self.counters.bytes_read.add(memory.len() as u64);
        let buffer = Buffer::new(memory, miss.key.whole.offset_bytes, charge);
        miss.claim.land(&buffer, self.probation_target());
        buffer
    }

    /// Memory for a buffer. The budget leaves room for it, but not always in one piece: where more would be mapped than
    /// the budget and some slack, buffers are given up until pieces join, within reason.
    fn allocate(&self, length_bytes: usize, home: usize) -> io::Result<AlignedBuffer> {
        let limit = self.budget.for_buffers();
        let most_mapped =
            limit + limit / MAPPED_SLACK_SHARE + MAPPED_SLACK_CHUNKS * self.pool.chunk_bytes() as u64;
        for round in 0..JOINING_ROUNDS {
            if let Some(memory) = self.pool.allocate_within(length_bytes, most_mapped)? {
                return Ok(memory);
            }
            let shard = (home + round) & (self.shards.len() - 1);
            if !self.evict_from(shard, u64::MAX) {
                break;
            }
        }
        self.pool.allocate(length_bytes)
    }

    fn charge_bytes(&self, key: &Key<'_>) -> u64 {
        self.pool.footprint_bytes(key.whole.length_bytes as usize) as u64 + OVERHEAD_BYTES
    }

    /// Takes `bytes` of the budget, giving up buffers until they fit: first of the shard that the new buffer belongs
    /// to, then of all others. Where everything is pinned the budget is exceeded (invariant 1).
    fn make_room(&self, bytes: u64, home: usize) -> Charge {
        for distance in 0..self.shards.len() {
            let shard = (home + distance) & (self.shards.len() - 1);
            loop {
                match self.budget.try_charge(bytes) {
                    Ok(charge) => return charge,
                    Err(excess_bytes) if self.evict_from(shard, excess_bytes) => {}
                    Err(_) => break,
                }
            }
        }
        self.budget.charge_over_limit(bytes)
    }
}

impl Loading<'_> {
    fn add_segments<'b>(&'b mut self, segments: &mut Vec<ReadSegment<'b>>) {
        let mut rest = &mut *self.memory;
        for piece in self.miss.key.pieces {
            let (buffer, after) = rest.split_at_mut(piece.length_bytes as usize);
            segments.push(ReadSegment { offset_bytes: piece.offset_bytes, buffer });
            rest = after;
        }
    }
}

/// The gaps of at most `limit_bytes` between segments in the order of their offsets, as many as `total_bytes` allow.
pub(super) fn gaps_to_read(segments: &[ReadSegment<'_>], limit_bytes: u64, total_bytes: u64) -> Vec<Piece> {
    let (mut gaps, mut left_bytes) = (Vec::new(), total_bytes.min(MAX_GAPS_BYTES));
    for pair in segments.windows(2) {
        let end_bytes = pair[0].offset_bytes.saturating_add(pair[0].buffer.len() as u64);
        let gap = pair[1].offset_bytes.saturating_sub(end_bytes);
        let Ok(length_bytes) = u32::try_from(gap) else { continue };
        if gap > 0 && gap <= limit_bytes.min(left_bytes) {
            left_bytes -= gap;
            gaps.push(Piece { offset_bytes: end_bytes, length_bytes });
        }
    }
    gaps
}
