//! The counters of the superblock.

pub(crate) mod check;
