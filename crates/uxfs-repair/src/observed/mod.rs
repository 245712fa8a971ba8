//! State that one pass leaves for the next. It is small: see the invariants of the crate.
//!
//! | module | holds |
//! |---|---|
//! | [`groups`] | sums and counts of each allocation group |
//! | [`inodes`] | a few bytes for each inode in use |

pub(crate) mod groups;
pub(crate) mod inodes;
