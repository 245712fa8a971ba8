//! Kinds of use of blocks, for callers that draw a file system.

use uxfs_format::{
    btree::reverse_map::Owner,
    inode::FileType,
    units::{AgBlock, AgNumber},
};

/// What blocks are used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// Nothing.
    Free,
    /// Superblocks and headers of allocation groups.
    Headers,
    /// The log.
    Log,
    /// Btrees of allocation groups and of extent maps, and the free list.
    Btrees,
    /// Inodes.
    Inodes,
    /// Contents of files, targets of symbolic links.
    Data,
    /// Directories.
    Directories,
    /// Attributes.
    Attributes,
    /// Set aside for a copy on write.
    CopyOnWrite,
}

impl BlockKind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Free,
        Self::Headers,
        Self::Log,
        Self::Btrees,
        Self::Inodes,
        Self::Data,
        Self::Directories,
        Self::Attributes,
        Self::CopyOnWrite,
    ];

    /// Of the extents of a fork.
    pub(crate) fn of_fork(file_type: Option<FileType>, is_attribute_fork: bool) -> Self {
        match file_type {
            _ if is_attribute_fork => Self::Attributes,
            Some(FileType::Directory) => Self::Directories,
            _ => Self::Data,
        }
    }

    /// Of what an allocation group has for itself.
    pub(crate) fn of_owner(owner: Owner) -> Self {
        match owner {
            Owner::GroupHeaders => Self::Headers,
            Owner::Log => Self::Log,
            Owner::InodeChunks => Self::Inodes,
            Owner::CowStaging => Self::CopyOnWrite,
            Owner::Inode(_) => Self::Data,
            _ => Self::Btrees,
        }
    }
}

/// Told blocks as the check comes to them: group, first block, number of blocks. Blocks that are shared or used twice are told each time.
pub type SeeBlocks<'s> = dyn Fn(AgNumber, AgBlock, u32, BlockKind) + Sync + 's;
