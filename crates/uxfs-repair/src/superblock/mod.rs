//! The superblock and its copies.

pub(crate) mod check;
