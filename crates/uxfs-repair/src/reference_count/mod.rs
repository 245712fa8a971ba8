//! The reference count btree: blocks that several files share, and blocks that are set aside for a copy on write.

pub(crate) mod check;
pub(crate) mod rebuild;
