//! State that one pass leaves for the next. It is small: see the invariants of the crate.
//!
//! | module | holds |
//! |---|---|
//! | [`block_kinds`] | what blocks are used for, for callers that draw it |
//! | [`chunks`] | inode chunks, in memory or in a temporary file |
//! | [`groups`] | sums and counts of each allocation group |
//! | [`inodes`] | a few bytes for each inode in use |

pub(crate) mod block_kinds;
mod chunks;
pub(crate) mod groups;
pub(crate) mod inodes;
