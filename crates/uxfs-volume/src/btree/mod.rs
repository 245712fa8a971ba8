//! Reading any btree.
//!
//! | module | holds |
//! |---|---|
//! | `tree` | [`Tree`]: the root of a btree and its owner |
//! | `block` | one block of a tree, read and verified |
//! | `path` | the way from the root to a leaf |
//! | [`cursor`] | [`Cursor`]: a place in a tree; lookups and steps |
//! | [`records`] | [`Records`]: all records in order, with readahead |
//! | [`blocks`] | all blocks, damaged ones passed over |
//!
//! A walk ends on any image. Levels fall by one from parent to child; a leaf reached twice would hold records that lie
//! before those already seen, which is damage; and no seek or walk reads more blocks than there can be.

pub mod block;
pub mod blocks;
pub mod cursor;
pub mod path;
pub mod records;
pub mod tree;

pub(crate) use block::Block;
pub use blocks::BlockEvent;
pub use cursor::Cursor;
pub use records::Records;
pub use tree::Tree;

#[cfg(test)]
mod tests;
