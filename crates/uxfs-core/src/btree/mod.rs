//! Changing btrees: [`edit`]. Reading them is [`uxfs_volume::btree`].

pub mod edit;

pub use uxfs_volume::btree::*;
