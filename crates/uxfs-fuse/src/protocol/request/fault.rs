//! What can be wrong with a request.

use thiserror::Error;

use crate::protocol::opcode::Opcode;

/// A malformed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("malformed FUSE request ({}): {fault}", .opcode.map_or_else(|| "no header".to_owned(), |opcode| opcode.to_string()))]
pub struct RequestError {
    /// Which request; `None` where the header is missing.
    pub unique: Option<u64>,
    /// What it asks for.
    pub opcode: Option<Opcode>,
    /// What is wrong.
    pub fault: RequestFault,
}

impl RequestError {
    /// The request that the kernel waits for: it must be answered with an error.
    pub fn unanswered(&self) -> Option<u64> {
        self.unique.filter(|_| self.opcode.is_some_and(Opcode::takes_reply))
    }
}

/// Faults of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RequestFault {
    /// Shorter than a header.
    #[error("{found_bytes} bytes are shorter than a header")]
    HeaderTruncated {
        /// Bytes that are there.
        found_bytes: usize,
    },
    /// The header says another size.
    #[error("the header says {announced_bytes} bytes, but there are {found_bytes}")]
    WrongSize {
        /// From the header.
        announced_bytes: u32,
        /// Bytes that are there.
        found_bytes: usize,
    },
    /// Extensions are longer than what follows the header.
    #[error("extensions of {announced_bytes} bytes, but only {found_bytes} bytes after the header")]
    ExtensionsTruncated {
        /// From the header.
        announced_bytes: usize,
        /// Bytes that are there.
        found_bytes: usize,
    },
    /// This operation has no extensions.
    #[error("{found_bytes} bytes of extensions where there are none")]
    UnexpectedExtensions {
        /// Their size.
        found_bytes: usize,
    },
    /// The size in an extension cannot be.
    #[error("an extension of {announced_bytes} bytes, where {found_bytes} bytes are left")]
    ExtensionSize {
        /// From its header.
        announced_bytes: u32,
        /// From its header to the end.
        found_bytes: usize,
    },
    /// An extension does not hold what its header announces.
    #[error("an extension of type {kind} is too short for what it holds")]
    ExtensionContents {
        /// Type, or number of security contexts.
        kind: u32,
    },
    /// The structure of the operation is not whole.
    #[error("a structure of {needed_bytes} bytes, but only {found_bytes} bytes are left")]
    StructureTruncated {
        /// Its size.
        needed_bytes: usize,
        /// Bytes that are there.
        found_bytes: usize,
    },
    /// INIT without versions and flags.
    #[error("INIT with {found_bytes} bytes after the header")]
    InitTruncated {
        /// Bytes that are there.
        found_bytes: usize,
    },
    /// A name without an end.
    #[error("a name of {found_bytes} bytes without a NUL")]
    NameUnterminated {
        /// Bytes that are left.
        found_bytes: usize,
    },
    /// A name without bytes.
    #[error("an empty name")]
    NameEmpty,
    /// A slash in the name of a directory entry.
    #[error("a slash in the name of a directory entry")]
    NameWithSlash,
    /// Data of another size than announced.
    #[error("{announced_bytes} bytes of data announced, but there are {found_bytes}")]
    DataSize {
        /// From the structure.
        announced_bytes: u64,
        /// Bytes that are there.
        found_bytes: usize,
    },
    /// Bytes behind the end of the operation.
    #[error("{found_bytes} bytes too many")]
    TrailingBytes {
        /// How many.
        found_bytes: usize,
    },
    /// More than a second of nanoseconds.
    #[error("{nanoseconds} nanoseconds of a second")]
    Nanoseconds {
        /// How many.
        nanoseconds: u32,
    },
    /// LSEEK for neither data nor holes.
    #[error("LSEEK with whence {whence}")]
    Whence {
        /// From the structure.
        whence: u32,
    },
    /// A type that no lock has.
    #[error("a lock of type {kind}")]
    LockType {
        /// From the structure.
        kind: u32,
    },
}
