//! An XFS V5 file system as an object: [`FileSystem`](filesystem::FileSystem), usable from many threads.
//!
//! | module | holds |
//! |---|---|
//! | [`error`], `errno` | the four families of error, and their numbers in Linux |
//! | [`mount`] | from a device to a file system |
//! | [`filesystem`] | the file system object; verified reads of metadata |
//! | [`identity`] | label and uuid |
//! | [`btree`] | reading any btree |
//! | [`allocation_group`] | headers and trees of a group |
//! | [`inode`] | inodes in memory |
//! | [`inspect`] | structures as they lie on disk, damaged or not |
//! | [`extent_map`] | where the contents of a fork lie |
//! | [`file_data`] | the contents of regular files, read |
//! | [`mod@file`] | the contents of regular files, changed |
//! | [`symlink`] | targets of symbolic links |
//! | `name_tree` | the btree of name hashes that directories and attributes share |
//! | [`directory`] | finding names and reading all of them |
//! | [`attribute`] | extended attributes, access control lists |
//! | [`parent_pointer`] | from an inode to its names and paths |
//! | [`transaction`] | changing all of this |
//! | [`recovery`] | what a dirty log asks for |
//! | `opening` | what is looked at before the first change |
//! | [`operations`] | from a path to an inode |
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod file;
pub mod filesystem;
pub mod identity;
pub mod inode;
pub mod mount;
mod opening;
pub mod operations;
pub mod recovery;
