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
//! | [`directory`] | a directory of the host |
//! | [`tar`] | archives |
//! | [`packing`] | packed streams |
//! | [`host_names`] | users and groups of the host |
//! | [`path`] | paths that may say anything |
//! | [`error`] | errors and problems |
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod content;
pub mod directory;
pub mod entry;
pub mod error;
mod host_names;
pub mod packing;
mod path;
pub mod stream;
pub mod tar;
pub mod tree;
