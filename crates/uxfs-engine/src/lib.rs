//! **Internal: it changes without notice. Programs use the crate `uxfs`.**
//!
//! Changing an XFS V5 file system: an [`Engine`](engine::Engine) is a volume that can be changed, by
//! [`Transaction`](transaction::Transaction)s, from many threads. It knows neither open files nor POSIX.
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | [`Engine`](engine::Engine): groups, counters, the journal |
//! | [`options`] | how to open one |
//! | [`transaction`] | changes that belong together, reservations, deferred work |
//! | [`allocation_group`] | headers and trees of a group: free space, inode chunks, owners, shared extents |
//! | [`btree`] | changing any btree |
//! | [`inode`] | inodes that are changed: loading and storing, making and freeing |
//! | [`extent_map`] | changing where the contents of a fork lie |
//! | [`name_tree`] | changing the trees of name hashes that directories and attributes have |
//! | [`directory`] | adding, removing and replacing names |
//! | [`attribute`] | setting and removing attributes, access control lists |
//! | [`parent_pointer`] | giving an inode a parent pointer, taking it away |
//! | [`symlink`] | what a symbolic link says |
//! | [`bulk`] | new files and names while an image is filled |
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod allocation_group;
pub mod attribute;
pub mod btree;
pub mod bulk;
pub mod directory;
pub mod engine;
pub mod extent_map;
pub mod inode;
pub mod name_tree;
pub mod options;
pub mod parent_pointer;
pub mod symlink;
pub mod transaction;
