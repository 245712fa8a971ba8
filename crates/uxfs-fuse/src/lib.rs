//! **Internal: it changes without notice. Programs use the crate `uxfs`.**
//!
//! XFS as a mounted file system, through FUSE.
//!
//! | module | holds |
//! |---|---|
//! | [`protocol`] | requests and replies as the kernel writes and reads them |
//! | [`mounting`] | options, `/dev/fuse`, mount(2) and fusermount3, unmounting |
//! | [`transport`] | how requests come and replies go |
//! | [`server`] | the file system behind a mount |
//! | [`link`] | what the process that mounts and the one that serves say to each other |
//! | [`fork`] | children that go on in the same program |
//! | [`log`] | lines of the process that serves, with levels |
//! | [`confinement`] | what the process that serves may still do |
//! | [`statistics`] | what a mount counts |
//! | [`session`] | a mount from its first request to its end |
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod confinement;
pub mod fork;
pub mod link;
pub mod log;
pub mod mounting;
pub mod protocol;
pub mod server;
pub mod session;
pub mod statistics;
pub mod transport;
