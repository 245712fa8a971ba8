//! Changing where the contents of a fork lie: [`edit`]. Reading it is [`uxfs_volume::extent_map`].

pub mod edit;

pub use uxfs_volume::extent_map::*;
