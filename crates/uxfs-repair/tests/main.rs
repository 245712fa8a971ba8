//! All integration tests of `uxfs-repair` in one program, so that they share what one of them unpacked or made.
#![allow(clippy::unwrap_used)] // Without its image a test has nothing to say.

mod bit_flips;
mod chosen_superblock;
mod common;
mod contradicted_maps;
mod damaged;
mod dirty_and_damaged;
mod fields;
mod geometry;
mod hidden_marks;
mod inode_blocks;
mod inode_copies;
mod lost_and_found;
mod lost_clusters;
mod lost_headers;
mod lost_writes;
mod metadata_directory;
mod other_owners;
mod planted;
mod quota;
mod repaired;
mod sound;
mod superblock_lies;
mod threads;
mod unproved;
mod what_is_written;
