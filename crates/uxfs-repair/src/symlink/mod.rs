//! Targets of symbolic links, in inodes and in blocks of their own.

pub(crate) mod extent;
pub(crate) mod format;
pub(crate) mod size;
