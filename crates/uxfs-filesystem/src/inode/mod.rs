//! Open inodes: [`table`] keeps them, `open` opens them by number.

mod open;
pub mod table;
