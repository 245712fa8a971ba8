//! The smallest log that Linux accepts for a geometry.
//!
//! The log must hold three times the largest transaction that can be reserved. What a transaction may change is
//! counted here in logged buffers and inodes, by kind of operation; the kernel compares its own count with the size of
//! the log at each mount and refuses a log that is too small, so that the numbers must be no less than its. They equal
//! those of mkfs.xfs 7.2 (a table in the tests).
//!
//! Two eras: with parent pointers the reservations are as they are used today; without, as they were in the early days
//! of reflink, when they were larger, because file systems of that time have logs of that size.

mod reservations;

use reservations::{Era, Reservation, Reservations};
use uxfs_format::geometry::Geometry;

/// The largest buffer in which Linux builds log records.
const RECORD_BUFFER_BYTES: u64 = 256 << 10;
/// Bytes of the record headers that a log buffer needs.
const RECORD_HEADER_BYTES: u64 = RECORD_BUFFER_BYTES / 32768 * 512;
/// Header of an operation.
const OPERATION_HEADER_BYTES: u64 = 12;
/// Header of a transaction.
const TRANSACTION_HEADER_BYTES: u64 = 16;
/// A log holds this many of the largest transaction.
const TRANSACTIONS_IN_LOG: u64 = 3;
/// Slack that the kernel adds to each of them without a stripe: two *bytes of a sector*, added to a count of sectors.
const SLACK_SECTORS: u64 = 2 * 512;

/// The smallest log in blocks.
///
/// `stripe_unit_bytes` is that of the log, 0 for none; `atomic_write_blocks` the largest write that is to be atomic, 0
/// for none.
pub fn minimum_blocks(geometry: &Geometry, stripe_unit_bytes: u32, atomic_write_blocks: u64) -> u64 {
    let blocks = |(bytes, count): Reservation| {
        let transaction_bytes = with_overhead(bytes, stripe_unit_bytes.into()) * count;
        let sectors = transaction_bytes.div_ceil(512);
        let one = match u64::from(stripe_unit_bytes) / 512 {
            0 => sectors + SLACK_SECTORS,
            unit => sectors.next_multiple_of(unit) + 2 * unit,
        };
        (one * TRANSACTIONS_IN_LOG * 512).div_ceil(geometry.block_size_bytes.into())
    };
    let usual = blocks(Reservations::new(geometry, Era::that_decides(geometry)).largest());
    if atomic_write_blocks == 0 {
        return usual;
    }
    // Atomic writes are new: no old log was sized for them.
    usual.max(blocks(Reservations::new(geometry, Era::Today).atomic_write(atomic_write_blocks)))
}

/// Bytes of the largest transaction with all the transactions that it may roll on into, without overhead: what a log
/// for many writers is made of.
pub fn largest_transaction_bytes(geometry: &Geometry) -> u64 {
    let (bytes, count) = Reservations::new(geometry, Era::that_decides(geometry)).largest();
    bytes * count
}

/// Adds what the log itself needs to log `bytes`: headers, and the padding of the first and the last record.
fn with_overhead(bytes: u64, stripe_unit_bytes: u64) -> u64 {
    // Start and commit operations, and the transaction's header with an operation of its own.
    let bytes = bytes + 2 * OPERATION_HEADER_BYTES + TRANSACTION_HEADER_BYTES;
    let room = RECORD_BUFFER_BYTES - RECORD_HEADER_BYTES;
    // Each record that continues the transaction begins with an operation header, which may make one more of them.
    let mut records = bytes.div_ceil(room);
    while (bytes + records * OPERATION_HEADER_BYTES).div_ceil(room) > records {
        records += 1;
    }
    let padding = if stripe_unit_bytes > 1 { 2 * stripe_unit_bytes } else { 2 * 512 };
    bytes + records * OPERATION_HEADER_BYTES + (records + 1) * RECORD_HEADER_BYTES + padding
}

#[cfg(test)]
mod log_size_tests;
