//! What a caller asks of a file system, one file for each operation.
//!
//! | module | holds |
//! |---|---|
//! | [`resolve`] | from a path to an inode |
//! | [`create`] | new files and further names |
//! | [`remove`] | taking names away, and files that have none left |

pub mod create;
pub mod remove;
pub mod resolve;
