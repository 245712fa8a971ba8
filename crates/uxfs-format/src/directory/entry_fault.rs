//! Directory entries beside the inodes that they name.

use thiserror::Error;

use crate::{inode::FileType, units::InodeNumber};

/// Contradictions between a directory entry and its inode. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EntryFault {
    /// `.` and `..` lie at the beginning of a directory, and nowhere else.
    #[error("an entry for inode {inode} is named {} and is not one of the first two", if *is_parent { "`..`" } else { "`.`" })]
    ReservedName {
        /// The entry's inode.
        inode: InodeNumber,
        /// `..`, not `.`.
        is_parent: bool,
    },
    /// Entries repeat the file type of their inodes.
    #[error("the entry says that inode {inode} is a {expected:?}, and it is a {found:?}")]
    FileType {
        /// The inode.
        inode: InodeNumber,
        /// In the inode.
        found: FileType,
        /// In the entry.
        expected: FileType,
    },
    /// Each entry of an inode has a parent pointer there.
    #[error("inode {inode} has no parent pointer for its entry in directory {directory}")]
    NoParentPointer {
        /// The inode.
        inode: InodeNumber,
        /// The directory.
        directory: InodeNumber,
    },
    /// A parent pointer for an entry that does not exist.
    #[error(
        "inode {inode} has a parent pointer already for an entry that directory {directory} does not have"
    )]
    ParentPointerExists {
        /// The inode.
        inode: InodeNumber,
        /// The directory.
        directory: InodeNumber,
    },
    /// The link count says that the last entry is to go, and parent pointers name others.
    #[error("inode {inode} has a link count of {links} and more parent pointers")]
    MoreParentPointers {
        /// The inode.
        inode: InodeNumber,
        /// In the inode.
        links: u32,
    },
    /// `..` of a directory is the directory with its entry.
    #[error("`..` of directory {inode} is inode {found}, and its entry is in directory {expected}")]
    DotDot {
        /// The directory.
        inode: InodeNumber,
        /// The inode that `..` names.
        found: InodeNumber,
        /// Where the entry is.
        expected: InodeNumber,
    },
    /// `..` leads from each directory to the root.
    #[error("directory {inode} lies above itself: `..` of the directories above it leads back to it")]
    AboveItself {
        /// The directory.
        inode: InodeNumber,
    },
    /// An inode that a directory names has links: directories at least two.
    #[error("inode {inode}, which the directory names, has a link count of {links}")]
    LinkCount {
        /// The inode.
        inode: InodeNumber,
        /// In the inode.
        links: u32,
    },
    /// A directory has a link from each of its subdirectories, and two more.
    #[error("directory {inode} has a link count of {links}, and a subdirectory of it is to go")]
    DirectoryLinks {
        /// The directory.
        inode: InodeNumber,
        /// In the inode.
        links: u32,
    },
}
