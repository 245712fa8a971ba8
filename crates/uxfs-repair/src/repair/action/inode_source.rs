//! From what an inode was made again.

use uxfs_format::{
    inode::FileType,
    units::{InodeNumber, Sector},
};

/// From what an inode was made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InodeSource {
    /// The newest copy in the log, all of it.
    Log,
    /// The newest copy that can be read in the log. Records that came after it are damaged.
    DamagedLog,
    /// The newest copy in the log, and the reverse map.
    LogAndReverseMap,
    /// The same, and the attributes that lay in the inode are lost.
    LogWithoutAttributes,
    /// The place of another inode, where it was written instead of its own.
    Elsewhere(InodeNumber),
    /// This 512-byte unit of the device: a stretch of it was moved.
    Displaced(Sector),
    /// Its place, which lacks the mode alone. Its type follows from what names it; its permissions are not known.
    Remains,
    /// The entry that names it, and the reverse map: owner, permissions, times and attributes are not known.
    Inferred(Inference),
}

impl InodeSource {
    /// The inode at whose place it lay.
    pub const fn place(self) -> Option<InodeNumber> {
        match self {
            Self::Elsewhere(place) => Some(place),
            _ => None,
        }
    }

    /// Whether the inode is an empty file in place of one with unknown contents.
    pub const fn is_stand_in(self) -> bool {
        matches!(self, Self::Inferred(Inference { has_unknown_contents: true, .. }))
    }
}

/// What was made up for an inode of which nothing is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inference {
    /// Its file type.
    pub file_type: FileType,
    /// What says which type it has.
    pub type_from: TypeSource,
    /// The directory whose owner and times it gets.
    pub owner_from: Option<InodeNumber>,
    /// The size that follows from its blocks.
    pub size_bytes: u64,
    /// A regular file without blocks, unless an intact reverse map proves that it had none.
    pub has_unknown_contents: bool,
}

/// What says which file type an inode had that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TypeSource {
    /// The entry that names it.
    Entry,
    /// Parent pointers that name it: it is a directory.
    ParentPointers,
    /// The magic number of its first block.
    FirstBlock,
    /// It has blocks, and nothing says that it is no regular file.
    Blocks,
}

impl TypeSource {
    /// As a word for programs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::ParentPointers => "parent_pointers",
            Self::FirstBlock => "first_block",
            Self::Blocks => "blocks",
        }
    }
}
