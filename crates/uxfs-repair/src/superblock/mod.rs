//! The superblock and its copies.

mod accepted;
pub(crate) mod check;
pub(crate) mod fields;
mod realtime;
mod sectors;
pub(crate) mod vote;
pub(crate) mod witnesses;
