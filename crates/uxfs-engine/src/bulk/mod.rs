//! What an image is filled by: one thread, one transaction, inodes held by the caller.
//!
//! | module | holds |
//! |---|---|
//! | [`create`] | new files and further names |
//! | [`remove`] | taking names away |

pub mod create;
pub mod remove;
