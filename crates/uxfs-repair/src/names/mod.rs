//! The tree of names, from directory entries and parent pointers.
//!
//! | module | holds |
//! |---|---|
//! | [`facts`] | what entries, parent pointers and inodes say |
//! | [`table`] | a sorted list of them |
//! | [`gather`] | reading all of it |
//! | [`decide`] | the tree that keeps the most of it |
//! | [`undisputed`] | what of it needs no decision |
//! | [`rejection`] | why a name that some witness says is not in it |
//! | [`strays`] | entries in blocks that no map leads to |
//! | [`lost_and_found`] | the folder of what has no name |
//! | [`mod@write`] | directories, parent pointers and link counts as decided |

pub(crate) mod decide;
pub(crate) mod facts;
pub(crate) mod gather;
mod lost_and_found;
pub(crate) mod rejection;
pub(crate) mod strays;
pub(crate) mod table;
mod undisputed;
pub(crate) mod write;
