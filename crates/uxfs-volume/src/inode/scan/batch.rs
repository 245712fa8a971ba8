//! Batches of neighbouring inode chunks: making them from the index, reading and verifying them.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use uxfs_block::{cache::batch_reader::BatchReader, device::ReadSegment};
use uxfs_format::{
    btree::inode_index::InodeChunk,
    convert::long_to_usize,
    fault::Fault,
    geometry::Geometry,
    inode::{InodeCore, InodeFault, verify_inode},
    units::{AgBlock, AgInode, AgNumber, InodeNumber},
};

use super::{ScanEvent, ScannedInode, Visit, Worker};
use crate::error::Result;

/// Bytes of inodes in a batch: one large read, yet small enough to stay in a processor's cache until it is verified.
const BATCH_BYTES: u64 = 1 << 20;

/// Where reading a batch takes at least this long, and this many times as long as verifying it, the device is slow.
const SLOW_READ: Duration = Duration::from_millis(1);
const SLOW_SHARE: u32 = 2;

/// Chunks of one group, in order.
#[derive(Debug)]
pub(super) struct Batch {
    group: AgNumber,
    chunks: Vec<InodeChunk>,
}

impl Batch {
    fn new(group: AgNumber) -> Self {
        Self { group, chunks: Vec::new() }
    }

    fn first(&self) -> AgInode {
        self.chunks.first().map_or(AgInode::NULL, |chunk| chunk.start)
    }

    fn inodes_in_use(&self) -> u64 {
        self.chunks.iter().map(|chunk| u64::from(chunk.allocated().count_ones())).sum()
    }
}

/// Memory of one thread, used again for every batch.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    bytes: Vec<u8>,
    runs: Vec<Run>,
    stretches: Vec<Stretch>,
    reader: BatchReader,
}

/// Inodes to read that follow each other on the device.
#[derive(Debug, Clone, Copy)]
struct Run {
    device_offset_bytes: u64,
    length_bytes: usize,
}

/// Inodes of one chunk that follow each other, and where they begin in the scratch memory.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    start: AgInode,
    /// One bit for each inode in use.
    in_use: u64,
    offset_bytes: usize,
}

impl Worker<'_> {
    /// Walks the index of a group, and passes its chunks on in batches.
    pub(super) fn walk(
        &mut self,
        group: AgNumber,
        scratch: &mut Scratch,
        visit: &mut Visit<'_>,
    ) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        let walked = self.walk_index(group, &mut |worker, batch| {
            if let Some(batch) = worker.queue.offer(batch) {
                flow = worker.process(&batch, scratch, visit);
            }
            flow.is_continue() && !worker.queue.is_stopped()
        });
        if let (Err(error), ControlFlow::Continue(())) = (walked, flow) {
            self.summary.damaged_indexes += 1;
            flow = visit(ScanEvent::UnreadableIndex { group, error });
        }
        flow
    }

    /// `pass_on` says whether to go on.
    fn walk_index(
        &mut self,
        group: AgNumber,
        pass_on: &mut dyn FnMut(&mut Self, Batch) -> bool,
    ) -> Result<()> {
        let geometry = self.volume.geometry();
        let chunks_in_batch = (BATCH_BYTES >> geometry.inode_log).div_ceil(64) as usize;
        let mut batch = Batch::new(group);
        let mut records = self.volume.group(group).inode_index()?.records();
        for record in records.by_ref() {
            let chunk = match record {
                Ok(record) => record.get(geometry),
                Err(error) => {
                    pass_on(self, batch);
                    return Err(error);
                }
            };
            batch.chunks.push(chunk);
            if batch.chunks.len() == chunks_in_batch {
                let full = std::mem::replace(&mut batch, Batch::new(group));
                if !pass_on(self, full) {
                    return Ok(());
                }
            }
        }
        pass_on(self, batch);
        // The volume has a finding for each block.
        self.summary.damaged_indexes += u32::from(records.left_out() > 0);
        Ok(())
    }

    /// Reads and verifies the inodes of a batch.
    pub(super) fn process(
        &mut self,
        batch: &Batch,
        scratch: &mut Scratch,
        visit: &mut Visit<'_>,
    ) -> ControlFlow<()> {
        let geometry = self.volume.geometry();
        scratch.plan(batch, geometry);
        self.summary.chunks += batch.chunks.len() as u64;
        let begun = Instant::now();
        if let Err(error) = scratch.read(self.volume.device().as_ref()) {
            return self.process_apart(batch, scratch, visit, error.into());
        }
        self.summary.bytes_read += scratch.bytes.len() as u64;
        let read = Instant::now();
        for stretch in &scratch.stretches {
            let bytes = scratch.bytes.get(stretch.offset_bytes..).unwrap_or_default();
            let inodes = bytes.chunks_exact(geometry.inode_size().max(1));
            for (index, bytes) in (0..u64::BITS).zip(inodes) {
                if stretch.in_use >> index & 1 == 1 {
                    let in_group = AgInode::new(stretch.start.get().wrapping_add(index));
                    let number = geometry.inode_number(batch.group, in_group);
                    self.verify(number, bytes, geometry, visit)?;
                }
            }
        }
        let (reading, verifying) = (read - begun, read.elapsed());
        if reading >= SLOW_READ && reading > verifying * SLOW_SHARE {
            self.queue.report_slow();
        }
        ControlFlow::Continue(())
    }

    /// After a failed read: each chunk alone, so that one bad sector hides few inodes.
    fn process_apart(
        &mut self,
        batch: &Batch,
        scratch: &mut Scratch,
        visit: &mut Visit<'_>,
        error: crate::error::Error,
    ) -> ControlFlow<()> {
        self.summary.chunks -= batch.chunks.len() as u64;
        if let [_] = batch.chunks.as_slice() {
            let (group, first, inode_count) = (batch.group, batch.first(), batch.inodes_in_use());
            self.summary.unread_inodes += inode_count;
            return visit(ScanEvent::UnreadableChunks { group, first, inode_count, error });
        }
        for chunk in &batch.chunks {
            let alone = Batch { group: batch.group, chunks: vec![*chunk] };
            self.process(&alone, scratch, visit)?;
        }
        ControlFlow::Continue(())
    }

    #[inline]
    fn verify(
        &mut self,
        number: InodeNumber,
        bytes: &[u8],
        geometry: &Geometry,
        visit: &mut Visit<'_>,
    ) -> ControlFlow<()> {
        let core = verify_inode(bytes, number, geometry).and_then(in_use).map_err(Fault::from);
        match core {
            Ok(_) => self.summary.inodes += 1,
            Err(_) => self.summary.damaged_inodes += 1,
        }
        visit(ScanEvent::Inode(ScannedInode { number, bytes, core }))
    }
}

/// The index says so; the inode must agree.
fn in_use(core: &InodeCore) -> std::result::Result<&InodeCore, InodeFault> {
    if core.is_free() { Err(InodeFault::FreeThoughIndexed) } else { Ok(core) }
}

impl Scratch {
    /// Plans the reads of a batch; adjacent chunks are one read.
    fn plan(&mut self, batch: &Batch, geometry: &Geometry) {
        self.runs.clear();
        self.stretches.clear();
        let mut length = 0usize;
        let group_start = geometry.sector_of_group_block(batch.group, AgBlock::new(0));
        let group_start = group_start.map_or(0, Geometry::byte_of_sector);
        for chunk in &batch.chunks {
            let existing = chunk.existing();
            let mut index = existing.trailing_zeros();
            while index < u64::BITS {
                let count = (existing >> index).trailing_ones();
                let start = chunk.inode(index);
                // Inodes of a group are numbered as they lie: number × size is the byte in the group.
                let device_offset_bytes = group_start + (u64::from(start.get()) << geometry.inode_log);
                let length_bytes = long_to_usize(u64::from(count) << geometry.inode_log);
                let in_use = chunk.allocated() >> index & (u64::MAX >> (u64::BITS - count));
                self.stretches.push(Stretch { start, in_use, offset_bytes: length });
                self.add_run(Run { device_offset_bytes, length_bytes });
                length += length_bytes;
                let rest = existing.checked_shr(index + count).unwrap_or(0);
                index = if rest == 0 { u64::BITS } else { index + count + rest.trailing_zeros() };
            }
        }
        self.bytes.resize(length, 0);
    }

    fn add_run(&mut self, run: Run) {
        match self.runs.last_mut() {
            Some(last) if last.device_offset_bytes + last.length_bytes as u64 == run.device_offset_bytes => {
                last.length_bytes += run.length_bytes;
            }
            _ => self.runs.push(run),
        }
    }

    fn read(
        &mut self,
        device: &dyn uxfs_block::device::BlockDevice,
    ) -> std::result::Result<(), uxfs_block::device::DeviceError> {
        let mut rest = self.bytes.as_mut_slice();
        let mut segments = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let (buffer, after) = rest.split_at_mut(run.length_bytes);
            segments.push(ReadSegment { offset_bytes: run.device_offset_bytes, buffer });
            rest = after;
        }
        self.reader.read(device, &mut segments)
    }
}
