//! Names and link counts: every inode in use has as many names as its link count says, and the root leads to every directory.

pub(crate) mod check;
