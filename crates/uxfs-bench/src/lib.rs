//! **Internal: it changes without notice. Programs use the crate `uxfs`.**
//!
//! Workloads that measure file systems, each by one description of what it does and two ways of doing it: by system calls
//! on any mounted directory, so that one command compares uxfs with the kernel's XFS, btrfs and ext4, or in process on
//! an image.
//!
//! | module | holds |
//! |---|---|
//! | [`backend`] | what a workload asks of a file system; the two ways |
//! | [`fsmark`] | many files by many threads, with fs_mark's options and columns |
//! | [`dirsync`] | names that come and change in one directory that is often synced |
//! | [`xattr`] | very many attributes on one inode |
//! | [`histogram`] | latencies without distortion |
//! | [`table`] | columns for people |
//! | `random` | numbers that a seed decides |
//! | `error` | why a workload ended |
//!
//! The operations of a run depend on its options and its seed alone; nothing here asserts a time.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod backend;
pub mod dirsync;
mod error;
pub mod fsmark;
pub mod histogram;
mod random;
pub mod table;
pub mod xattr;

pub use error::{BenchError, Result};
