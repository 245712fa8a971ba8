//! Why a name that some witness says is not in the tree.

use uxfs_format::units::InodeNumber;

use crate::finding::Name;

/// How much the witnesses of a name say, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// A parent pointer with another generation of the directory.
    OldPointer,
    /// A directory entry alone.
    Entry,
    /// A parent pointer alone.
    Pointer,
    /// A directory entry and a parent pointer.
    Both,
}

impl Strength {
    /// As a word for programs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::OldPointer => "old_parent_pointer",
            Self::Entry => "entry",
            Self::Pointer => "parent_pointer",
            Self::Both => "entry_and_parent_pointer",
        }
    }

    /// As the subject of a sentence.
    pub const fn subject(self) -> &'static str {
        match self {
            Self::OldPointer => "a parent pointer of another generation",
            Self::Entry => "an entry",
            Self::Pointer => "a parent pointer",
            Self::Both => "an entry with its parent pointer",
        }
    }
}

/// Why a name that some witness says is not in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
    /// The directory is gone, and so is its place.
    NoDirectory,
    /// The inode is not in use.
    NoInode,
    /// No file may have this name.
    ImpossibleName,
    /// A root directory has no name.
    OfRoot,
    /// One of both belongs to the metadata directory tree, the other to the tree of users.
    OfOtherTree,
    /// A directory cannot hold itself.
    OfItself,
    /// Something of the file is missing: it lies in `lost+found`.
    Incomplete,
    /// The directory has this name once, for another inode.
    OtherInode {
        /// The inode that has the name.
        kept: InodeNumber,
        /// What says that it has it.
        kept_by: Strength,
        /// What says that the rejected one has it.
        rejected_by: Strength,
    },
    /// The inode has fewer names than witnesses say, and another one is kept.
    OtherName {
        /// The directory of the name that is kept.
        directory: InodeNumber,
        /// The name that is kept.
        name: Name,
        /// What says that it is there.
        kept_by: Strength,
        /// What says that the rejected one is there.
        rejected_by: Strength,
        /// The inode is a directory, which has one name.
        is_directory: bool,
    },
    /// The directory would lie below itself.
    Circle,
}

impl Rejection {
    /// As a word for programs.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::NoDirectory => "no_directory",
            Self::NoInode => "no_inode",
            Self::ImpossibleName => "impossible_name",
            Self::OfRoot => "of_root",
            Self::OfOtherTree => "of_other_tree",
            Self::OfItself => "of_itself",
            Self::Incomplete => "incomplete",
            Self::OtherInode { .. } => "other_inode",
            Self::OtherName { .. } => "other_name",
            Self::Circle => "circle",
        }
    }
}
