//! Operations: what a record's payload is made of. Each is a 12-byte header and its data; the data are one region of
//! one item, or a piece of one.

use thiserror::Error;
use zerocopy::big_endian::U32 as BigU32;
use zerocopy::little_endian::{U16, U32};

use crate::{
    convert::{to_u64, to_usize},
    field_table::OnDisk,
    on_disk,
};

bitflags::bitflags! {
    /// Flags of an operation.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct OperationFlags: u8 {
        /// Begins a transaction; no data.
        #[doc(alias = "XLOG_START_TRANS")]
        const START = 0x01;
        /// Commits a transaction; no data.
        #[doc(alias = "XLOG_COMMIT_TRANS")]
        const COMMIT = 0x02;
        /// The region goes on in a later record.
        #[doc(alias = "XLOG_CONTINUE_TRANS")]
        const CONTINUE = 0x04;
        /// The region comes from an earlier record.
        #[doc(alias = "XLOG_WAS_CONT_TRANS")]
        const WAS_CONTINUED = 0x08;
        /// The last piece of a continued region.
        #[doc(alias = "XLOG_END_TRANS")]
        const END = 0x10;
        /// The log was closed cleanly.
        #[doc(alias = "XLOG_UNMOUNT_TRANS")]
        const UNMOUNT = 0x20;
        const _ = !0;
    }
}

/// `clientid` of transactions.
#[doc(alias = "XFS_TRANSACTION")]
pub const CLIENT_TRANSACTION: u8 = 0x69;
/// `clientid` of the log's own operations: unmount.
#[doc(alias = "XFS_LOG")]
pub const CLIENT_LOG: u8 = 0xaa;
/// `magic` of the unmount record: "Un".
#[doc(alias = "XLOG_UNMOUNT_TYPE")]
pub const UNMOUNT_MAGIC: u16 = 0x556e;

on_disk! {
    /// Header of an operation.
    #[doc(alias = "xlog_op_header")]
    pub struct OperationHeader {
        /// The transaction.
        pub transaction: BigU32 => "tid" Hexadecimal,
        /// Bytes of data behind this header.
        pub length_bytes: BigU32 => "len" Decimal,
        /// [`CLIENT_TRANSACTION`] or [`CLIENT_LOG`].
        pub client: u8 => "clientid" Hexadecimal,
        /// [`OperationFlags`].
        pub flags: u8 => "flags" Hexadecimal,
        /// Zero.
        pub reserved: [u8; 2] => "res2" Padding,
    }

    /// Data of the operation that closes the log.
    #[doc(alias = "xfs_unmount_log_format")]
    pub struct UnmountRecord {
        /// [`UNMOUNT_MAGIC`].
        pub magic: U16 => "magic" Hexadecimal little,
        /// Zero.
        pub padding1: [u8; 2] => "pad1" Padding,
        /// Zero.
        pub padding2: U32 => "pad2" Padding little,
    }
}

/// Faults of an operation. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LogOperationFault {
    /// The payload ends before the operations do.
    #[error("operation {index} does not fit: {rest_bytes} bytes of the record are left")]
    NoRoomForHeader {
        /// Number of the operation in the record.
        index: u32,
        /// Left of the payload.
        rest_bytes: u32,
    },
    /// Its data would reach past the payload.
    #[error(
        "operation {index} has {length_bytes} bytes of data, but {rest_bytes} bytes of the record are left"
    )]
    Length {
        /// Number of the operation in the record.
        index: u32,
        /// `len`.
        length_bytes: u32,
        /// Left of the payload.
        rest_bytes: u32,
    },
    /// A client that the format does not have.
    #[error("operation {index} is of unknown client {client:#04x}")]
    Client {
        /// Number of the operation in the record.
        index: u32,
        /// `clientid`.
        client: u8,
    },
    /// Flags that do not go together, or unknown ones.
    #[error("operation {index} has flags {flags:#04x}, which make no sense")]
    Flags {
        /// Number of the operation in the record.
        index: u32,
        /// `flags`.
        flags: u8,
    },
}

/// Kinds of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// A transaction begins.
    Start,
    /// A transaction is complete.
    Commit,
    /// The log was closed cleanly.
    Unmount,
    /// A region, whole or its first piece.
    Region,
    /// A further piece of the region before.
    Continuation,
}

/// One operation of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation<'a> {
    /// Number in the record.
    pub index: u32,
    /// First byte of its header in the payload.
    pub offset_bytes: u32,
    /// Its header.
    pub header: &'a OperationHeader,
    /// Its kind.
    pub kind: OperationKind,
    /// Its data.
    pub data: &'a [u8],
}

impl OperationHeader {
    /// The kind that the flags say, or `None` where they make no sense.
    pub fn kind(&self) -> Option<OperationKind> {
        let mut flags = OperationFlags::from_bits_retain(self.flags);
        flags.remove(OperationFlags::END);
        if flags.contains(OperationFlags::WAS_CONTINUED) {
            flags.remove(OperationFlags::CONTINUE);
        }
        match flags {
            OperationFlags::START => Some(OperationKind::Start),
            OperationFlags::COMMIT => Some(OperationKind::Commit),
            OperationFlags::UNMOUNT => Some(OperationKind::Unmount),
            OperationFlags::WAS_CONTINUED => Some(OperationKind::Continuation),
            OperationFlags::CONTINUE => Some(OperationKind::Region),
            _ if flags.is_empty() => Some(OperationKind::Region),
            _ => None,
        }
    }
}

/// The operations of a payload whose first words were restored. Ends after the first fault.
#[derive(Debug, Clone)]
pub struct Operations<'a> {
    payload: &'a [u8],
    offset_bytes: u32,
    index: u32,
    count: u32,
}

impl<'a> Operations<'a> {
    /// The first `count` operations of `payload`.
    pub fn new(payload: &'a [u8], count: u32) -> Self {
        Self { payload, offset_bytes: 0, index: 0, count }
    }

    fn next_operation(&mut self) -> Result<Operation<'a>, LogOperationFault> {
        let index = self.index;
        let offset_bytes = self.offset_bytes;
        let rest = self.payload.get(to_usize(offset_bytes)..).unwrap_or_default();
        let rest_bytes = crate::convert::low_u32(to_u64(rest.len()));
        let header = OperationHeader::prefix_of(rest)
            .ok_or(LogOperationFault::NoRoomForHeader { index, rest_bytes })?;
        let client = header.client;
        if client != CLIENT_TRANSACTION && client != CLIENT_LOG {
            return Err(LogOperationFault::Client { index, client });
        }
        let flags = header.flags;
        let kind = header.kind().ok_or(LogOperationFault::Flags { index, flags })?;
        let length_bytes = header.length_bytes.get();
        let start = OperationHeader::SIZE_BYTES;
        let data = start
            .checked_add(to_usize(length_bytes))
            .and_then(|end| rest.get(start..end))
            .ok_or(LogOperationFault::Length { index, length_bytes, rest_bytes })?;
        self.offset_bytes = offset_bytes.saturating_add(12).saturating_add(length_bytes);
        self.index = index.saturating_add(1);
        Ok(Operation { index, offset_bytes, header, kind, data })
    }
}

impl<'a> Iterator for Operations<'a> {
    type Item = Result<Operation<'a>, LogOperationFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.index >= self.count {
            return None;
        }
        let result = self.next_operation();
        if result.is_err() {
            self.index = self.count;
        }
        Some(result)
    }
}

#[cfg(test)]
#[path = "operation_tests.rs"]
mod tests;
