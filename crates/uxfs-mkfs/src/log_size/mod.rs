//! The smallest log that Linux accepts for a geometry.
//!
//! The log must hold three times the largest transaction that can be reserved. What a transaction may change is
//! counted here in logged buffers and inodes, by kind of operation; the kernel compares its own count with the size of
//! the log at each mount and refuses a log that is too small, so that the numbers must be no less than its. They equal
//! those of mkfs.xfs 7.2, and the smaller ones of a mount without options those of Linux 6.18 (tables in the tests).
//!
//! Two eras: with parent pointers the reservations are as they are used today; without, as they were in the early days
//! of reflink, when they were larger, because file systems of that time have logs of that size.

mod reservations;

use reservations::{Era, Reservation, Reservations};
use uxfs_format::geometry::Geometry;

/// The largest buffer in which Linux builds log records.
const RECORD_BUFFER_BYTES: u64 = 256 << 10;
/// The buffer in which it builds them where nothing asks for a larger one. Each part of a buffer of this length has a header.
#[doc(alias = "XLOG_BIG_RECORD_BSIZE")]
const USUAL_RECORD_BUFFER_BYTES: u64 = 32 << 10;
/// Length of such a header.
const RECORD_HEADER_BYTES: u64 = 512;
/// Header of an operation.
const OPERATION_HEADER_BYTES: u64 = 12;
/// Header of a transaction.
const TRANSACTION_HEADER_BYTES: u64 = 16;
/// A log holds this many of the largest transaction.
const TRANSACTIONS_IN_LOG: u64 = 3;
/// Slack that the kernel adds to each of them without a stripe: two *bytes of a sector*, added to a count of sectors.
const SLACK_SECTORS: u64 = 2 * 512;

/// The smallest log in blocks, for a mount with any options.
///
/// `stripe_unit_bytes` is that of the log, 0 for none; `atomic_write_blocks` the largest write that is to be atomic, 0
/// for none.
pub fn minimum_blocks(geometry: &Geometry, stripe_unit_bytes: u32, atomic_write_blocks: u64) -> u64 {
    let log = LogSize { geometry, stripe_unit_bytes, buffer_bytes: RECORD_BUFFER_BYTES };
    let usual = log.blocks_for(Reservations::new(geometry, Era::that_decides(geometry)).largest());
    if atomic_write_blocks == 0 {
        return usual;
    }
    // Atomic writes are new: no old log was sized for them.
    usual.max(log.blocks_for(Reservations::new(geometry, Era::Today).atomic_write(atomic_write_blocks)))
}

/// The smallest log in blocks with which Linux mounts at all: its buffers are as small as they are without options.
pub fn least_mountable_blocks(geometry: &Geometry, stripe_unit_bytes: u32) -> u64 {
    let buffer_bytes = USUAL_RECORD_BUFFER_BYTES.max(stripe_unit_bytes.into());
    LogSize { geometry, stripe_unit_bytes, buffer_bytes }
        .blocks_for(Reservations::new(geometry, Era::that_decides(geometry)).largest())
}

/// What the size of a log follows from, beside a transaction.
struct LogSize<'g> {
    geometry: &'g Geometry,
    stripe_unit_bytes: u32,
    buffer_bytes: u64,
}

impl LogSize<'_> {
    fn blocks_for(&self, (bytes, count): Reservation) -> u64 {
        let transaction_bytes = self.with_overhead(bytes) * count;
        let sectors = transaction_bytes.div_ceil(512);
        let one = match u64::from(self.stripe_unit_bytes) / 512 {
            0 => sectors + SLACK_SECTORS,
            unit => sectors.next_multiple_of(unit) + 2 * unit,
        };
        (one * TRANSACTIONS_IN_LOG * 512).div_ceil(self.geometry.block_size_bytes.into())
    }

    /// Adds what the log itself needs to log `bytes`: headers, and the padding of the first and the last record.
    fn with_overhead(&self, bytes: u64) -> u64 {
        // Start and commit operations, and the transaction's header with an operation of its own.
        let bytes = bytes + 2 * OPERATION_HEADER_BYTES + TRANSACTION_HEADER_BYTES;
        let header_bytes = self.buffer_bytes.div_ceil(USUAL_RECORD_BUFFER_BYTES) * RECORD_HEADER_BYTES;
        let room = self.buffer_bytes - header_bytes;
        // Each record that continues the transaction begins with an operation header, which may make one more of them.
        let mut records = bytes.div_ceil(room);
        while (bytes + records * OPERATION_HEADER_BYTES).div_ceil(room) > records {
            records += 1;
        }
        let stripe_unit_bytes = u64::from(self.stripe_unit_bytes);
        let padding = if stripe_unit_bytes > 1 { 2 * stripe_unit_bytes } else { 2 * 512 };
        bytes + records * OPERATION_HEADER_BYTES + (records + 1) * header_bytes + padding
    }
}

/// Bytes of the largest transaction with all the transactions that it may roll on into, without overhead: what a log
/// for many writers is made of.
pub fn largest_transaction_bytes(geometry: &Geometry) -> u64 {
    let (bytes, count) = Reservations::new(geometry, Era::that_decides(geometry)).largest();
    bytes * count
}

#[cfg(test)]
mod log_size_tests;
