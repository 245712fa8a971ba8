//! The faults that the header of any self-describing block can have.
//!
//! The fault type of each structure wraps [`HeaderFault`] in a variant `Header`; [`Fault`](crate::fault::Fault) takes
//! it out again, so that callers find a header fault in one place whatever the structure.

use thiserror::Error;

use crate::units::{Lsn, Sector, Uuid};

/// A fault in what every self-describing block carries, whatever kind it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HeaderFault {
    /// Fewer bytes than the fixed part needs.
    #[error("only {length_bytes} bytes where {needed_bytes} are needed")]
    Truncated {
        /// There are.
        length_bytes: u64,
        /// There must be.
        needed_bytes: u64,
    },
    /// Another structure, or none.
    #[error("magic number is {found:#x}, not {expected:#x}")]
    BadMagic {
        /// On disk.
        found: u32,
        /// For this structure.
        expected: u32,
    },
    /// The bytes are not those that were written.
    #[error("checksum is {found:#010x}, but the contents give {computed:#010x}")]
    BadChecksum {
        /// On disk.
        found: u32,
        /// Over the bytes read.
        computed: u32,
    },
    /// Part of another file system (or of an earlier one on this device).
    #[error("uuid is {found}, not {expected} of this file system")]
    WrongUuid {
        /// On disk.
        found: Uuid,
        /// From the superblock.
        expected: Uuid,
    },
    /// A misdirected write.
    #[error("block says that it belongs at sector {found}, but was read from {expected}")]
    WrongSector {
        /// On disk.
        found: Sector,
        /// Where it was read.
        expected: Sector,
    },
    /// Belongs to another allocation group or inode.
    #[error("owner is {found}, not {expected}")]
    WrongOwner {
        /// On disk.
        found: u64,
        /// From the structure that led here.
        expected: u64,
    },
    /// The log was made anew behind the metadata: after a crash, changes of this block would be taken for old ones.
    #[doc(alias = "xfs_log_check_lsn")]
    #[error("log sequence number {found} lies ahead of the log at {head}")]
    AheadOfLog {
        /// On disk.
        found: Lsn,
        /// Head of the log.
        head: Lsn,
    },
}

impl From<crate::checksum::Mismatch> for HeaderFault {
    fn from(mismatch: crate::checksum::Mismatch) -> Self {
        Self::BadChecksum { found: mismatch.found, computed: mismatch.computed }
    }
}
