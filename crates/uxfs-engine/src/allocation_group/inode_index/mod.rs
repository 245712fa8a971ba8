//! Inode chunks of a group: reading them here, changing them in [`edit`].

pub mod current;
pub mod edit;
mod unused;
