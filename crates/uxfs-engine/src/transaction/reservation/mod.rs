//! Reservations of each kind of operation, made before anything changes.
//!
//! A transaction that began can no longer say "no space": what it has changed has no way back. So it asks first, for
//! the most that its kind of operation can take of the two things that run out: free blocks, and room in the log. Each
//! variant names the objects that it may change; what a transaction really used is compared with that. Blocks are counted
//! here, bytes in the log in [`log`].

pub mod log;

use uxfs_format::{
    btree::{
        BtreeKind,
        extent_map::ExtentMap,
        inode_index::InodeIndex,
        levels::{self, ForkRoom},
    },
    geometry::Geometry,
};

use self::log::LogNeeds;

/// A kind of operation.
#[doc(alias = "xfs_trans_res")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Work that gives space back or must not fail for want of it: freeing blocks, unlinked inodes, recovery. No blocks.
    Release,
    /// Freed blocks that come back: so many extents, each into both trees of its group. No blocks.
    CompleteFrees {
        /// How many.
        extents: u32,
    },
    /// A new inode with or without a name: the inode, a chunk of new inodes with its records, a name in the parent.
    Create {
        /// Of the target of a symbolic link; 0 for other files.
        target_bytes: u32,
    },
    /// A further name: a name in the parent, a parent pointer in the inode.
    Link,
    /// As [`Link`](Self::Link), where all goes into blocks that are there.
    LinkInPlace,
    /// One name less: the parent, the inode, its parent pointer, the unlinked list.
    Remove,
    /// Another name: two directories, up to five inodes, three parent pointers.
    Rename,
    /// As [`Rename`](Self::Rename), where all that comes goes into blocks that are there.
    RenameInPlace,
    /// The inode's core alone.
    SetAttributes,
    /// One attribute more, changed or less.
    SetXattr {
        /// Of the value.
        value_bytes: u32,
    },
    /// So many blocks for the contents of a file, and what its extent map takes for them.
    Allocate {
        /// Blocks of data.
        blocks: u64,
    },
    /// Changes of mappings that allocate no data: conversion, sharing, moving, punching of a few extents.
    Remap,
}

/// The worst case of the parts of operations, in blocks. It follows from the geometry alone.
#[doc(alias = "xfs_trans_resv")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// A name that comes into a directory.
    name: u64,
    /// An attribute that comes into an inode, without the blocks of its value.
    attribute: u64,
    /// A chunk of inodes.
    inodes: u64,
    /// One extent that comes into an extent map, or one that is split there.
    extent: u64,
    /// Bytes of a value that one block holds.
    value_bytes_per_block: u64,
    /// Of the log.
    pub log: LogNeeds,
}

/// Levels that a tree of names has at most.
#[doc(alias = "XFS_DA_NODE_MAXDEPTH")]
const NAME_TREE_LEVELS: u64 = 5;
/// Bytes of each of the three spaces of a directory: entries, index, free index.
#[doc(alias = "XFS_DIR2_SPACE_SIZE")]
const DIRECTORY_SPACE_BYTES: u64 = 1 << 35;

impl Needs {
    /// The reservations of operations on a file system.
    pub fn new(geometry: &Geometry) -> Self {
        let block_bytes = geometry.block_size_bytes;
        let per_leaf = u64::from(ExtentMap::min_entries(block_bytes, 0)).max(1);
        // Extents that come to one place of a map split its leaf as often as they fill half of one, and each time every
        // node above; the root goes into a block once.
        let splits = |extents: u64, levels: u64| extents.div_ceil(per_leaf) * levels;
        let levels = |extents| u64::from(levels::for_records::<ExtentMap>(geometry, extents));
        let directory_levels = levels(3 * (DIRECTORY_SPACE_BYTES >> geometry.block_log));
        let directory_block = u64::from(geometry.blocks_per_directory_block());
        // The tree of names splits on every level, entry and free index get a block each. All may be in pieces, and lie
        // in three places of the map.
        let name_map = splits(NAME_TREE_LEVELS * directory_block, directory_levels)
            + 2 * splits(directory_block, directory_levels)
            + 1;
        let name = (NAME_TREE_LEVELS + 2) * directory_block + name_map;
        // A leaf is split into three, every node above into two; what is in the way moves out of the inode: the names
        // of a directory, a target, the root of a btree.
        let attribute_levels = levels(1 << 32);
        let moved = directory_block.max(2) + 1;
        let attribute = NAME_TREE_LEVELS + 1 + splits(NAME_TREE_LEVELS + 1, attribute_levels) + 1 + moved;
        let index_levels = u64::from(InodeIndex::max_levels(geometry));
        Self {
            name,
            attribute,
            // The chunk, and splits of both trees that know it.
            inodes: u64::from(geometry.blocks_per_inode_chunk()) + 2 * index_levels,
            // The map of a file of any size.
            extent: u64::from(levels::of_extent_map(geometry, ForkRoom::Data)),
            value_bytes_per_block: u64::from(block_bytes).saturating_sub(VALUE_HEADER_BYTES).max(1),
            log: LogNeeds::new(geometry),
        }
    }

    fn value(&self, bytes: u32) -> u64 {
        u64::from(bytes).div_ceil(self.value_bytes_per_block)
    }
}

/// Header of each block of a long target or of a large value.
const VALUE_HEADER_BYTES: u64 = 56;

impl Operation {
    /// The most free blocks that it can take.
    pub fn blocks(self, needs: &Needs) -> u64 {
        let Needs { name, attribute, inodes, extent, .. } = *needs;
        match self {
            Self::Release | Self::CompleteFrees { .. } | Self::SetAttributes | Self::LinkInPlace => 0,
            // Inodes, the name, the parent pointer; a target, or the lists and labels that the file begins with.
            Self::Create { target_bytes } => inodes + name + 2 * attribute + needs.value(target_bytes),
            // The name and the parent pointer.
            Self::Link => name + attribute,
            // Freeing a block in the middle of an extent splits it, at each of the three places of a directory's map
            // and in the attribute fork. Where a name comes in place, the old one goes like any other.
            Self::Remove | Self::RenameInPlace => 3 * extent + extent,
            // A name, one that leads elsewhere and may have to leave the inode for it, "..", what is left behind with
            // its inode; parent pointers of what moves, of what it is exchanged with, and of what is left behind.
            Self::Rename => inodes + 2 * name + 3 * attribute,
            Self::SetXattr { value_bytes } => attribute + needs.value(value_bytes) + extent,
            Self::Allocate { blocks } => blocks + 2 * extent,
            Self::Remap => 2 * extent,
        }
    }

    /// How many of the blocks that are kept for important operations it leaves: what gives space back may take all, what
    /// finishes something or needs space only in passing half of them, everything else none. So a full file system can
    /// always be made emptier.
    #[doc(alias = "XFS_TRANS_RESERVE")]
    pub fn leaves(self, kept_blocks: u64) -> u64 {
        match self {
            Self::Release
            | Self::CompleteFrees { .. }
            | Self::Remove
            | Self::LinkInPlace
            | Self::RenameInPlace
            | Self::SetAttributes => 0,
            Self::Rename | Self::Remap => kept_blocks / 2,
            Self::Create { .. } | Self::Link | Self::SetXattr { .. } | Self::Allocate { .. } => {
                kept_blocks.max(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use uxfs_format::superblock::{Copy, Superblock};

    use super::*;

    /// Of the image whose superblock the format's tests have: blocks of 4 KiB.
    #[test]
    fn a_usual_file_system_needs_few_blocks() {
        let bytes = include_bytes!("../../../../uxfs-format/testdata/superblock.bin");
        let (superblock, sector) = Superblock::parse(bytes).unwrap();
        superblock.verify(sector, Copy::Primary).unwrap();
        let needs = Needs::new(&Geometry::new(superblock));
        // Seven blocks of a directory, and three ways of at most five blocks through its map.
        assert!((20..=7 + 3 * 5 + 1).contains(&needs.name), "{needs:?}");
        assert!((6 + 5..=6 + 6 + 1 + 3).contains(&needs.attribute), "{needs:?}");
        assert_eq!(Operation::Release.blocks(&needs), 0);
        assert!(Operation::Create { target_bytes: 0 }.blocks(&needs) < 80);
        assert_eq!(
            Operation::Create { target_bytes: 4041 }.blocks(&needs),
            Operation::Create { target_bytes: 0 }.blocks(&needs) + 2
        );
        // Unlinking takes what linking leaves.
        assert_eq!(Operation::Remove.leaves(100), 0);
        assert_eq!(Operation::Rename.leaves(100), 50);
        assert_eq!(Operation::Link.leaves(100), 100);
        // An empty value takes a name's room like any other.
        assert_eq!(Operation::SetXattr { value_bytes: 0 }.leaves(100), 100);
        // What fits into blocks that are there may leave none.
        assert_eq!(Operation::LinkInPlace.blocks(&needs), 0);
        assert_eq!(Operation::RenameInPlace.blocks(&needs), Operation::Remove.blocks(&needs));
        assert_eq!(Operation::RenameInPlace.leaves(100), 0);
    }
}
