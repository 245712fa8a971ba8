//! All integration tests of `uxfs-testkit` in one program, so that they share what one of them unpacked or made.
#![allow(clippy::unwrap_used, missing_docs)] // Without its image a test has nothing to say.

mod differential_walk;
mod golden_forms;
mod inode_scan;
mod inspect_against_xfs_db;
