//! What commands may take of memory. In a program of its own that stays small: the kernel counts what a process has taken from the memory of
//! the one that started it.
#![allow(clippy::indexing_slicing, clippy::unwrap_used)] // Without its image a test has nothing to say.

mod check;
#[path = "../common/mod.rs"]
#[allow(dead_code)] // The other program uses all of it.
mod common;
mod deep;
mod limits;
mod log;
