//! Where the log ends (head), from where it would have to be replayed (tail), and whether it must be.
//!
//! Facts that the search rests on:
//!
//! 1. Every block starts with the cycle in which it was written (a record header in its second word), so in a log at
//!    rest the cycle falls by one exactly once: at the head. A log that was not yet written once round has zeros there.
//! 2. Up to eight records of at most 256 KiB may have been under way when the machine stopped, finished in any order.
//!    Where one of them is missing, all behind it count for nothing.
//! 3. A record is complete when it ends where the next begins, and right when its checksum is.
//! 4. The newest record says where the tail is. A log was closed cleanly exactly if its newest record holds
//!    nothing but the unmount operation and ends at the head.
//!
//! A closed log costs some thirty small reads and 2 MiB of scanning, whatever its size. A dirty one is read from tail
//! to head as well, because what Linux calls its head and tail depends on the checksums.

use std::ops::Range;

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    field_table::OnDisk,
    geometry::Geometry,
    log::{
        LogFault, MAX_RECORDS_IN_FLIGHT,
        operation::{OperationFlags, OperationHeader},
        record::{MAX_RECORD_SIZE_BYTES, RecordHeader, next_cycle},
    },
    units::{Lsn, Uuid},
};

use super::{
    read_records::{RecordError, RecordReader},
    search::{self, FoundHeader},
};
use crate::{
    area::{BLOCK, LogArea},
    error::Result,
};

/// Blocks of the longest payload: the last header lies no further before the head.
const RECORD_BLOCKS: u32 = MAX_RECORD_SIZE_BYTES / 512;
/// Blocks of all records that may have been under way.
const IN_FLIGHT_BLOCKS: u32 = RECORD_BLOCKS * MAX_RECORDS_IN_FLIGHT;

/// States of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogState {
    /// Never written: all is in place.
    Empty,
    /// Closed cleanly: all is in place.
    Clean(CleanLog),
    /// Changes may not be in place yet.
    Dirty(DirtyLog),
}

/// A log that was closed cleanly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanLog {
    /// Where the next record will be written.
    pub head: Lsn,
    /// The newest record.
    pub newest: Lsn,
}

/// A log that must be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirtyLog {
    /// Behind the newest record that counts.
    pub head: Lsn,
    /// The oldest record to be replayed.
    pub tail: Lsn,
    /// The newest record that counts.
    pub newest: Lsn,
    /// Records from tail to head.
    pub records: u32,
    /// The first record that does not count because it or one before it was not written in full, if there is one
    /// behind the head.
    pub torn_block: Option<u32>,
    /// The tail that the newest record names, where records there were overwritten already.
    pub overwritten_tail: Option<u32>,
}

impl LogState {
    /// Whether the log must be replayed before the file system is whole.
    pub fn is_dirty(&self) -> bool {
        matches!(self, Self::Dirty(_))
    }

    /// Where the next record will be written, but for an empty log.
    pub fn head(&self) -> Option<Lsn> {
        match self {
            Self::Empty => None,
            Self::Clean(log) => Some(log.head),
            Self::Dirty(log) => Some(log.head),
        }
    }

    /// From where to replay, but for an empty log; the head where there is nothing to replay.
    pub fn tail(&self) -> Option<Lsn> {
        match self {
            Self::Empty => None,
            Self::Clean(log) => Some(log.head),
            Self::Dirty(log) => Some(log.tail),
        }
    }
}

/// Finds head and tail of the log of the file system on `device`.
///
/// # Errors
/// The log is external, its structure makes no sense, or the device failed.
pub fn examine(device: &dyn BlockDevice, geometry: &Geometry) -> Result<LogState> {
    examine_area(&LogArea::new(device, geometry)?)
}

/// As [`examine`], for a log that is known by its place.
///
/// # Errors
/// The log's structure makes no sense, or the device failed.
pub fn examine_area(area: &LogArea<'_>) -> Result<LogState> {
    let Some(head) = find_head(area)? else { return Ok(LogState::Empty) };
    let newest = newest_before(area, head, head)?;
    if is_unmount(area, &newest, head)? {
        return Ok(clean(area, &newest, head));
    }
    find_tail(area, head, newest)
}

/// The head of a log, also where damaged records before it leave the log without a state. The search for copies begins there. `None` for a
/// log that was never written.
///
/// # Errors
/// As [`examine_area`], but for damaged records from tail to head.
pub(crate) fn head_despite_damage(area: &LogArea<'_>) -> Result<Option<Lsn>> {
    let Some(head) = find_head(area)? else { return Ok(None) };
    let newest = newest_before(area, head, head)?;
    Ok(Some(lsn_of_head(area, &newest, head)))
}

/// Blocks of a log with this head that were never written: behind what may have been under way, where the log has never come to its end.
/// mkfs.xfs fills them with zeros. None where some of them were written after all: the head is a hole. A log that was never written has
/// the head 0.
///
/// # Errors
/// The device failed.
pub(crate) fn never_written(area: &LogArea<'_>, head: Lsn) -> Result<Range<u32>> {
    let blocks = area.blocks();
    let start = head.block().saturating_add(IN_FLIGHT_BLOCKS).min(blocks);
    let is_first_round = head.cycle() <= 1 && search::cycle_at(area, blocks - 1)? == 0;
    let is_zero = is_first_round && !was_written(area, start)?;
    Ok(if is_zero { start..blocks } else { blocks..blocks })
}

/// Samples blocks past `start` and returns whether any was written: densely at first, then in steps that are no multiple of a stripe unit.
fn was_written(area: &LogArea<'_>, start: u32) -> Result<bool> {
    const CLOSE_BLOCKS: usize = (64 << 10) / BLOCK;
    const FAR_BLOCKS: usize = 13 * CLOSE_BLOCKS;
    let samples = (start..area.blocks()).step_by(CLOSE_BLOCKS).take(16);
    for block in samples.chain((start..area.blocks()).step_by(FAR_BLOCKS)) {
        if search::cycle_at(area, block)? != 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The newest block's successor, backed up over whatever is not in full. `None` for a log that was never written.
fn find_head(area: &LogArea<'_>) -> Result<Option<u32>> {
    let blocks = area.blocks();
    let first_cycle = search::cycle_at(area, 0)?;
    let last_cycle = search::cycle_at(area, blocks - 1)?;
    if first_cycle == 0 {
        return Ok(None);
    }
    if last_cycle == 0 {
        if first_cycle != 1 {
            return Err(area.fault_of_log(LogFault::NotALog { first_cycle }));
        }
        let guess = search::first_of_cycle(area, 0, blocks - 1, 0)?;
        let guess = before_hole(area, guess, 0)?;
        return back_to_complete_record(area, guess).map(Some);
    }
    // Were all blocks of one cycle, the head is the end of the ring, and holes are of the cycle before.
    let (guess, hole_cycle) = if first_cycle == last_cycle {
        (blocks, last_cycle.wrapping_sub(1))
    } else {
        (search::first_of_cycle(area, 0, blocks - 1, last_cycle)?, last_cycle)
    };
    let guess = before_hole(area, guess, hole_cycle)?;
    back_to_complete_record(area, guess).map(Some)
}

/// The first block of an older cycle in what may have been under way before `guess`, or `guess`. Such blocks are of
/// `hole_cycle`, and of the cycle before that at the far end of the ring.
fn before_hole(area: &LogArea<'_>, guess: u32, hole_cycle: u32) -> Result<u32> {
    let window = IN_FLIGHT_BLOCKS.min(area.blocks());
    // A partly written log has no far end.
    if guess < window && hole_cycle != 0 {
        let start = area.blocks() - (window - guess);
        let far = search::find_cycle(area, start, area.blocks(), hole_cycle.wrapping_sub(1))?;
        if let Some(block) = far {
            return Ok(block);
        }
    }
    let near = search::find_cycle(area, guess.saturating_sub(window), guess, hole_cycle)?;
    Ok(near.unwrap_or(guess))
}

/// `guess`, or the start of the last record before it if that does not end there. At the end of the ring: 0.
fn back_to_complete_record(area: &LogArea<'_>, guess: u32) -> Result<u32> {
    let start = guess.saturating_sub(RECORD_BLOCKS);
    let near = search::headers_before(area, start, guess, 1)?;
    let (found, distance) = match near.first() {
        Some(found) => (*found, guess - found.block),
        // The record began before the end of the ring.
        None if guess < RECORD_BLOCKS => {
            let start = area.blocks() - (RECORD_BLOCKS - guess);
            let far = search::headers_before(area, start, area.blocks(), 1)?;
            let found = far.first().copied().ok_or_else(|| no_record(area, guess, RECORD_BLOCKS))?;
            (found, area.blocks() - found.block + guess)
        }
        None => return Err(no_record(area, guess, RECORD_BLOCKS)),
    };
    verify_owner(area, &found)?;
    let head = if found.header.blocks() == distance { guess } else { found.block };
    Ok(head % area.blocks())
}

fn no_record(area: &LogArea<'_>, block: u32, searched_blocks: u32) -> crate::error::JournalError {
    area.fault_of_log(LogFault::NoRecord { block, searched_blocks })
}

fn verify_owner(area: &LogArea<'_>, found: &FoundHeader) -> Result<()> {
    use uxfs_format::fault::HeaderFault;
    // The log has no uuid while the uuid of the file system changes; Linux takes it, too.
    if found.header.uuid == area.uuid() || found.header.uuid == Uuid::NIL {
        return Ok(());
    }
    let fault = HeaderFault::WrongUuid { found: found.header.uuid, expected: area.uuid() };
    Err(area.fault_at(found.block, fault))
}

/// The last record header before `end`, back to `start` round the ring.
fn newest_before(area: &LogArea<'_>, start: u32, end: u32) -> Result<FoundHeader> {
    let found = search::headers_back(area, start, end, 1)?;
    let found = found.first().copied();
    found.ok_or_else(|| no_record(area, end, area.distance(start, end).max(1)))
}

/// The number of the head: its cycle is the newest record's, or the next where the ring began again since.
fn lsn_of_head(area: &LogArea<'_>, newest: &FoundHeader, head: u32) -> Lsn {
    let cycle = newest.header.cycle.get();
    let wrapped = head <= newest.block && area.distance(newest.block, head) > 0;
    Lsn::from_parts(if wrapped { next_cycle(cycle) } else { cycle }, head)
}

fn clean(area: &LogArea<'_>, newest: &FoundHeader, head: u32) -> LogState {
    let head = lsn_of_head(area, newest, head);
    LogState::Clean(CleanLog { head, newest: newest.lsn() })
}

/// Whether `newest` is the record that closes the log, and ends at `head`.
fn is_unmount(area: &LogArea<'_>, newest: &FoundHeader, head: u32) -> Result<bool> {
    let RecordHeader { operation_count, .. } = newest.header;
    if operation_count.get() != 1 || newest.header.verify_sizes().is_err() {
        return Ok(false);
    }
    if area.advance(newest.block, newest.header.blocks()) != head {
        return Ok(false);
    }
    let mut bytes = [0; BLOCK];
    area.read(area.advance(newest.block, newest.header.header_blocks()), &mut bytes)?;
    let flags = OperationHeader::prefix_of(&bytes).map_or(0, |operation| operation.flags);
    Ok(OperationFlags::from_bits_retain(flags).contains(OperationFlags::UNMOUNT))
}

/// Moves the head back over torn records and the tail forward over overwritten ones, and counts the records between them.
fn find_tail(area: &LogArea<'_>, head: u32, newest: FoundHeader) -> Result<LogState> {
    let mut tail = tail_of(area, &newest)?;
    if tail.block() == head {
        return Ok(clean(area, &newest, head));
    }
    let (mut head, mut newest, mut torn_block) = (head, newest, None);
    if let Some(torn) = first_torn(area, tail.block(), head)? {
        let nothing_left = || area.fault_at(torn, LogFault::NothingBeforeTornRecord { block: torn });
        // Where the torn record is the tail itself, the one before it is the newest, all round the ring.
        let before = search::headers_back(area, tail.block(), torn, 1)?;
        newest = before.first().copied().ok_or_else(nothing_left)?;
        head = torn;
        torn_block = Some(torn);
        tail = tail_of(area, &newest)?;
        if tail.block() == head {
            return Err(nothing_left());
        }
    }
    let buffer_blocks = newest.header.buffer_size_bytes.get().min(MAX_RECORD_SIZE_BYTES) / 512;
    let walked = walk(area, tail, head, buffer_blocks * MAX_RECORDS_IN_FLIGHT)?;
    if torn_block.is_some() && is_unmount(area, &newest, head)? {
        return Ok(clean(area, &newest, head));
    }
    Ok(LogState::Dirty(DirtyLog {
        head: lsn_of_head(area, &newest, head),
        tail: walked.tail,
        newest: newest.header.lsn(),
        records: walked.records,
        torn_block,
        overwritten_tail: (walked.tail.block() != tail.block()).then_some(tail.block()),
    }))
}

/// What the newest record names as tail: a block of the log.
fn tail_of(area: &LogArea<'_>, newest: &FoundHeader) -> Result<Lsn> {
    use uxfs_format::log::record::LogRecordFault;
    let tail = newest.header.tail_lsn();
    if tail.block() < area.blocks() {
        return Ok(tail);
    }
    let fault = LogRecordFault::TailOutside { tail, log_blocks: area.blocks() };
    Err(area.fault_at(newest.block, fault))
}

/// The first damaged record among those that may have been under way before `head`.
fn first_torn(area: &LogArea<'_>, tail: u32, head: u32) -> Result<Option<u32>> {
    let headers = search::headers_back(area, tail, head, MAX_RECORDS_IN_FLIGHT as usize)?;
    let Some(oldest) = headers.last() else {
        return Err(no_record(area, head, area.distance(tail, head)));
    };
    let mut reader = RecordReader::new(*area, oldest.block, head);
    loop {
        let block = reader.next_block();
        match reader.read() {
            None => return Ok(None),
            Some(Err(RecordError::Io(error))) => return Err(error.into()),
            Some(Err(RecordError::Fault(_))) => return Ok(Some(block)),
            Some(Ok(record)) if record.checksum_fault(false).is_some() => return Ok(Some(block)),
            Some(Ok(_)) => {}
        }
    }
}

struct Walked {
    tail: Lsn,
    records: u32,
}

/// Checks all records from `tail` to `head`. Damaged ones are passed over while they lie at most `reach` blocks ahead
/// of the head: new records may have begun to overwrite them when the machine stopped, and so their changes were in
/// place.
fn walk(area: &LogArea<'_>, tail: Lsn, head: u32, reach: u32) -> Result<Walked> {
    let room = area.distance(tail.block(), head);
    let first = search::next_header(area, tail.block(), room)?;
    let first = first.ok_or_else(|| no_record(area, head, room))?;
    // Where the tail is no record at all, it is a damaged one.
    let start = if first.block == tail.block() { first.lsn() } else { tail };
    let mut walked = Walked { tail: start, records: 0 };
    let mut reader = RecordReader::new(*area, tail.block(), head);
    loop {
        let block = reader.next_block();
        let fault = match reader.read() {
            None => return Ok(walked),
            Some(Err(RecordError::Io(error))) => return Err(error.into()),
            Some(Err(RecordError::Fault(fault))) => Some(fault),
            Some(Ok(record)) => record.checksum_fault(false),
        };
        let Some(fault) = fault else {
            walked.records += 1;
            continue;
        };
        if area.distance(head, block) > reach {
            return Err(area.fault_at(block, fault));
        }
        let rest = area.distance(block, head) - 1;
        let next = search::next_header(area, area.advance(block, 1), rest)?;
        let next = next.ok_or_else(|| area.fault_at(block, fault))?;
        reader = RecordReader::new(*area, next.block, head);
        walked = Walked { tail: next.lsn(), records: 0 };
    }
}

#[cfg(test)]
#[path = "find_head_tail_tests.rs"]
mod tests;
