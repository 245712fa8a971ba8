//! The inode btree of a group, and the btree of its chunks with free inodes.

pub(crate) mod check;
pub(crate) mod gather;
mod search;
