//! All integration tests of `uxfs-fuse` in one program, so that they share what one of them unpacked or made.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // Without its image a test has nothing to say.

mod mounting;
mod served;
