//! Inodes, in use and free.

pub(crate) mod check;
pub(crate) mod fields;
pub(crate) mod free;
pub(crate) mod gather;
mod lost_directories;
pub(crate) mod mend;
mod neutral;
pub(crate) mod rebuild;
mod remains;
pub(crate) mod told;
pub(crate) mod unproved;
pub(crate) mod witnesses;
