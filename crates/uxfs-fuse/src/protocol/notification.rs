//! Messages that the server sends unasked, over `/dev/fuse` even where requests come over io_uring.
//!
//! The kernel acts before the write returns. Dropping a name takes the lock of the parent directory: a thread that answers an operation
//! of that directory must not do it.

use std::io::IoSlice;

use thiserror::Error;
use zerocopy::IntoBytes;

use super::{
    flags::InvalidateEntryFlags,
    wire::{
        header::OutHeader,
        notifications::{
            NotifyDeleteOut, NotifyInvalidateEntryOut, NotifyInvalidateInodeOut, NotifyPollOut,
            NotifyPruneOut, NotifyRetrieveOut, NotifyStoreOut,
        },
    },
};

/// A message to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notification<'a> {
    /// Events of POLL are ready.
    Poll {
        /// From the request.
        poll_handle: u64,
    },
    /// Drop attributes and pages of an inode. Dirty pages are written first.
    InvalidateInode {
        /// The node.
        node_id: u64,
        /// Pages to drop.
        range: InvalidateRange,
    },
    /// Drop a name, or only end its time.
    InvalidateEntry {
        /// The directory.
        parent: u64,
        /// The name.
        name: &'a [u8],
        /// How.
        flags: InvalidateEntryFlags,
    },
    /// Put data into the page cache.
    Store {
        /// The node.
        node_id: u64,
        /// First byte.
        offset_bytes: u64,
        /// The data.
        data: &'a [u8],
    },
    /// Send data of the page cache with NOTIFY_REPLY.
    Retrieve {
        /// Number of the answer.
        notify_unique: u64,
        /// The node.
        node_id: u64,
        /// First byte.
        offset_bytes: u64,
        /// Most bytes.
        size_bytes: u32,
    },
    /// A name was removed.
    Delete {
        /// The directory.
        parent: u64,
        /// The node that had the name.
        child: u64,
        /// The name.
        name: &'a [u8],
    },
    /// Send all requests again that were read and not answered.
    Resend,
    /// Drop all names, and all records of directories. Since 7.44.
    IncrementEpoch,
    /// Forget nodes that are not in use. Since 7.45.
    Prune {
        /// The nodes.
        node_ids: &'a [u64],
    },
}

/// Pages of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidateRange {
    /// None: attributes and ACLs only.
    AttributesOnly,
    /// From this byte to the end.
    From(u64),
    /// So many bytes, at least one.
    Bytes {
        /// First byte.
        offset_bytes: u64,
        /// Length.
        size_bytes: u64,
    },
}

/// A message that cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotificationError {
    /// Its size does not fit into the header.
    #[error("a notification of more than 4 GiB")]
    TooLong,
    /// A range outside of any file.
    #[error("bytes outside of any file are to be dropped")]
    BadRange,
}

/// A message as it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodedNotification<'a> {
    header: OutHeader,
    body: Body,
    tail: &'a [u8],
    /// Names end with a NUL.
    end: &'static [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Poll(NotifyPollOut),
    InvalidateInode(NotifyInvalidateInodeOut),
    InvalidateEntry(NotifyInvalidateEntryOut),
    Store(NotifyStoreOut),
    Retrieve(NotifyRetrieveOut),
    Delete(NotifyDeleteOut),
    Prune(NotifyPruneOut),
    Empty,
}

impl Body {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Poll(body) => body.as_bytes(),
            Self::InvalidateInode(body) => body.as_bytes(),
            Self::InvalidateEntry(body) => body.as_bytes(),
            Self::Store(body) => body.as_bytes(),
            Self::Retrieve(body) => body.as_bytes(),
            Self::Delete(body) => body.as_bytes(),
            Self::Prune(body) => body.as_bytes(),
            Self::Empty => &[],
        }
    }
}

impl<'a> Notification<'a> {
    /// Number of the message.
    #[doc(alias = "fuse_notify_code")]
    pub const fn code(&self) -> i32 {
        match self {
            Self::Poll { .. } => 1,
            Self::InvalidateInode { .. } => 2,
            Self::InvalidateEntry { .. } => 3,
            Self::Store { .. } => 4,
            Self::Retrieve { .. } => 5,
            Self::Delete { .. } => 6,
            Self::Resend => 7,
            Self::IncrementEpoch => 8,
            Self::Prune { .. } => 9,
        }
    }

    /// As it is sent.
    ///
    /// # Errors
    /// It cannot be sent.
    pub fn encode(&self) -> Result<EncodedNotification<'a>, NotificationError> {
        let (body, tail) = self.body_and_tail()?;
        let end: &[u8] = match self {
            Self::InvalidateEntry { .. } | Self::Delete { .. } => &[0],
            _ => &[],
        };
        let size_bytes = size_of::<OutHeader>() + body.as_bytes().len() + end.len();
        let size_bytes = size_bytes.checked_add(tail.len()).and_then(|size| u32::try_from(size).ok());
        let size_bytes = size_bytes.ok_or(NotificationError::TooLong)?;
        Ok(EncodedNotification {
            header: OutHeader { size_bytes, error: self.code(), unique: 0 },
            body,
            tail,
            end,
        })
    }

    fn body_and_tail(&self) -> Result<(Body, &'a [u8]), NotificationError> {
        Ok(match *self {
            Self::Poll { poll_handle } => (Body::Poll(NotifyPollOut { poll_handle }), &[]),
            Self::InvalidateInode { node_id, range } => {
                let (offset_bytes, size_bytes) = range.encode()?;
                let body = NotifyInvalidateInodeOut { node_id, offset_bytes, size_bytes };
                (Body::InvalidateInode(body), &[])
            }
            Self::InvalidateEntry { parent, name, flags } => {
                let name_bytes = count(name.len())?;
                let body = NotifyInvalidateEntryOut { parent, name_bytes, flags: flags.bits() };
                (Body::InvalidateEntry(body), name)
            }
            Self::Store { node_id, offset_bytes, data } => {
                let size_bytes = count(data.len())?;
                let body = NotifyStoreOut { node_id, offset_bytes, size_bytes, padding: 0 };
                (Body::Store(body), data)
            }
            Self::Retrieve { notify_unique, node_id, offset_bytes, size_bytes } => {
                let body = NotifyRetrieveOut { notify_unique, node_id, offset_bytes, size_bytes, padding: 0 };
                (Body::Retrieve(body), &[])
            }
            Self::Delete { parent, child, name } => {
                let body = NotifyDeleteOut { parent, child, name_bytes: count(name.len())?, padding: 0 };
                (Body::Delete(body), name)
            }
            Self::Resend | Self::IncrementEpoch => (Body::Empty, &[]),
            Self::Prune { node_ids } => {
                let body = NotifyPruneOut { count: count(node_ids.len())?, ..NotifyPruneOut::default() };
                (Body::Prune(body), node_ids.as_bytes())
            }
        })
    }
}

fn count(count: usize) -> Result<u32, NotificationError> {
    u32::try_from(count).map_err(|_| NotificationError::TooLong)
}

impl InvalidateRange {
    /// Offset and length, as the kernel takes them.
    fn encode(self) -> Result<(i64, i64), NotificationError> {
        let signed = |bytes: u64| i64::try_from(bytes).map_err(|_| NotificationError::BadRange);
        match self {
            Self::AttributesOnly => Ok((-1, 0)),
            Self::From(offset_bytes) => Ok((signed(offset_bytes)?, 0)),
            Self::Bytes { size_bytes: 0, .. } => Err(NotificationError::BadRange),
            Self::Bytes { offset_bytes, size_bytes } => {
                let (offset, size) = (signed(offset_bytes)?, signed(size_bytes)?);
                offset.checked_add(size).ok_or(NotificationError::BadRange)?;
                Ok((offset, size))
            }
        }
    }
}

impl EncodedNotification<'_> {
    /// The slices to send with one write; some may be empty.
    pub fn slices(&self) -> [IoSlice<'_>; 4] {
        [self.header.as_bytes(), self.body.as_bytes(), self.tail, self.end].map(IoSlice::new)
    }

    /// Bytes of the message.
    pub const fn size_bytes(&self) -> u32 {
        self.header.size_bytes
    }
}

#[cfg(test)]
#[path = "notification_tests.rs"]
mod tests;
