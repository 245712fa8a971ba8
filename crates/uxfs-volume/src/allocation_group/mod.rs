//! Allocation groups: headers, free space, inode chunks, owners and shared extents, as they lie on disk.
//!
//! | module | holds |
//! |---|---|
//! | [`reader`] | the views through which a group is read |
//! | [`headers`] | the verified headers of a group, and the blocks on its free list |
//! | [`free_space`] | free extents |
//! | [`damage_limit`] | where a walk over damaged groups ends |
//! | [`inode_index`] | inode chunks; which inodes exist and are in use |
//! | [`reverse_map`] | owners of blocks |
//! | [`reference_count`] | shared extents |

pub mod damage_limit;
pub mod free_space;
pub mod headers;
pub mod inode_index;
pub mod reader;
pub mod reference_count;
pub mod reverse_map;
#[cfg(test)]
mod tests;
