//! **Internal: it changes without notice. Programs use the crate `uxfs`.**
//!
//! XFS V5: bytes and their meaning.
//!
//! Every on-disk structure is one `#[repr(C)]` type with big-endian fields, declared together with its field
//! table by [`on_disk!`](crate::field_table). A structure has three kinds of function and they stay apart:
//!
//! * **parse** looks at bytes only: is there room, which variant is it;
//! * **verify** looks at this one block: magic, checksum, owner fields, counts against what the block can hold.
//!   It runs after every read and before every write;
//! * cross-checks against *other* blocks live in the layers above.
//!
//! Nothing here does I/O, keeps time or starts threads. No input can make it panic: arithmetic on values from
//! disk is checked, and slices are taken with `get`.
//!
//! | module | holds |
//! |---|---|
//! | [`units`] | newtypes for every kind of number |
//! | [`convert`] | conversions of numbers that cannot fail |
//! | [`geometry`] | sizes and address conversions of one file system |
//! | [`features`] | feature bits, and the one function that judges them |
//! | [`checksum`] | CRC32C as XFS applies it |
//! | [`edit`] | bytes that are changed, and which of them were |
//! | [`seal`] | checksum and log sequence number of changed metadata |
//! | [`describe`] | any structure as a tree of fields, for `inspect` and the field fuzzer |
//! | [`fault`] | what can be wrong with a structure, and where |
//! | `header_fault`, `structure`, `location` | what every structure needs of that; [`fault`] exports it |
//! | [`field_table`] | the declarative field tables behind `inspect` and the field fuzzer |
//! | [`log`] | log records, operations, transactions and items |
//! | [`superblock`] | the superblock |
//! | `superblock_fault` | its faults |
//! | [`inode`] | inodes: core, forks, times, symbolic links |
//! | [`allocation_group`] | headers of a group: AGF, AGI, AGFL |
//! | [`btree`] | blocks and records of all btrees |
//! | [`name_tree`] | the tree of name hashes below directories and attributes |
//! | [`directory`] | directories in every form, name hashes |
//! | [`attribute`] | extended attributes in every form, parent pointers |
//! | [`quota`] | disk quota records |
//! | [`realtime`] | the realtime section: recognised, not read |
//! | [`verify`] | from a kind of structure to its verifier |
//! | `verify_context` | what a verifier knows beside the bytes |
//! | `layout_checks` | sizes and offsets of all structures, asserted |
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![deny(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::as_conversions))]

pub mod allocation_group;
pub mod attribute;
pub mod btree;
pub mod checksum;
pub mod convert;
pub mod describe;
pub mod directory;
pub mod edit;
pub mod fault;
pub mod features;
pub mod field_table;
pub mod geometry;
mod header_fault;
pub mod inode;
mod layout_checks;
mod location;
pub mod log;
pub mod name_tree;
pub mod quota;
pub mod realtime;
pub mod seal;
mod structure;
pub mod superblock;
mod superblock_fault;
pub mod units;
pub mod verify;
mod verify_context;
