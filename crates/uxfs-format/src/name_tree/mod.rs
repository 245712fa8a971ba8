//! The tree of name hashes that directories and attributes share ("da btree"): its block header and its interior
//! nodes. The leaves differ and lie with their owners, [`directory`](crate::directory) and
//! [`attribute`](crate::attribute).
//!
//! | module | holds |
//! |---|---|
//! | [`header`] | the header of nodes and leaves |
//! | [`header_edit`] | making blocks; their neighbours |
//! | [`node`] | interior blocks |
//! | [`node_edit`] | changing interior blocks |
//! | [`entry_array`] | entries of 8 bytes behind a header, as nodes and leaves of directories have them |
//! | [`fault`] | what can be wrong between blocks |

pub mod entry_array;
pub mod fault;
#[cfg(test)]
pub(crate) mod golden;
pub mod header;
pub mod header_edit;
pub mod node;
pub mod node_edit;

use crate::{geometry::Geometry, units::FileBlock};

/// Levels above the leaves: a root may have at most this level.
#[doc(alias = "XFS_DA_NODE_MAXDEPTH")]
pub const MAX_LEVEL: u16 = 5;

/// The kind of tree of a block. Interior blocks look alike; their size and the room for children differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TreeKind {
    /// Names of a directory: directory blocks in the leaf space.
    Directory,
    /// Attributes of an inode: file system blocks, the root is block 0.
    Attribute,
}

impl TreeKind {
    /// Bytes in a block of the tree.
    #[inline]
    pub const fn block_size_bytes(self, geometry: &Geometry) -> u32 {
        match self {
            Self::Directory => geometry.directory_block_size_bytes,
            Self::Attribute => geometry.block_size_bytes,
        }
    }

    /// Where the root lies.
    #[inline]
    pub fn root(self, geometry: &Geometry) -> FileBlock {
        match self {
            Self::Directory => geometry.directory_leaf_start(),
            Self::Attribute => FileBlock::new(0),
        }
    }

    /// Blocks of an attribute tree lie before this file block. Interior blocks of both kinds look alike, and only the places of
    /// their children tell which they are ([`structure_of`](crate::seal::structure_of)): those of directories begin here.
    pub fn attribute_end(geometry: &Geometry) -> u64 {
        geometry.directory_leaf_start().get()
    }

    /// Whether a block other than the root may lie at `block` of the fork.
    pub fn may_hold(self, geometry: &Geometry, block: FileBlock) -> bool {
        let root = self.root(geometry);
        let Some(distance) = block.checked_distance_from(root) else { return false };
        if distance == 0 {
            return false;
        }
        match self {
            Self::Directory => {
                let mask = u64::from(geometry.blocks_per_directory_block()).wrapping_sub(1);
                block < geometry.directory_free_start() && distance & mask == 0
            }
            Self::Attribute => block.get() < Self::attribute_end(geometry),
        }
    }
}

#[cfg(test)]
mod name_tests;
