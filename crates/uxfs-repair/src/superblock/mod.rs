//! The superblock and its copies.

pub(crate) mod check;
pub(crate) mod fields;
pub(crate) mod vote;
pub(crate) mod witnesses;
