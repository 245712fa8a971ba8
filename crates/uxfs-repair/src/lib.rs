//! **Internal: it changes without notice. Programs use the crate `uxfs`.**
//!
//! The check of a whole file system, and its repair. The check: every structure is compared with every other that says the same thing. It runs on a
//! [`Volume`](uxfs_volume::volume::Volume), opened strictly or tolerantly; each contradiction is a [`Finding`].
//!
//! The check of an object and its rebuilding share a folder.
//!
//! ```text
//! superblock copies ─▶ groups (headers, free space, inode index, reverse map, reference counts) ─▶ inodes and extent maps
//!     ─▶ block use and reverse map, exactly where sums differ ─▶ directories and attributes ─▶ links ─▶ parent pointers,
//!     exactly where sums differ ─▶ counters
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`check`](mod@check) | [`check()`]: the passes in their order, options, summary |
//! | [`finding`] | [`Finding`]: a typed fault |
//! | [`opening`] | opening an image, damaged or not, with its log recovered in an overlay |
//! | [`sink`] | where findings go |
//! | [`commit`] | carrying finished changes to the device, durably, and taking them back |
//! | [`memory`] | shares of the memory of a check |
//! | [`lost_writes`] | metadata that is older than its last change in the log |
//! | [`pass`] | which passes can find what |
//! | `parallel` | work in parts, from several threads, with results in one order |
//! | `sum` | keyed sums that compare two unordered lists in 16 bytes |
//! | `observed` | what one pass leaves for the next: sums by group, a few bytes for each inode |
//! | [`new_log`] | a new, clean log |
//! | [`repair`](mod@repair) | the repair: passes of checking and rebuilding, in an overlay |
//! | `btree` | any btree, block by block; a sound btree from sorted records |
//! | [`geometry`] | the geometry of a file system without any superblock |
//! | `superblock` | the copies of the superblock |
//! | `allocation_group` | the headers of a group and what they count |
//! | `free_space` | both free space btrees |
//! | `inode_index` | inode chunks, and free inodes |
//! | `reverse_map` | the owner of each block |
//! | `reference_count` | shared blocks |
//! | `block_use` | each block is free or used, and used as often as its reference count says |
//! | `metadata_directory` | the tree of files of the file system itself |
//! | `unlinked` | lists of unlinked inodes |
//! | `inode` | each inode in use |
//! | `extent_map` | the extents of each fork |
//! | `name_tree` | the btrees of name hashes that directories and attributes have |
//! | `names` | the tree of names, from directory entries and parent pointers |
//! | `directory` | entries, their index, their free index |
//! | `attribute` | extended attributes |
//! | `symlink` | targets of symbolic links |
//! | `parent_pointer` | parent pointers beside directory entries |
//! | `links` | link counts, and directories that the root does not lead to |
//! | `counters` | the counters of the superblock |
//! | `quota` | quota records beside what inodes use |
//!
//! Invariants:
//! 1. A check writes nothing; only [`commit`] writes to a device.
//! 2. No fault ends a pass where the next structure can still be reached; a fault is reported once, by the pass that reads the
//!    structure, and passes after it report no consequences of what could not be read.
//! 3. The memory of a check is bounded by [`memory`], whatever the image says: 5.3 bytes for each inode that the index names (10 million inodes:
//!    53 MB), 80 bytes for each allocation group, 64 KiB for each thread. Extents, names and entries are not kept: two lists that
//!    must agree are compared by sums, and only where the sums differ the lists themselves are. What does not fit goes to temporary
//!    files.
//! 4. On a volume that is read from one thread, findings come in the same order every time.
//!
//! Not compared yet: realtime structures.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod allocation_group;
mod attribute;
mod block_use;
mod btree;
pub mod check;
pub mod commit;
mod counters;
mod directory;
mod extent_map;
pub mod finding;
mod free_space;
pub mod geometry;
mod inode;
mod inode_index;
mod links;
pub mod lost_writes;
pub mod memory;
mod metadata_directory;
mod name_tree;
mod names;
pub mod new_log;
mod observed;
pub mod opening;
mod parallel;
mod parent_pointer;
pub mod pass;
mod quota;
mod reference_count;
pub mod repair;
mod reverse_map;
pub mod sink;
mod sum;
mod superblock;
mod symlink;
mod unlinked;

pub use check::{CheckOptions, CheckSummary, Watch, check, check_watched, check_with_progress};
pub use finding::Finding;
pub use observed::block_kinds::{BlockKind, SeeBlocks};
