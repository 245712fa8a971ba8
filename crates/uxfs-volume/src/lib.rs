//! **Internal: it changes without notice. Programs use the crate `uxfs`.**
//!
//! Reading an XFS V5 file system: a [`Volume`](volume::Volume) is a device with a geometry and a cache of verified metadata,
//! usable from many threads. It knows neither transactions nor open files.
//!
//! | module | holds |
//! |---|---|
//! | [`error`] | the four families of error, for all layers from here up |
//! | `errno` | the numbers by which Linux tells of them |
//! | [`cause`] | the last error within a transaction |
//! | [`superblock`] | reading and judging the superblock |
//! | [`volume`] | [`Volume`](volume::Volume): verified reads of metadata |
//! | [`tolerant`] | opening a damaged image; what was left out |
//! | [`metadata_reader`] | verified metadata by its place on the device |
//! | [`damaged_blocks`] | blocks that did not pass their verifier, remembered during a check |
//! | [`metadata`] | the verifiers that the buffer cache calls |
//! | [`btree`] | reading any btree |
//! | [`allocation_group`] | headers and trees of an allocation group |
//! | [`inode`] | decoded inodes; the bulk scan |
//! | [`extent_map`] | where the contents of a fork lie |
//! | [`file_data`] | the contents of regular files |
//! | [`symlink`] | targets of symbolic links |
//! | [`name_tree`] | the trees of name hashes that directories and attributes have |
//! | [`directory`] | finding names and reading all of them |
//! | [`attribute`] | extended attributes, access control lists |
//! | [`parent_pointer`] | from an inode to its names and paths |
//! | [`resolve`] | from a path to an inode |
//! | [`inspect`] | structures as they lie on disk, damaged or not |
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod allocation_group;
pub mod attribute;
pub mod btree;
pub mod cause;
pub mod damaged_blocks;
pub mod directory;
mod errno;
pub mod error;
pub mod extent_map;
pub mod file_data;
pub mod inode;
pub mod inspect;
pub mod metadata;
pub mod metadata_reader;
pub mod name_tree;
pub mod parent_pointer;
pub mod resolve;
pub mod superblock;
pub mod symlink;
pub mod tolerant;
pub mod volume;
