//! Giving an inode a parent pointer, and taking it away: [`edit`]. Reading them is [`uxfs_volume::parent_pointer`].

pub mod edit;

pub use uxfs_volume::parent_pointer::*;
