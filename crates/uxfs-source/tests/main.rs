//! All integration tests of `uxfs-source` in one program, so that they share what one of them unpacked or made.
#![allow(clippy::unwrap_used)] // Without its image a test has nothing to say.

mod common;
mod containers;
mod directory;
mod ends;
mod hostile;
mod layers;
mod manifest;
mod tar;
