//! Inodes that are open: [`table`].

pub mod table;
