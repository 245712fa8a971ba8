//! From values to the bytes of a reply.
//!
//! ```text
//! header │ structure by operation │ data
//! ```
//!
//! Values have a function `encode`, whose result is a structure of [`wire`](super::wire); zerocopy's `as_bytes` gives its bytes.
//! Operations without a structure (UNLINK, FSYNC) are answered with a header alone, as are all errors.
//!
//! | module | holds |
//! |---|---|
//! | [`header`] | header, and slices of a whole reply for one write |
//! | [`attributes`] | entries, attributes of inodes and of the file system |
//! | [`results`] | all others: numbers, open files, locks, ioctls |

pub mod attributes;
pub mod header;
pub mod results;

pub use self::{
    attributes::{Attributes, AttributesReply, EntryReply, StatfsReply, StatxReply},
    header::{ReplyError, ReplyHeader, ReplySlices, reply_slices},
    results::{CreateReply, OpenReply},
};

#[cfg(test)]
#[path = "reply_tests.rs"]
mod reply_tests;
