//! Whether the log may hold changes that no replay has put in place, because a part of it cannot be read.
//!
//! Records are written one behind the other, round and round. What counts lies between tail and head; a newer record can only begin at
//! the head. So a bad sector elsewhere in the log hides nothing. One between tail and head hides changes of any file.

use std::ops::Range;

use uxfs_block::device::BlockDevice;
use uxfs_format::{geometry::Geometry, units::Lsn};
use uxfs_journal::{LogState, examine};

use crate::device::RescueDevice;

/// What the log is divided into.
const BLOCK_BYTES: u64 = 512;
/// The first bytes of a record; its cycle follows them.
const RECORD_MAGIC: u32 = 0xfeed_babe;
/// Blocks of the longest record and its headers.
const MOST_RECORD_BLOCKS: u64 = 1024;

/// Where the log lies on the device; `None` where it is external.
pub fn place(geometry: &Geometry) -> Option<Range<u64>> {
    let first = Geometry::byte_of_sector(geometry.sector_of_block(geometry.log_start?)?);
    Some(first..first.saturating_add(u64::from(geometry.log_blocks) << geometry.block_log))
}

/// Why changes may be missing that only the log has; `None` where it had none, or all of them can be read.
pub fn doubt(device: &RescueDevice, geometry: &Geometry) -> Option<&'static str> {
    let Some(place) = place(geometry) else {
        return Some("the log is on another device, which was not looked at: newer changes may be missing");
    };
    let log = Log { device, place };
    let is_hidden = match examine(device, geometry) {
        Err(_) => return Some("the log makes no sense: newer changes that it had may be missing"),
        Ok(LogState::Empty) => !device.unreadable_in(log.place.clone()).is_empty(),
        Ok(LogState::Clean(clean)) => log.is_end_hidden(clean.head),
        Ok(LogState::Dirty(dirty)) => log.is_end_hidden(dirty.head) || log.is_hidden(dirty.tail, dirty.head),
    };
    is_hidden.then_some("a part of the log cannot be read: newer changes of it may be missing")
}

struct Log<'a> {
    device: &'a RescueDevice,
    place: Range<u64>,
}

impl Log<'_> {
    fn byte_of(&self, block: u64) -> u64 {
        self.place.start.saturating_add(block.saturating_mul(BLOCK_BYTES)).min(self.place.end)
    }

    fn is_unreadable(&self, blocks: Range<u64>) -> bool {
        !self.device.unreadable_in(self.byte_of(blocks.start)..self.byte_of(blocks.end)).is_empty()
    }

    /// Whether a block from one place on, round the end, to another cannot be read.
    fn is_hidden(&self, from: Lsn, to: Lsn) -> bool {
        let (from, to) = (u64::from(from.block()), u64::from(to.block()));
        match from <= to {
            true => self.is_unreadable(from..to),
            false => self.is_unreadable(from..u64::MAX) || self.is_unreadable(0..to),
        }
    }

    /// Whether a record may lie at the head that cannot be read in full.
    fn is_end_hidden(&self, head: Lsn) -> bool {
        let block = u64::from(head.block());
        // The first block says which cycle the newest blocks have.
        if self.is_unreadable(0..1) || self.is_unreadable(block..block + 1) {
            return true;
        }
        self.cycle_at(block) == Some(head.cycle()) && self.is_unreadable(block..block + MOST_RECORD_BLOCKS)
    }

    fn cycle_at(&self, block: u64) -> Option<u32> {
        let mut bytes = [0; BLOCK_BYTES as usize];
        self.device.read(self.byte_of(block), &mut bytes).ok()?;
        let word = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let first = word(0)?;
        if first == RECORD_MAGIC { word(4) } else { Some(first) }
    }
}
