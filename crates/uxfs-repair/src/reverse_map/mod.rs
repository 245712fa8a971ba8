//! The reverse mapping btree: who owns each used extent of a group.

pub(crate) mod check;
