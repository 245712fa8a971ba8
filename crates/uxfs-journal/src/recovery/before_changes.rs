//! Checks of a log before anything is written behind its head: what recovery relies on after a crash.
//!
//! Reading needs less. A closed log is passed over whatever its last record says, and an image can be read on with a log that
//! must not be written. Checked here, with a bounded number of small reads:
//!
//! 1. The newest record: fields, cycle and block against each other, size, checksum. What is written next gets its cycle.
//! 2. The cycles: up to the head that of the head, behind it the one before. Recovery searches the head by them. Only the
//!    ends of the ring are looked at, and the blocks ahead of the head, which are made right ([`stale`](super::stale)).
//! 3. That the cycle can still rise.
//!
//! A log of zeros says nothing, so all of it must be zeros; it is read whole, once in its life.

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    field_table::OnDisk,
    geometry::Geometry,
    log::{
        LogFault,
        record::{MAGIC, RecordHeader},
    },
    units::{Lsn, Uuid},
};

use super::{find_head_tail::LogState, read_records::RecordReader, search, stale::STALE_BLOCKS};
use crate::{
    area::{BLOCK, LogArea},
    error::Result,
};

/// From here on no record is written: hardly any cycle is left before the number of a record header's magic, and zero.
const LAST_CYCLE: u32 = MAGIC & 0xffff_0000;

/// Checks that recovery will find what is written next to the log in `area`, which is in the state `state`.
///
/// # Errors
/// The log contradicts itself; the device failed.
pub fn check_before_changes(area: &LogArea<'_>, state: &LogState) -> Result<()> {
    let (head, newest, tail) = match state {
        LogState::Empty => return Ok(()),
        LogState::Clean(log) => (log.head, log.newest, log.newest),
        LogState::Dirty(log) => (log.head, log.newest, log.tail),
    };
    check_newest(area, newest.block(), head.block())?;
    if head.cycle() >= LAST_CYCLE {
        return Err(area.fault_of_log(LogFault::NoCycleLeft { cycle: head.cycle() }));
    }
    check_cycles(area, head, tail.block())
}

/// The newest record, as recovery would read it.
fn check_newest(area: &LogArea<'_>, block: u32, head: u32) -> Result<()> {
    let mut bytes = [0; BLOCK];
    area.read(block, &mut bytes)?;
    // The log has no uuid while the uuid of the file system changes.
    let is_unnamed = RecordHeader::prefix_of(&bytes).is_some_and(|header| header.uuid == Uuid::NIL);
    let named = if is_unnamed { area.with_uuid(Uuid::NIL) } else { *area };
    let mut reader = RecordReader::new(named, block, head);
    let fault = match reader.read() {
        Some(Ok(record)) => record.checksum_fault(false),
        Some(Err(error)) => return Err(error.at(area, block)),
        None => return Ok(()),
    };
    fault.map_or(Ok(()), |fault| Err(area.fault_at(block, fault)))
}

/// The cycles at both ends of the ring.
fn check_cycles(area: &LogArea<'_>, head: Lsn, tail: u32) -> Result<()> {
    // Blocks ahead of the head are overwritten, and those behind it have been read as records.
    let is_cleared = |block| {
        let ahead = area.distance(head.block(), block);
        ahead < STALE_BLOCKS.min(area.distance(head.block(), tail))
    };
    for block in [0, area.blocks() - 1] {
        if is_cleared(block) {
            continue;
        }
        let expected = if block < head.block() { head.cycle() } else { head.cycle().wrapping_sub(1) };
        let found = search::cycle_at(area, block)?;
        if found != expected {
            return Err(area.fault_at(block, LogFault::WrongCycle { block, found, expected }));
        }
    }
    Ok(())
}

/// Makes a log whose beginning is zeros one that is nothing but zeros, and flushes if anything was left. Such a log holds
/// nothing that counts, but old records in its middle would be found by the search for a later head.
///
/// # Errors
/// The device failed.
pub fn clear_empty_log(area: &LogArea<'_>, device: &dyn BlockDevice) -> Result<()> {
    const PIECE_BLOCKS: u32 = 2048;
    let mut bytes = vec![0; PIECE_BLOCKS as usize * BLOCK];
    let mut is_changed = false;
    for first in (0..area.blocks()).step_by(PIECE_BLOCKS as usize) {
        let blocks = PIECE_BLOCKS.min(area.blocks() - first);
        let bytes = bytes.get_mut(..blocks as usize * BLOCK).unwrap_or_default();
        area.read(first, bytes)?;
        if bytes.iter().any(|byte| *byte != 0) {
            bytes.fill(0);
            device.write(Geometry::byte_of_sector(area.sector(first)), bytes)?;
            is_changed = true;
        }
    }
    if is_changed {
        device.flush()?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "before_changes_tests.rs"]
mod tests;
