//! All integration tests of `uxfs-mkfs` in one program, so that they share what one of them unpacked or made.
#![allow(clippy::unwrap_used)] // Without its image a test has nothing to say.

mod common;
mod hostile;
mod image_against_mkfs;
mod images_in_linux;
mod layout_against_mkfs;
