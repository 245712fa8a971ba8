//! Allocation groups: headers, free space, inode chunks, owners and shared extents.
//!
//! | module | holds |
//! |---|---|
//! | [`group_edit`] | a group that a transaction holds, to be changed |
//! | [`before_unlinked`] | where unlinked inodes are in their lists |
//! | [`state`] | the headers in memory while the file system is changed |
//! | [`table`] | the states of all groups |
//! | [`trees`] | the trees of a group, to be changed |
//! | [`free_space`] | free extents: reading them, allocating and freeing |
//! | [`inode_index`] | inode chunks; which inodes exist and are in use |
//! | [`ownership`] | whose blocks are, on an image that may be damaged |
//! | [`record_tree`] | what the two below need of a tree that they change |
//! | [`reverse_map`] | the owners of blocks |
//! | [`reference_count`] | shared extents |

pub mod before_unlinked;
pub mod free_space;
pub mod group_edit;
pub mod inode_index;
pub mod ownership;
pub mod record_tree;
pub mod reference_count;
pub mod reverse_map;
pub mod state;
pub(crate) mod table;
pub mod trees;
