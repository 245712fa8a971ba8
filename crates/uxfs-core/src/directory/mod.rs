//! Changing directories: [`edit`]. Reading them is [`uxfs_volume::directory`].

pub mod edit;

pub use uxfs_volume::directory::*;
