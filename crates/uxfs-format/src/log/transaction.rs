//! Header of a transaction: its first region.

use thiserror::Error;
use zerocopy::little_endian::U32;

use crate::{convert::to_u64, field_table::OnDisk, on_disk};

/// "TRAN".
#[doc(alias = "XFS_TRANS_HEADER_MAGIC")]
pub const MAGIC: u32 = 0x5452_414e;
/// The one type that delayed logging writes.
#[doc(alias = "XFS_TRANS_CHECKPOINT")]
pub const TYPE_CHECKPOINT: u32 = 40;

on_disk! {
    /// First region of a transaction.
    #[doc(alias = "xfs_trans_header")]
    pub struct TransactionHeader {
        /// [`MAGIC`].
        pub magic: U32 => "magic" Hexadecimal little,
        /// [`TYPE_CHECKPOINT`].
        pub kind: U32 => "type" Decimal little,
        /// Not used.
        pub transaction: U32 => "tid" Hexadecimal little,
        /// Number of *regions* that follow, whatever its name says.
        pub region_count: U32 => "num_items" Decimal little,
    }
}

/// Faults of a transaction's assembly. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TransactionFault {
    /// The first region is not a transaction header.
    #[error("transaction {transaction:#x} begins with {magic:#x}, not with its header")]
    Magic {
        /// Its id.
        transaction: u32,
        /// In place of the magic number.
        magic: u32,
    },
    /// Not the header's length.
    #[error("transaction {transaction:#x} has a header of {length_bytes} bytes")]
    HeaderLength {
        /// Its id.
        transaction: u32,
        /// Length of the region.
        length_bytes: u64,
    },
    /// An id that is in use began again.
    #[error("transaction {transaction:#x} begins a second time")]
    StartedTwice {
        /// Its id.
        transaction: u32,
    },
    /// A piece of a region without the region.
    #[error("transaction {transaction:#x} continues a region that never began")]
    NothingToContinue {
        /// Its id.
        transaction: u32,
    },
    /// Committed in the middle of an item.
    #[error("transaction {transaction:#x} ends with {found} of {expected} regions of its last item")]
    IncompleteItem {
        /// Its id.
        transaction: u32,
        /// Regions seen.
        found: u32,
        /// Regions announced.
        expected: u32,
    },
    /// An item whose first region is too short to say how many follow, or says something impossible.
    #[error(
        "transaction {transaction:#x} has an item of {regions} regions, in a first region of {length_bytes} bytes"
    )]
    ItemRegions {
        /// Its id.
        transaction: u32,
        /// Regions announced.
        regions: u32,
        /// Length of the first region.
        length_bytes: u64,
    },
    /// More bytes than any item has.
    #[error("transaction {transaction:#x} has an item of more than {limit_bytes} bytes")]
    ItemTooLarge {
        /// Its id.
        transaction: u32,
        /// The limit.
        limit_bytes: u64,
    },
    /// More transactions at once than any writer opens.
    #[error("more than {limit} transactions are open at once")]
    TooManyOpen {
        /// The limit.
        limit: u32,
    },
}

impl TransactionHeader {
    /// Parses and verifies a transaction's first region; `transaction` is named in the fault.
    ///
    /// # Errors
    /// The region is no transaction header.
    pub fn parse(region: &[u8], transaction: u32) -> Result<&Self, TransactionFault> {
        let length = TransactionFault::HeaderLength { transaction, length_bytes: to_u64(region.len()) };
        let header = Self::prefix_of(region).ok_or(length)?;
        let magic = header.magic.get();
        if magic != MAGIC {
            return Err(TransactionFault::Magic { transaction, magic });
        }
        if region.len() != Self::SIZE_BYTES {
            return Err(length);
        }
        Ok(header)
    }
}
