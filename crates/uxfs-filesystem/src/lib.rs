//! **Internal: it changes without notice. Programs use the crate `uxfs`.**
//!
//! A living XFS V5 file system: [`FileSystem`](filesystem::FileSystem) is an engine with open inodes and handles, usable from many
//! threads. Reading alone takes a [`Volume`](uxfs_volume::volume::Volume).
//!
//! | module | holds |
//! |---|---|
//! | [`mount`] | from a device to a volume whose log is clean |
//! | `mounting` | mounting for changes, in bulk mode or through the log |
//! | `opening` | checks before the first change |
//! | [`filesystem`] | [`FileSystem`](filesystem::FileSystem): an engine with open inodes |
//! | [`inode`] | open inodes |
//! | [`operations`] | one file for each operation on names, attributes and access control lists |
//! | [`mod@file`] | the contents of regular files, changed |
//! | [`recovery`] | what a dirty log asks for |
//! | [`identity`] | label and uuid |
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod file;
pub mod filesystem;
pub mod identity;
pub mod inode;
pub mod mount;
mod mounting;
mod opening;
pub mod operations;
pub mod recovery;
