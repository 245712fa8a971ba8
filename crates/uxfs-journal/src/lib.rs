//! **Internal: it changes without notice. Programs use the crate `uxfs`.**
//!
//! The journal of an XFS V5 file system: the log as a ring of blocks, its head and tail, its records and transactions.
//!
//! Reading logs changes nothing on the device. Replay will be one more
//! [`TransactionSink`](recovery::transactions::TransactionSink), beside the [`listing`].
//!
//! | module | holds |
//! |---|---|
//! | [`error`] | what reading a log can fail with |
//! | [`area`] | the log as a ring of 512-byte blocks |
//! | [`copies`] | copies of metadata that the log still holds, also where it is clean |
//! | [`identity`] | whose log it is |
//! | [`recovery`] | head and tail, records in order, transactions put together |
//! | [`journal`] | writing the log: checkpoints, tail, write-back |
//! | [`metadata`] | how the buffer cache judges and seals metadata |
//! | [`transaction`] | the buffers that a transaction changes |
//! | [`listing`] | what the log holds, for people |
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod area;
pub mod copies;
pub mod error;
pub mod identity;
pub mod journal;
pub mod listing;
pub mod metadata;
pub mod recovery;
#[cfg(test)]
mod testing;
pub mod transaction;

pub use recovery::find_head_tail::{LogState, examine};
#[cfg(test)]
mod hostile_tests;
