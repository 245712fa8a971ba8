//! The log ("journal"): a ring of 512-byte blocks that holds records; a record holds operations; the operations of
//! one transaction carry the regions of its items; an item is one logged change or intent.
//!
//! Byte order is the trap here. Record, extension and operation headers are big-endian like the rest of XFS. What the
//! items say about themselves is in the byte order of the machine that wrote the log, and only little-endian logs are
//! supported (`fmt` in the record header says so). Item contents copied from disk blocks are big-endian again.
//!
//! | module | holds |
//! |---|---|
//! | [`record`] | record header, extension header, cycle stamps, record checksum |
//! | [`operation`] | operation header, the operations of a record's payload, unmount record |
//! | [`transaction`] | header of a transaction |
//! | [`item`] | from an item's regions to the item: kinds, faults, the one dispatch |
//! | [`intent`] | what intents and their ends have in common |
//! | [`buffer_item`] | changed 128-byte chunks of a buffer |
//! | [`inode_item`] | changed inode: core in host byte order, and forks |
//! | [`inode_change`] | from a logged inode to the one on disk |
//! | [`inode_create_item`] | a newly initialised inode chunk |
//! | [`quota_item`] | changed quota record; end of quota |
//! | [`free_extent`] | EFI, EFD |
//! | [`reverse_map`] | RUI, RUD |
//! | [`reference_count`] | CUI, CUD |
//! | [`extent_map`] | BUI, BUD |
//! | [`attribute`] | ATTRI, ATTRD |
//! | [`exchange`] | XMI, XMD |

use thiserror::Error;

pub mod attribute;
pub mod buffer_item;
pub mod exchange;
pub mod extent_map;
pub mod free_extent;
pub mod inode_change;
pub mod inode_create_item;
pub mod inode_item;
pub mod intent;
pub mod item;
pub mod operation;
pub mod quota_item;
pub mod record;
pub mod reference_count;
pub mod reverse_map;
pub mod transaction;

/// Bytes in one block of the log ("basic block"), whatever the sector size of the log.
pub const LOG_BLOCK_SIZE_BYTES: u32 = 512;
/// The most in-core buffers the kernel has: so many records may have been under way when a machine stopped.
#[doc(alias = "XLOG_MAX_ICLOGS")]
pub const MAX_RECORDS_IN_FLIGHT: u32 = 8;

/// Faults of a log as a whole: no record need be bad for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LogFault {
    /// The end was never written, and yet the beginning is not the first cycle.
    #[error(
        "not a log: its last block was never written, but its first block is of cycle {first_cycle}, not 1"
    )]
    NotALog {
        /// Cycle number in the first block.
        first_cycle: u32,
    },
    /// No record header where the search needs one.
    #[error("no record header in the {searched_blocks} log blocks before block {block}")]
    NoRecord {
        /// Where the search began.
        block: u32,
        /// How far it went back.
        searched_blocks: u32,
    },
    /// Cutting off a torn record leaves nothing that makes sense.
    #[error("the record at log block {block} is damaged, and what would be left ends where it begins")]
    NothingBeforeTornRecord {
        /// Block of the torn record.
        block: u32,
    },
    /// A record reaches past the head.
    #[error(
        "the record at log block {block} is {blocks} blocks long, but the head is only {room} blocks away"
    )]
    RecordBeyondHead {
        /// Block of the record.
        block: u32,
        /// Its length.
        blocks: u32,
        /// Blocks from its start to the head.
        room: u32,
    },
    /// Cycles do not fall by one at the head: after a crash the head would be found somewhere else.
    #[error(
        "log block {block} is of cycle {found}, not {expected}: after a crash the newest changes would not be found"
    )]
    WrongCycle {
        /// The block.
        block: u32,
        /// Its cycle.
        found: u32,
        /// The cycle that a log with this head has there.
        expected: u32,
    },
    /// The number of the cycle is about to start again from zero.
    #[error("the log is in cycle {cycle}: hardly any are left")]
    NoCycleLeft {
        /// Of the head.
        cycle: u32,
    },
    /// The log is too short to hold any record.
    #[error("a log of {blocks} blocks of 512 bytes cannot hold a record")]
    TooShort {
        /// Blocks in the log.
        blocks: u32,
    },
    /// Larger than any log.
    #[error("a log of {blocks} blocks of 512 bytes is longer than 2 GiB")]
    TooLong {
        /// Blocks in the log.
        blocks: u32,
    },
    /// The log does not lie on the device.
    #[error("the log ends at byte {end_bytes}, but the device has only {device_bytes}")]
    OutsideDevice {
        /// Behind its last byte.
        end_bytes: u64,
        /// The device's size.
        device_bytes: u64,
    },
}
