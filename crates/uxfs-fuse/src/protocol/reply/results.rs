//! Numbers, open files, locks and ioctls.

use super::attributes::EntryReply;
use crate::protocol::{
    flags::OpenReplyFlags,
    request::operation::Lock,
    wire::{
        extended_attributes::ExtendedAttributeSizeOut,
        files::{BlockMapOut, CopyFileRangeOut, OpenOut, SeekOut, WriteOut},
        ioctl::{IoctlOut, PollOut},
        locks::{LockOut, LockRecord},
        names::CreateOut,
    },
};

/// Reply to OPEN and OPENDIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenReply {
    /// Names the open file.
    pub handle: u64,
    /// How the kernel treats it.
    pub flags: OpenReplyFlags,
}

impl OpenReply {
    /// As it lies in a reply.
    pub fn encode(&self) -> OpenOut {
        OpenOut { handle: self.handle, open_flags: self.flags.bits(), backing_id: 0 }
    }
}

/// Reply to CREATE and TMPFILE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CreateReply {
    /// The new inode.
    pub entry: EntryReply,
    /// The open file.
    pub open: OpenReply,
}

impl CreateReply {
    /// As it lies in a reply.
    pub fn encode(&self) -> CreateOut {
        CreateOut { entry: self.entry.encode(), open: self.open.encode() }
    }
}

impl WriteOut {
    /// Reply to WRITE and COPY_FILE_RANGE: so many bytes were written.
    pub const fn new(size_bytes: u32) -> Self {
        Self { size_bytes, padding: 0 }
    }
}

impl CopyFileRangeOut {
    /// Reply to COPY_FILE_RANGE_64: so many bytes were copied.
    pub const fn new(size_bytes: u64) -> Self {
        Self { size_bytes }
    }
}

impl SeekOut {
    /// Reply to LSEEK: what was sought begins here.
    pub const fn new(offset_bytes: u64) -> Self {
        Self { offset_bytes }
    }
}

impl BlockMapOut {
    /// Reply to BMAP: the block of the device, 0 for a hole.
    pub const fn new(block: u64) -> Self {
        Self { block }
    }
}

impl ExtendedAttributeSizeOut {
    /// Reply to GETXATTR and LISTXATTR that ask for the size. Others are answered with the value or the list alone.
    pub const fn new(size_bytes: u32) -> Self {
        Self { size_bytes, padding: 0 }
    }
}

impl PollOut {
    /// Reply to POLL: these events are ready.
    pub const fn new(events: u32) -> Self {
        Self { events, padding: 0 }
    }
}

impl IoctlOut {
    /// Reply to IOCTL: what ioctl(2) returns. The output follows.
    pub const fn new(result: i32) -> Self {
        Self { result, flags: 0, input_vectors: 0, output_vectors: 0 }
    }
}

impl LockOut {
    /// Reply to GETLK: a lock in the way, or one of kind [`Unlock`](crate::protocol::request::operation::LockKind::Unlock).
    pub const fn new(lock: &Lock) -> Self {
        Self {
            lock: LockRecord {
                start_bytes: lock.start_bytes,
                last_bytes: lock.last_bytes,
                kind: lock.kind.number(),
                process_id: lock.process_id,
            },
        }
    }
}
