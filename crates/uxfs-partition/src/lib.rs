//! **Internal: it changes without notice. Programs use the crate `uxfs`.**
//!
//! Partition tables: which parts of a disk or disk image are partitions, which one a user means, and what is in them.
//!
//! A table may say anything: counts without end, loops, partitions outside of the disk. The libraries for tables follow what they read as far
//! as it goes, so what is read of a disk, how much of it, and what is believed is decided here.
//!
//! | module | holds |
//! |---|---|
//! | [`table`] | the partitions of a disk |
//! | `structures` | the bytes of both kinds of tables |
//! | `gpt` | GUID partition tables: both copies, checksums |
//! | `mbr` | master boot records, and the chain of logical partitions |
//! | [`file_system`] | label and UUID of an XFS file system in a partition |
//! | [`signature`] | what else than XFS lies somewhere |
//! | [`selection`] | which partition is meant by a number, a name or a UUID |
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod file_system;
mod gpt;
mod mbr;
pub mod selection;
pub mod signature;
mod structures;
pub mod table;
