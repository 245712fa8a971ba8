//! **Internal: it changes without notice. Programs use the crate `uxfs`.**
//!
//! A living XFS V5 file system: [`FileSystem`](filesystem::FileSystem) is an engine with open inodes and handles, usable from many
//! threads. Reading alone takes a [`Volume`](uxfs_volume::volume::Volume).
//!
//! | module | holds |
//! |---|---|
//! | [`mount`] | opening a volume whose log is clean |
//! | `mount_for_changes` | mounting for changes, in bulk mode or through the log |
//! | `before_changes` | checks before the first change |
//! | `log_extent` | the log's place in the superblock, compared with other structures |
//! | [`filesystem`] | [`FileSystem`](filesystem::FileSystem): an engine with open inodes |
//! | [`inode`] | open inodes |
//! | [`operations`] | one file for each operation on names, attributes and access control lists |
//! | [`mod@file`] | changing the contents of regular files |
//! | [`recovery`] | recovery of a dirty log |
//! | [`identity`] | label and uuid |
//! | [`trim`] | giving the host back what is free |
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod before_changes;
pub mod file;
pub mod filesystem;
pub mod identity;
pub mod inode;
mod log_extent;
pub mod mount;
mod mount_for_changes;
pub mod operations;
pub mod recovery;
pub mod trim;
