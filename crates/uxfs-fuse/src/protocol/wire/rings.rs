//! FUSE over io_uring.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Command of a request that gives the kernel a buffer for the first time.
#[doc(alias = "FUSE_IO_URING_CMD_REGISTER")]
pub const RING_REGISTER: u32 = 1;
/// Command of a request that replies and gives the buffer back.
#[doc(alias = "FUSE_IO_URING_CMD_COMMIT_AND_FETCH")]
pub const RING_COMMIT_AND_FETCH: u32 = 2;

/// Header buffer of a ring entry.
#[doc(alias = "fuse_uring_req_header")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RingHeader {
    /// [`InHeader`](super::header::InHeader) of a request, [`OutHeader`](super::header::OutHeader) of a reply.
    pub in_out: [u8; 128],
    /// First structure of a request.
    pub operation: [u8; 128],
    /// Of the entry.
    pub entry: RingEntry,
}

wire_structures! {
    /// Of a ring entry, both ways.
    #[doc(alias = "fuse_uring_ent_in_out")]
    pub struct RingEntry {
        /// 0.
        pub flags: u64,
        /// Names the request when it is replied to.
        pub commit_id: u64,
        /// Bytes in the payload buffer.
        pub payload_bytes: u32,
        pub(crate) padding: u32,
        pub(crate) reserved: u64,
    }

    /// In the command area of a submission.
    #[doc(alias = "fuse_uring_cmd_req")]
    pub struct RingCommand {
        /// 0.
        pub flags: u64,
        /// Of the entry that is replied to.
        pub commit_id: u64,
        /// The queue.
        pub queue_id: u16,
        pub(crate) padding: [u8; 6],
    }
}

impl Default for RingHeader {
    fn default() -> Self {
        Self { in_out: [0; 128], operation: [0; 128], entry: RingEntry::default() }
    }
}
