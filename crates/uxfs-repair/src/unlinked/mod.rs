//! Lists of unlinked inodes.

pub(crate) mod check;
