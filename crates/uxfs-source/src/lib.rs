//! **Internal: it changes without notice. Programs use the crate `uxfs`.**
//!
//! Trees of files from outside: a directory of the host, archives, manifests.
//!
//! Sources know the host and archives and nothing of any file system's format. Those that are asked directory by
//! directory are a [`TreeSource`](tree::TreeSource), those that tell one file after the other a
//! [`StreamSource`](stream::StreamSource). Both read ahead in threads of their own, within bounds, and tell the same
//! whatever these threads do.
//!
//! | module | holds |
//! |---|---|
//! | [`entry`] | one file as sources describe it |
//! | [`content`] | where its bytes are |
//! | [`tree`], [`stream`] | what sources do |
//! | [`tree_stream`] | a directory as a stream |
//! | [`open`] | any source by its path |
//! | [`directory`] | a directory of the host |
//! | [`tar`] | archives |
//! | [`container`] | images of containers |
//! | [`layers`] | streams as trees, in order and laid over each other |
//! | [`protofile`] | prototype files of mkfs.xfs |
//! | [`labels`] | SELinux labels by path |
//! | [`manifest`] | files that describe files, as sources and as overlays |
//! | [`owner_map`] | other owners |
//! | [`packing`] | packed streams |
//! | [`host_names`] | users and groups of the host |
//! | [`lines`] | lines of text |
//! | [`encoding`] | records of files in few bytes |
//! | [`endless`] | what has no end and holds no archive |
//! | [`path`] | paths that may say anything |
//! | [`error`] | errors and problems |
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod container;
pub mod content;
pub mod directory;
mod encoding;
mod endless;
pub mod entry;
pub mod error;
pub mod host_names;
pub mod labels;
pub mod layers;
mod lines;
pub mod manifest;
pub mod open;
pub mod owner_map;
pub mod packing;
mod path;
pub mod protofile;
pub mod stream;
pub mod tar;
pub mod tree;
pub mod tree_stream;
