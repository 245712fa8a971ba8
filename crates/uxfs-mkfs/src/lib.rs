//! Making XFS file systems.
//!
//! | module | holds |
//! |---|---|
//! | [`options`] | what the user asked for: mkfs.xfs's sub-options, sizes, configuration files |
//! | [`layout`] | from options and a device to every number of the superblock |
//! | [`log_size`] | the smallest log that Linux accepts |
//! | [`identity`] | uuid, time, random numbers |
//! | [`empty`] | the empty image |
//! | [`target`] | the file or block device: what it holds, who uses it, how it is cleared |
//! | [`summary`] | the layout in the words that users of mkfs.xfs know |
#![forbid(unsafe_code)]

pub mod empty;
pub mod identity;
pub mod layout;
pub mod log_size;
pub mod options;
pub mod summary;
pub mod target;
