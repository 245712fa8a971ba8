//! **Internal: it changes without notice. Programs use the crate `uxfs`.**
//!
//! The metadata of a file system as one stream, in version 2 of the format of `xfs_metadump`, and back: so that people can send a damaged
//! file system without its contents and names.
//!
//! ```text
//! device ─▶ gather: which blocks are metadata ─▶ transform: unused bytes, names, checksums ─▶ dump: extents in order ─▶ stream
//! stream ─▶ restore: extents within the size that the superblock says ─▶ device, its superblock last
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`format`](mod@format) | headers of both versions of the format |
//! | `blocks` | sets of blocks |
//! | `gather` | which blocks of a device hold metadata |
//! | `transform` | what of a structure goes into a dump |
//! | [`obfuscate`] | other names with the same hash |
//! | [`dump`](mod@dump) | [`dump()`](dump::dump): from a device to a stream |
//! | [`restore`](mod@restore) | [`restore()`](restore::restore): from a stream to a device |
//!
//! Invariants:
//! 1. A dump has every block that it names as it lies on the device, but for names, values and unused bytes, where that is asked for, and
//!    checksums that were right. So damage stays what it is.
//! 2. Memory is one bit for each block of metadata and each inode, in pages of 32,768, and a few pieces of 1 MiB.
//! 3. Nothing is written to a device before a sound size is known, and nothing outside of it.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod blocks;
pub mod dump;
pub mod format;
mod gather;
pub mod obfuscate;
pub mod restore;
mod transform;

pub use gather::Warning;
