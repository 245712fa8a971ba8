//! All integration tests of `uxfs-filesystem` in one program, so that they share what one of them unpacked or made.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // Without its image a test has nothing to say.

mod attribute_edit;
mod cache;
mod checkpoint_switch;
mod common;
mod damaged_cluster;
mod directory_edit;
mod extent_edit;
mod file_contents;
mod group_trees;
mod inode_damage;
mod inode_edit;
mod inode_forms;
mod inode_scan;
mod journal;
mod log_at_mount;
mod lying_extents;
mod names_damage;
mod names_forms;
mod namespace;
mod operations;
mod owners;
mod recovery;
mod serial_waits;
mod tolerant;
mod write_trees;
