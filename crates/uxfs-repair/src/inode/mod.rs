//! Inodes in use.

pub(crate) mod check;
pub(crate) mod gather;
pub(crate) mod rebuild;
pub(crate) mod witnesses;
