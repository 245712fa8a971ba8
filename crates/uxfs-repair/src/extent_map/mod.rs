//! The extents of a fork.

pub(crate) mod check;
