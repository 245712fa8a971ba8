//! From operations to records in the log.
//!
//! Invariants:
//! 1. Records follow each other without gaps from the head on; each is a multiple of the log's unit long.
//! 2. At most [`WINDOW_BYTES`] are written before a flush. After a crash, recovery searches the two mebibytes before the
//!    head for blocks that were not written; it discards a torn record and everything behind it.
//! 3. The record that commits is written after everything that it needs was flushed.
//! 4. The head never reaches the tail: a write that would is refused before it happens.

use uxfs_block::{
    aligned_buffer::AlignedBuffer,
    device::{BlockDevice, DeviceError, DeviceOperation},
    self_check,
};
use uxfs_format::{
    edit::DIRTY_RUN_BYTES,
    field_table::OnDisk,
    log::{
        operation::{
            CLIENT_LOG, CLIENT_TRANSACTION, OperationFlags, OperationHeader, UNMOUNT_MAGIC, UnmountRecord,
        },
        record::{
            FORMAT_LITTLE_ENDIAN, MAGIC, PAYLOAD_PER_HEADER_BYTES, RecordHeader, next_cycle, seal,
            stamp_payload,
        },
        transaction::{self, TransactionHeader},
    },
    units::{Lsn, SECTOR_SIZE_BYTES, Sector, Uuid},
};
use zerocopy::{FromZeros, IntoBytes};

use crate::{
    area::BLOCK,
    error::{JournalError, Result},
};

/// Bytes that may be written between two flushes. The search for the head covers two mebibytes.
pub const WINDOW_BYTES: usize = 7 << 18;
const OPERATION_BYTES: usize = 12;

/// Where the log lies and how it is divided.
#[derive(Debug, Clone, Copy)]
pub struct LogGeometry {
    /// First sector on the device.
    pub start: Sector,
    /// Blocks of 512 bytes.
    pub blocks: u32,
    /// The user-visible uuid.
    pub uuid: Uuid,
    /// Size of the buffers that records are built in: a multiple of 32 KiB up to 256 KiB.
    #[doc(alias = "logbsize")]
    pub buffer_size_bytes: u32,
    /// Records are multiples of this: 512 bytes, the log's sector, or its stripe unit.
    pub unit_bytes: u32,
}

impl LogGeometry {
    /// Header blocks of each record.
    pub fn header_blocks(&self) -> u32 {
        self.buffer_size_bytes.div_ceil(PAYLOAD_PER_HEADER_BYTES).max(1)
    }

    /// Blocks from the head to the tail, round the ring; all of them where they are equal, since then nothing is live.
    pub fn room_blocks(&self, head: Lsn, tail: Lsn) -> u64 {
        let (head_block, tail_block) = (u64::from(head.block()), u64::from(tail.block()));
        let once_round = if head.cycle() == tail.cycle() { u64::from(self.blocks) } else { 0 };
        (once_round + tail_block).saturating_sub(head_block)
    }

    /// Blocks from an earlier record to the head.
    pub fn used_blocks(&self, head: Lsn, from: Lsn) -> u64 {
        u64::from(self.blocks).saturating_sub(self.room_blocks(head, from))
    }

    /// The most blocks that operations of `bytes` bytes take, cut into records.
    pub fn blocks_for(&self, bytes: u64) -> u64 {
        let headers = u64::from(self.header_blocks()) * BLOCK as u64;
        let room = u64::from(self.buffer_size_bytes)
            .saturating_sub(headers + OPERATION_BYTES as u64 + 4)
            .max(BLOCK as u64);
        let records = bytes / room + 1;
        (bytes + records * (headers + 32 + u64::from(self.unit_bytes))).div_ceil(BLOCK as u64)
    }
}

/// The head of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogHead {
    /// Where the next record begins.
    pub lsn: Lsn,
    /// Block of the record before; all ones if there is none.
    pub previous_block: u32,
}

/// Where a record lies in the window.
#[derive(Debug, Clone, Copy)]
struct Built {
    offset: usize,
    operations: u32,
    head: LogHead,
}

/// Builds the records of one checkpoint and writes them.
#[derive(Debug)]
pub struct RecordWriter<'w> {
    device: &'w dyn BlockDevice,
    place: LogGeometry,
    /// Moves on as records are finished.
    head: LogHead,
    tail: Lsn,
    /// Blocks left before the head would reach the tail.
    room_blocks: u64,
    window: &'w mut Vec<u8>,
    records: Vec<Built>,
    transaction: u32,
    /// Offset of the transaction's header in the first window.
    transaction_header: Option<usize>,
    regions: u32,
    written_bytes: u64,
    /// Of regions that hold what has changed, rounded.
    content_bytes: u64,
}

impl<'w> RecordWriter<'w> {
    /// At `head`, with the tail at `tail` as long as this checkpoint is written. `window` is memory to be used again.
    pub fn new(
        device: &'w dyn BlockDevice,
        place: LogGeometry,
        head: LogHead,
        tail: Lsn,
        window: &'w mut Vec<u8>,
    ) -> Self {
        window.clear();
        let room_blocks = place.room_blocks(head.lsn, tail);
        let records = Vec::new();
        let mut writer = Self {
            device,
            place,
            head,
            tail,
            room_blocks,
            window,
            records,
            transaction: 0,
            transaction_header: None,
            regions: 0,
            written_bytes: 0,
            content_bytes: 0,
        };
        writer.begin_record();
        writer
    }

    /// Begins a transaction. Its header says how many regions follow: `regions` where the first window is written before
    /// they have been counted.
    pub fn begin(&mut self, transaction: u32, regions: u32) {
        self.transaction = transaction;
        self.operation(OperationFlags::START, CLIENT_TRANSACTION, &[]);
        let header = TransactionHeader {
            magic: transaction::MAGIC.into(),
            kind: transaction::TYPE_CHECKPOINT.into(),
            transaction: transaction.into(),
            region_count: regions.into(),
        };
        self.transaction_header = Some(self.window.len() + OPERATION_BYTES);
        self.operation(OperationFlags::empty(), CLIENT_TRANSACTION, header.as_bytes());
    }

    /// One region of an item. Its length must be a multiple of four.
    #[inline]
    pub fn region(&mut self, bytes: &[u8]) {
        self_check!(bytes.len().is_multiple_of(4), "regions are padded");
        self.regions += 1;
        self.operation(OperationFlags::empty(), CLIENT_TRANSACTION, bytes);
    }

    /// A region that holds what has changed.
    #[inline]
    pub fn content(&mut self, bytes: &[u8]) {
        self.content_bytes += (bytes.len() as u64).next_multiple_of(DIRTY_RUN_BYTES.into());
        self.region(bytes);
    }

    /// Bytes of what has changed so far, without what says where it belongs, each region rounded to the runs of 128 bytes in
    /// which buffers are logged.
    pub fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// Writes out what has been built, if it is much: to be called where waiting for the device does no harm.
    ///
    /// # Errors
    /// The device failed; the log is full.
    pub fn write_if_full(&mut self) -> Result<()> {
        // The last record goes on being built: it moves to the front.
        if self.window.len() < WINDOW_BYTES - 2 * self.place.buffer_size_bytes as usize
            || self.records.len() < 2
        {
            return Ok(());
        }
        let Some(last) = self.records.pop() else { return Ok(()) };
        let rest = self.window.split_off(last.offset);
        self.write_window()?;
        self.device.flush()?;
        self.window.extend_from_slice(&rest);
        self.records.push(Built { offset: 0, ..last });
        Ok(())
    }

    /// Commits the transaction: writes all that is left, after a flush if `needs` one, and flushes. Gives the new head
    /// and how many bytes were written.
    ///
    /// # Errors
    /// The device failed; the log is full.
    pub fn commit(mut self, needs_flush: bool) -> Result<(LogHead, u64)> {
        self.operation(OperationFlags::COMMIT, CLIENT_TRANSACTION, &[]);
        if let Some(offset) = self.transaction_header
            && let Some(header) = self.window.get_mut(offset..).and_then(TransactionHeader::prefix_of_mut)
        {
            header.region_count = self.regions.into();
        }
        self.finish(needs_flush)
    }

    /// Says that the log was closed cleanly, in a record of its own.
    ///
    /// # Errors
    /// The device failed; the log is full.
    pub fn unmount(mut self, needs_flush: bool) -> Result<(LogHead, u64)> {
        let mut record = UnmountRecord::new_zeroed();
        record.magic = UNMOUNT_MAGIC.into();
        self.transaction = 0xb0c0_d0d0;
        self.operation(OperationFlags::UNMOUNT, CLIENT_LOG, record.as_bytes());
        self.finish(needs_flush)
    }

    fn finish(mut self, needs_flush: bool) -> Result<(LogHead, u64)> {
        self.end_record();
        if needs_flush {
            self.device.flush()?;
        }
        self.write_window()?;
        self.device.flush()?;
        Ok((self.head, self.written_bytes))
    }

    /// Adds an operation, over as many records as it takes.
    fn operation(&mut self, flags: OperationFlags, client: u8, mut data: &[u8]) {
        let mut is_continued = false;
        loop {
            let room = self.payload_room();
            if room < OPERATION_BYTES + data.len().min(4) {
                self.end_record();
                self.begin_record();
                continue;
            }
            let fits = (room - OPERATION_BYTES) & !3;
            let (now, later) = data.split_at(data.len().min(fits));
            let mut flags = flags;
            flags.set(OperationFlags::WAS_CONTINUED, is_continued);
            flags.set(OperationFlags::CONTINUE, !later.is_empty());
            flags.set(OperationFlags::END, is_continued && later.is_empty());
            let header = OperationHeader {
                transaction: self.transaction.into(),
                length_bytes: (now.len() as u32).into(),
                client,
                flags: flags.bits(),
                reserved: [0; 2],
            };
            self.window.extend_from_slice(header.as_bytes());
            self.window.extend_from_slice(now);
            if let Some(record) = self.records.last_mut() {
                record.operations += 1;
            }
            if later.is_empty() {
                return;
            }
            (data, is_continued) = (later, true);
        }
    }

    fn begin_record(&mut self) {
        self.records.push(Built { offset: self.window.len(), operations: 0, head: self.head });
        let headers = self.place.header_blocks() as usize * BLOCK;
        self.window.resize(self.window.len() + headers, 0);
    }

    /// Bytes that the record can still take.
    fn payload_room(&self) -> usize {
        let begun = self.records.last().map_or(0, |record| record.offset);
        (self.place.buffer_size_bytes as usize).saturating_sub(self.window.len() - begun)
    }

    /// Pads the record and moves the head behind it.
    fn end_record(&mut self) {
        let Some(record) = self.records.last() else { return };
        let unit = self.place.unit_bytes.max(BLOCK as u32) as usize;
        let length = (self.window.len() - record.offset).next_multiple_of(unit);
        self.window.resize(record.offset + length, 0);
        let blocks = (length / BLOCK) as u32;
        let (mut cycle, mut block) = (self.head.lsn.cycle(), self.head.lsn.block());
        let previous_block = block;
        block += blocks;
        if block >= self.place.blocks {
            block -= self.place.blocks;
            cycle = next_cycle(cycle);
        }
        self.head = LogHead { lsn: Lsn::from_parts(cycle, block), previous_block };
    }

    /// Seals the records in the window, all of which have ended, and writes them.
    fn write_window(&mut self) -> Result<()> {
        self_check!(self.window.len() <= WINDOW_BYTES, "{} bytes in a window", self.window.len());
        let blocks = (self.window.len() / BLOCK) as u64;
        if blocks >= self.room_blocks {
            return Err(JournalError::LogFull { needed_blocks: blocks, room_blocks: self.room_blocks });
        }
        let ends: Vec<usize> =
            self.records.iter().skip(1).map(|record| record.offset).chain([self.window.len()]).collect();
        for (record, end) in self.records.iter().zip(&ends) {
            if let Some(bytes) = self.window.get_mut(record.offset..*end) {
                seal_record(bytes, record, self.place, self.tail);
            }
        }
        let Some(first) = self.records.first().map(|record| record.head.lsn.block()) else { return Ok(()) };
        let to_end = (self.place.blocks.saturating_sub(first)) as usize * BLOCK;
        let (before, wrapped) = self.window.split_at(to_end.min(self.window.len()));
        let byte = |block: u32| (self.place.start.get() + u64::from(block)) * SECTOR_SIZE_BYTES;
        write_aligned(self.device, byte(first), before)?;
        if !wrapped.is_empty() {
            // A log whose first block is of a later round and whose last one is not even of the round before is none.
            self.device.flush()?;
            write_aligned(self.device, byte(0), wrapped)?;
        }
        self.room_blocks -= blocks;
        self.written_bytes += self.window.len() as u64;
        self.window.clear();
        self.records.clear();
        self.transaction_header = None;
        Ok(())
    }
}

/// Writes from memory that the device takes: records are built where there is room.
fn write_aligned(device: &dyn BlockDevice, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    if bytes.as_ptr().addr().is_multiple_of(device.alignment().memory_bytes.max(1) as usize) {
        return Ok(device.write(offset_bytes, bytes)?);
    }
    let aligned = AlignedBuffer::page_aligned(bytes.len()).map(|mut aligned| {
        aligned.copy_from_slice(bytes);
        aligned
    });
    let aligned = aligned.map_err(|source| DeviceError {
        operation: DeviceOperation::Write,
        offset_bytes,
        length_bytes: bytes.len() as u64,
        source,
    })?;
    Ok(device.write(offset_bytes, &aligned)?)
}

fn seal_record(bytes: &mut [u8], record: &Built, place: LogGeometry, tail: Lsn) {
    let headers = place.header_blocks() as usize * BLOCK;
    let payload_bytes = bytes.len().saturating_sub(headers);
    let Some((header, payload)) = bytes.split_at_mut_checked(headers) else { return };
    if let Some(first) = RecordHeader::prefix_of_mut(header) {
        first.magic = MAGIC.into();
        first.cycle = record.head.lsn.cycle().into();
        first.version = 2.into();
        first.length_bytes = (payload_bytes as u32).into();
        first.lsn = record.head.lsn.get().into();
        first.tail_lsn = tail.get().into();
        first.previous_block = record.head.previous_block.into();
        first.operation_count = record.operations.into();
        first.format = FORMAT_LITTLE_ENDIAN.into();
        first.uuid = place.uuid;
        first.buffer_size_bytes = place.buffer_size_bytes.into();
    }
    stamp_payload(header, payload, record.head.lsn.block(), place.blocks);
    seal(header, payload);
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
