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
