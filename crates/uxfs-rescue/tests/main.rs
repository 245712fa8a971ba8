//! All integration tests of `uxfs-rescue` in one program, so that they share what one of them unpacked or made.
#![allow(clippy::indexing_slicing, clippy::unwrap_used)] // Without its image a test has nothing to say.

mod common;
mod golden;
mod log;
mod strays;
