//! Inodes in use.

pub(crate) mod check;
pub(crate) mod gather;
