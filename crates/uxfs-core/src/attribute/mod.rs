//! Changing extended attributes and access control lists: [`edit`]. Reading them is [`uxfs_volume::attribute`].

pub mod edit;

pub use uxfs_volume::attribute::*;
