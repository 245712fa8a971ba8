//! From the bytes of a request to an operation.
//!
//! ```text
//! header │ structure │ names, data │ extensions
//!   40   │ by opcode │             │ 8 × extension_units
//! ```
//!
//! `/dev/fuse` gives all of this in one buffer ([`Request::parse`]); a ring entry gives the header, the structure and the rest in three
//! ([`Request::parse_parts`]). Every byte is accounted for: a request that is longer than its operation needs is refused, as is a
//! shorter one.
//!
//! | module | holds |
//! |---|---|
//! | here | the request and its header |
//! | [`operation`] | operations and their values |
//! | [`fault`] | what can be wrong with a request |
//! | [`extension`] | extensions of requests that create inodes |
//! | [`forget`] | nodes of BATCH_FORGET |
//! | [`body`] | reads structures, names and data one after the other |
//! | [`decode`] | from a body to an operation |
//! | [`decode_file`] | the same for operations of open files |

use zerocopy::FromBytes;

use super::{initialization::Negotiated, opcode::Opcode, wire::header::InHeader};

mod body;
mod decode;
mod decode_file;
pub mod extension;
pub mod fault;
pub mod forget;
pub mod operation;

#[cfg(test)]
#[path = "request_tests.rs"]
mod request_tests;

use self::body::Body;
pub use self::{
    fault::{RequestError, RequestFault},
    operation::Operation,
};

/// The process that made a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Caller {
    /// File system user id; 0 where no process made the request, as for WRITE from the page cache.
    pub user_id: u32,
    /// File system group id; 0 where no process made the request.
    pub group_id: u32,
    /// Thread id; 0 where no process made the request, or the server's pid namespace does not have it.
    pub process_id: u32,
}

/// A request of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Names the request; the reply repeats it, with all its bits.
    pub unique: u64,
    /// The node that the request is about; 0 where it is about none.
    pub node_id: u64,
    /// The process that made it.
    pub caller: Caller,
    /// Number of the operation.
    pub opcode: Opcode,
    /// The operation.
    pub operation: Operation<'a>,
}

impl<'a> Request<'a> {
    /// Parses what one read of `/dev/fuse` gave.
    ///
    /// # Errors
    /// The request is malformed. Unless its header is missing, the error says which request it is.
    pub fn parse(bytes: &'a [u8], negotiated: Negotiated) -> Result<Self, RequestError> {
        let (header, rest) = parse_header(bytes)?;
        let error = |fault| request_error(&header, fault);
        if usize::try_from(header.size_bytes) != Ok(bytes.len()) {
            let fault =
                RequestFault::WrongSize { announced_bytes: header.size_bytes, found_bytes: bytes.len() };
            return Err(error(fault));
        }
        let body = Body::new(None, rest, header.extension_units).map_err(error)?;
        Self::decode(&header, body, negotiated)
    }

    /// Parses a request that came in three buffers. `structure` holds the first structure of the operation, and may be longer; names,
    /// data and extensions are in `payload`, which has no byte behind them. The size in the header is not looked at.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_parts(
        header: &'a [u8],
        structure: &'a [u8],
        payload: &'a [u8],
        negotiated: Negotiated,
    ) -> Result<Self, RequestError> {
        let (header, _) = parse_header(header)?;
        let body = Body::new(Some(structure), payload, header.extension_units)
            .map_err(|fault| request_error(&header, fault))?;
        Self::decode(&header, body, negotiated)
    }

    fn decode(header: &InHeader, body: Body<'a>, negotiated: Negotiated) -> Result<Self, RequestError> {
        let opcode = Opcode::from_number(header.opcode);
        let operation =
            decode::operation(opcode, body, negotiated).map_err(|fault| request_error(header, fault))?;
        let InHeader { unique, node_id, user_id, group_id, process_id, .. } = *header;
        Ok(Self { unique, node_id, caller: Caller { user_id, group_id, process_id }, opcode, operation })
    }
}

fn parse_header(bytes: &[u8]) -> Result<(InHeader, &[u8]), RequestError> {
    InHeader::read_from_prefix(bytes).map_err(|_| RequestError {
        unique: None,
        opcode: None,
        fault: RequestFault::HeaderTruncated { found_bytes: bytes.len() },
    })
}

fn request_error(header: &InHeader, fault: RequestFault) -> RequestError {
    RequestError { unique: Some(header.unique), opcode: Some(Opcode::from_number(header.opcode)), fault }
}
