//! Images changed by the editing commands and the shell: judged by the same commands of coreutils on a kernel mount, by
//! `xfs_repair`, and by what a killed shell leaves.

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
