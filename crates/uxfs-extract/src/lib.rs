//! **Internal: it changes without notice. Programs use the crate `uxfs`.**
//!
//! Files out of an XFS image, to a directory or a pax archive, without root.
//!
//! A tree is walked in directory order by one thread; workers encode entries and read their data into chunks of about a
//! mebibyte, in any order; the sink takes the chunks in tree order. Chunks are reused, so memory is bounded, and file data
//! is read straight to where the sink takes it.
//!
//! | module | holds |
//! |---|---|
//! | [`entry`] | one file as sinks see it |
//! | [`layout`] | data ranges and holes of a file |
//! | [`chunk`] | bytes on their way to the sink |
//! | [`sink`] | the two halves of a sink |
//! | [`tar`] | the archive |
//! | [`directory`] | the directory, which nothing ever leaves |
//! | [`report`] | counts and problems |
//! | [`walk`] | from the tree to the sink |
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod chunk;
pub mod directory;
pub mod entry;
pub mod layout;
pub mod report;
pub mod sink;
pub mod tar;
pub mod walk;
