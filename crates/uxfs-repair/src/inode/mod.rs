//! Inodes in use.

pub(crate) mod check;
