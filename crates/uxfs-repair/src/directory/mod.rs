//! Directories.
//!
//! | module | holds |
//! |---|---|
//! | [`check`] | the entries of a directory beside the inodes that they name |
//! | [`index`] | the index of names beside the entries |
//! | [`free_index`] | the longest free regions beside the data blocks |

pub(crate) mod check;
mod free_index;
mod index;

/// Damaged blocks of a directory after which no further entries are read.
pub(crate) const MOST_FAULTS: u32 = 1000;
