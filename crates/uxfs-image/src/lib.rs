//! **Internal: it changes without notice. Programs use the crate `uxfs`.**
//!
//! Image files that do not hold the bytes of a disk as they are: compressed ones, and qcow2.
//!
//! Each is read as a [`BlockDevice`](uxfs_block::device::BlockDevice). Where the form lets a reader begin at many places only those pieces
//! are decompressed that are read. Every number in these files may lie: what is read, kept and decompressed at once is bounded, and only an
//! error comes of it.
//!
//! | module | holds |
//! |---|---|
//! | [`form`] | which form a file has, by its first bytes |
//! | [`mod@open`] | from a file of any form to a device |
//! | `pieces` | compressed files that can be read from many places |
//! | [`stream`] | compressed files that are read from their beginning, and unpacked |
//! | [`qcow2`] | disks of virtual machines |
//! | [`error`] | why an image cannot be read |
//! | `read_only` | what devices do that cannot be changed |
//! | `packed_reader` | a part of the file as a stream |
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod error;
pub mod form;
pub mod open;
mod packed_reader;
mod pieces;
pub mod qcow2;
mod read_only;
pub mod stream;
