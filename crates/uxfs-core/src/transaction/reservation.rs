//! What each kind of operation may take, asked for before anything changes.
//!
//! A transaction that began can no longer say "no space": what it has changed has no way back. So it asks first, for
//! the most that its kind of operation can take of the two things that run out: free blocks, and room in the log. Each
//! variant names the objects that it may change; what a transaction really used is compared with that.

use uxfs_format::geometry::Geometry;

/// A kind of operation.
#[doc(alias = "xfs_trans_res")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Work that gives space back or must not fail for want of it: freeing blocks, unlinked inodes, recovery. No blocks.
    Release,
    /// A new inode with or without a name: the inode, a chunk of new inodes with its records, a name in the parent.
    Create {
        /// Of the target of a symbolic link; 0 for other files.
        target_bytes: u32,
    },
    /// A further name: a name in the parent, a parent pointer in the inode.
    Link,
    /// One name less: the parent, the inode, its parent pointer, the list of inodes without names.
    Remove,
    /// Another name: two directories, up to five inodes, three parent pointers.
    Rename,
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

impl Operation {
    /// The most free blocks that it can take.
    pub fn blocks(self, geometry: &Geometry) -> u64 {
        // A name can split every level of the tree of names and make a block of data and one of the free index; each of
        // these blocks may need a new block in every level of the extent map. Inode chunks are counted as they come.
        let extent_map = 8;
        let directory = (1 << geometry.directory_block_log) * (7 + extent_map);
        let attribute = 6 + extent_map;
        let chunk_blocks = u64::from(64 / geometry.inodes_per_block().max(1)).max(1);
        let value =
            |bytes: u32| u64::from(bytes).div_ceil(u64::from(geometry.block_size_bytes).saturating_sub(56));
        match self {
            Self::Release | Self::SetAttributes => 0,
            Self::Create { target_bytes } => chunk_blocks + 6 + directory + attribute + value(target_bytes),
            Self::Link => directory + attribute,
            // Freeing a block in the middle of an extent may split the extent map.
            Self::Remove => extent_map,
            Self::Rename => 2 * directory + 3 * attribute,
            Self::SetXattr { value_bytes } => attribute + value(value_bytes) + extent_map,
            Self::Allocate { blocks } => blocks + 2 * extent_map,
            Self::Remap => 2 * extent_map,
        }
    }

    /// How many of the blocks that are kept for important operations it leaves: what gives space back may take all, what
    /// finishes something or needs space only in passing half of them, everything else none. So a full file system can
    /// always be made emptier.
    #[doc(alias = "XFS_TRANS_RESERVE")]
    pub fn leaves(self, kept_blocks: u64) -> u64 {
        match self {
            Self::Release | Self::Remove | Self::SetAttributes => 0,
            Self::Rename | Self::Remap | Self::SetXattr { value_bytes: 0 } => kept_blocks / 2,
            Self::Create { .. } | Self::Link | Self::SetXattr { .. } | Self::Allocate { .. } => {
                kept_blocks.max(1)
            }
        }
    }

    /// The most that it takes of the log, in one step.
    pub fn log_bytes(self, geometry: &Geometry) -> u64 {
        let blocks = self.blocks(geometry).clamp(16, 64);
        let value = match self {
            Self::SetXattr { value_bytes } => u64::from(value_bytes),
            _ => 0,
        };
        blocks * u64::from(geometry.block_size_bytes) + 64 * 1024 + value
    }
}
