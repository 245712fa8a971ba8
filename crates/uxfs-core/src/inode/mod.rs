//! Inodes that change. What lies on disk is read by [`uxfs_volume::inode`].
//!
//! | module | holds |
//! |---|---|
//! | [`edit`] | an inode that is being changed |
//! | [`create`] | new inodes |
//! | `allocate` | finding free inodes, making chunks of new ones |
//! | `free` | giving inodes back |
//! | `unlinked` | the lists of inodes without a name |
//! | [`table`] | inodes that are open, for operations on a live file system |

mod allocate;
pub mod create;
pub mod edit;
mod free;
pub mod table;
pub(crate) mod unlinked;

pub use uxfs_volume::inode::*;
