//! Targets of symbolic links in blocks of their own.

pub(crate) mod extent;
pub(crate) mod size;
