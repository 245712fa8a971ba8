//! Owners of blocks.

pub(crate) mod check;
pub(crate) mod read;
pub(crate) mod rebuild;
pub(crate) mod search;
