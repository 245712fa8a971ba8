//! Contradictions between the blocks of a directory or of an attribute fork. No block alone shows them.

use thiserror::Error;

use crate::units::{FileBlock, InodeNumber};

/// Contradictions between the blocks of a directory or of an attribute fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NameTreeFault {
    /// A block that something points to is a hole.
    #[error("file block {block} is needed, but is a hole")]
    MissingBlock {
        /// Where it should lie.
        block: FileBlock,
    },
    /// Two blocks of a fork lie in the same place.
    #[error("file block {block} lies where another block of the fork does")]
    SharedBlock {
        /// The second one.
        block: FileBlock,
    },
    /// Directories and attributes have no unwritten extents.
    #[error("file block {block} lies in an unwritten extent")]
    UnwrittenBlock {
        /// Where it lies.
        block: FileBlock,
    },
    /// A child must be one level below its parent.
    #[error("block of level {found} where one of level {expected} belongs")]
    ChildLevel {
        /// On disk.
        found: u16,
        /// By the parent.
        expected: u16,
    },
    /// The root of a tree is of the wrong kind.
    #[error("the root of the tree has the magic number {magic:#x}")]
    Root {
        /// On disk.
        magic: u16,
    },
    /// Neighbours point at each other.
    #[error("the block before is said to be {found}, but was reached from {expected}")]
    NeighbourBack {
        /// On disk.
        found: u32,
        /// Where the reader came from.
        expected: FileBlock,
    },
    /// The block beside another by the nodes above is not the one that it points at.
    #[error("the neighbour is said to be {expected}, the nodes above lead to {found}")]
    Neighbour {
        /// By the nodes.
        found: FileBlock,
        /// On disk.
        expected: FileBlock,
    },
    /// Hashes rise from leaf to leaf.
    #[error("the leaf begins with hash {hash:#x}, smaller than {last:#x} at the end of the one before")]
    LeafOrder {
        /// First hash of the leaf.
        hash: u32,
        /// Last hash of the leaf before.
        last: u32,
    },
    /// More blocks were visited than there are: pointers run in a circle.
    #[error("more than {most} blocks were visited: they point at each other in a circle")]
    TooManyBlocks {
        /// That there can be.
        most: u64,
    },
    /// The values of an inode's attributes take more blocks than the fork has.
    #[error("attribute values take more than the {most} blocks that the fork has")]
    TooManyValueBlocks {
        /// That there are.
        most: u64,
    },
    /// Leaf or free index contradict a data block of a directory.
    #[error(
        "data block {data_block} is said to have {best_bytes} bytes free in one piece (65535: not to exist)"
    )]
    Best {
        /// The data block.
        data_block: u32,
        /// In the index.
        best_bytes: u16,
    },
    /// The size in the inode fits no form of directory.
    #[error("a directory of {size_bytes} bytes without an index")]
    DirectorySize {
        /// In the inode.
        size_bytes: u64,
    },
    /// An entry leads to an inode that is not in use.
    #[error("an entry leads to inode {inode}, which is not in use")]
    UnusedInode {
        /// In the entry.
        inode: InodeNumber,
    },
}
