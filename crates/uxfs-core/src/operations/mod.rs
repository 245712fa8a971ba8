//! What a caller asks of a file system, one file for each operation.
//!
//! | module | holds |
//! |---|---|
//! | [`resolve`] | from a path to an inode |
//! | [`create`] | new files and further names |
//! | [`remove`] | taking names away |
//! | [`inactivate`] | freeing files that have neither names nor handles |

pub mod create;
pub mod inactivate;
pub mod remove;
pub mod resolve;
