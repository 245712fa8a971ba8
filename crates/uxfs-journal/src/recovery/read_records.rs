//! Records one after the other, with their contents restored. Memory is bounded by one record, steps by the ring.

use uxfs_block::device::DeviceError;
use uxfs_format::{
    fault::{Fault, HeaderFault},
    log::{
        LogFault,
        operation::Operations,
        record::{
            ChecksumState, LogRecordFault, MAX_RECORD_BLOCKS, RecordHeader, RecordLocation, checksum_state,
            restore_payload,
        },
    },
};

use crate::{
    area::{BLOCK, LogArea},
    error::JournalError,
};

/// Why a record cannot be read.
#[derive(Debug)]
pub(crate) enum RecordError {
    /// The device failed.
    Io(DeviceError),
    /// The record is damaged.
    Fault(Fault),
}

impl<T: Into<Fault>> From<T> for RecordError {
    fn from(fault: T) -> Self {
        Self::Fault(fault.into())
    }
}

impl RecordError {
    /// Says where the record lies.
    pub(crate) fn at(self, area: &LogArea<'_>, block: u32) -> JournalError {
        match self {
            Self::Io(error) => error.into(),
            Self::Fault(fault) => area.fault_at(block, fault),
        }
    }
}

/// One record, in the reader's buffer. Its payload is restored: what the cycle stamps displaced is back in place.
#[derive(Debug)]
pub struct Record<'r> {
    /// Block of the log at which it begins.
    pub block: u32,
    /// Its header, verified.
    pub header: RecordHeader,
    /// The result of its checksum.
    pub checksum: ChecksumState,
    /// Its payload.
    pub payload: &'r [u8],
}

impl<'r> Record<'r> {
    /// Its operations.
    pub fn operations(&self) -> Operations<'r> {
        Operations::new(self.payload, self.header.operation_count.get())
    }

    /// The fault of a record whose checksum is wrong, or missing where `required`.
    pub(crate) fn checksum_fault(&self, required: bool) -> Option<Fault> {
        match self.checksum {
            ChecksumState::Right => None,
            ChecksumState::Absent if !required => None,
            ChecksumState::Absent => Some(LogRecordFault::NoChecksum.into()),
            ChecksumState::Wrong(mismatch) => Some(HeaderFault::from(mismatch).into()),
        }
    }
}

/// Blocks that are read ahead at once: a mebibyte, several records.
const WINDOW_BLOCKS: u32 = 2048;

/// Blocks of the log that were read ahead.
#[derive(Debug, Default)]
struct Window {
    first: u32,
    bytes: Vec<u8>,
}

impl Window {
    /// Fills `target` with the blocks from `block` on, of which `room` may be read.
    fn read(
        &mut self,
        area: &LogArea<'_>,
        (block, room): (u32, u32),
        target: &mut [u8],
    ) -> std::result::Result<(), DeviceError> {
        if self.copy(area, block, target) {
            return Ok(());
        }
        self.first = block;
        self.bytes.resize(room.min(WINDOW_BLOCKS) as usize * BLOCK, 0);
        // Where the window cannot be read what is wanted of it perhaps can.
        if self.bytes.len() <= target.len() || area.read(block, &mut self.bytes).is_err() {
            self.bytes.clear();
        }
        if self.copy(area, block, target) { Ok(()) } else { area.read(block, target) }
    }

    /// Gives whether all of it was there.
    fn copy(&self, area: &LogArea<'_>, block: u32, target: &mut [u8]) -> bool {
        let distance = match block.checked_sub(self.first) {
            Some(distance) => distance,
            None => block.saturating_add(area.blocks()).saturating_sub(self.first),
        };
        let found = self.bytes.get(distance as usize * BLOCK..).and_then(|rest| rest.get(..target.len()));
        if let Some(found) = found {
            target.copy_from_slice(found);
        }
        found.is_some()
    }
}

/// Reads records from one block of the ring up to another.
#[derive(Debug)]
pub struct RecordReader<'a> {
    area: LogArea<'a>,
    next: u32,
    room: u32,
    /// Header blocks, then payload.
    bytes: Vec<u8>,
    /// Blocks that were read ahead.
    window: Window,
}

impl<'a> RecordReader<'a> {
    /// Records from `from` up to `to`; none where the two are equal.
    pub fn new(area: LogArea<'a>, from: u32, to: u32) -> Self {
        Self { area, next: from, room: area.distance(from, to), bytes: Vec::new(), window: Window::default() }
    }

    /// Records once round the ring from `from`.
    pub(crate) fn whole_ring(area: LogArea<'a>, from: u32) -> Self {
        Self { area, next: from, room: area.blocks(), bytes: Vec::new(), window: Window::default() }
    }

    /// The log that is read.
    pub fn area(&self) -> &LogArea<'a> {
        &self.area
    }

    /// Where the next record begins.
    pub fn next_block(&self) -> u32 {
        self.next
    }

    /// Blocks left to read.
    pub fn room(&self) -> u32 {
        self.room
    }

    /// Leaves `blocks` blocks out.
    pub(crate) fn skip(&mut self, blocks: u32) {
        let blocks = blocks.min(self.room);
        self.next = self.area.advance(self.next, blocks);
        self.room -= blocks;
    }

    /// The next record for replay: header and checksum must be right. `None` at the end.
    ///
    /// # Errors
    /// The record is damaged or in another machine's byte order, or the device failed.
    pub fn next_record(&mut self) -> Option<Result<Record<'_>, JournalError>> {
        let (area, block) = (self.area, self.next);
        let record = match self.read()? {
            Ok(record) => record,
            Err(error) => return Some(Err(error.at(&area, block))),
        };
        let format = record.header.verify_format().err().map(Fault::from);
        let fault = record.checksum_fault(true).or(format);
        Some(fault.map_or(Ok(record), |fault| Err(area.fault_at(block, fault))))
    }

    /// Reads and verifies the next record, but for its checksum, which is only compared; `None` at the end.
    ///
    /// After a fault the reader stays where it is.
    pub(crate) fn read(&mut self) -> Option<Result<Record<'_>, RecordError>> {
        if self.room == 0 {
            return None;
        }
        Some(self.read_record())
    }

    fn read_record(&mut self) -> Result<Record<'_>, RecordError> {
        let (area, block) = (self.area, self.next);
        self.bytes.resize(BLOCK, 0);
        self.window.read(&area, (block, self.room), &mut self.bytes).map_err(RecordError::Io)?;
        let header = *RecordHeader::parse(&self.bytes)?;
        header.verify(&RecordLocation { block, log_blocks: area.blocks(), uuid: area.uuid() })?;
        let blocks = header.blocks();
        if blocks > self.room {
            return Err(LogFault::RecordBeyondHead { block, blocks, room: self.room }.into());
        }
        // The header's verifier bounds this; once more does no harm where memory is at stake.
        self.bytes.resize(blocks.min(MAX_RECORD_BLOCKS) as usize * BLOCK, 0);
        if let Some((_, rest)) = self.bytes.split_at_mut_checked(BLOCK) {
            let behind = (area.advance(block, 1), self.room - 1);
            self.window.read(&area, behind, rest).map_err(RecordError::Io)?;
        }
        self.skip(blocks);
        let headers = (header.header_blocks() as usize * BLOCK).min(self.bytes.len());
        let (headers, payload) = self.bytes.split_at_mut(headers);
        // Payloads are whole blocks, but the checksum covers exactly what the header says.
        let length = (header.length_bytes.get() as usize).min(payload.len());
        let checksum = checksum_state(headers, payload.get(..length).unwrap_or_default());
        restore_payload(headers, payload);
        Ok(Record { block, header, checksum, payload })
    }
}
