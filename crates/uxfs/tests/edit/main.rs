//! Images changed by the editing commands and the shell: judged by the same commands of coreutils on a kernel mount, by
//! `xfs_repair`, and by what a killed shell leaves.
#![allow(clippy::unwrap_used)] // Without its image or the command a test has nothing to say.

#[path = "../common/mod.rs"]
mod common;

mod admin;
mod commands;
mod damaged;
mod differential;
mod durability;
mod lies;
mod looking;
mod opening;
mod script;
mod untouched;
