//! Inodes that are open: [`table`] keeps them, `open` opens them by number.

mod open;
pub mod table;
