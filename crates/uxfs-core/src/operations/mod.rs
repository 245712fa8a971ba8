//! What a caller asks of a file system, one file for each operation.
//!
//! | module | holds |
//! |---|---|
//! | [`resolve`] | from a path to an inode |

pub mod resolve;
