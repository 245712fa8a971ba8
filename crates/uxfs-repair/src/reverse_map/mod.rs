//! The reverse mapping btree: the owner of each used extent of a group.

pub(crate) mod check;
