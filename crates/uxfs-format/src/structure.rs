//! The names of all structures.

/// Which structure is meant, in words for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Structure {
    /// Superblock of a group.
    Superblock,
    /// AGF: free space header of a group.
    FreeSpaceHeader,
    /// AGI: inode header of a group.
    InodeHeader,
    /// AGFL: blocks kept for the group's btrees.
    FreeList,
    /// Block of the free space btree ordered by block.
    FreeSpaceByBlock,
    /// Block of the free space btree ordered by length.
    FreeSpaceByLength,
    /// Block of the inode btree.
    InodeIndex,
    /// Block of the free inode btree.
    FreeInodeIndex,
    /// Block of the reverse mapping btree.
    ReverseMap,
    /// Block of the reference count btree.
    ReferenceCount,
    /// Block of an inode's extent map btree.
    ExtentMap,
    /// One inode.
    Inode,
    /// A buffer of several inodes.
    InodeCluster,
    /// Directory inside its inode.
    DirectoryShortform,
    /// Single-block directory (XDB3).
    DirectoryBlock,
    /// Data block of a larger directory (XDD3).
    DirectoryData,
    /// Either of the two above, by magic number.
    DirectoryAnyData,
    /// The one leaf of a leaf directory, with bests (0x3df1).
    DirectoryLeaf,
    /// Leaf of a node directory (0x3dff).
    DirectoryLeafNode,
    /// Interior block of a node directory (0x3ebe).
    DirectoryNode,
    /// Any of the three above, by magic number.
    DirectoryAnyIndex,
    /// Free index of a node directory (XDF3).
    DirectoryFreeIndex,
    /// Attributes inside their inode.
    AttributeShortform,
    /// Attribute leaf (0x3bee).
    AttributeLeaf,
    /// Interior block of an attribute tree (0x3ebe).
    AttributeNode,
    /// Either of the two above, by magic number.
    AttributeAnyIndex,
    /// Block of a remote attribute value (XARM).
    AttributeRemoteValue,
    /// One parent pointer attribute.
    ParentPointer,
    /// A POSIX access control list.
    AccessControlList,
    /// Block of a long symbolic link (XSLM).
    Symlink,
    /// Symbolic link inside its inode.
    SymlinkLocal,
    /// Disk quota record.
    Quota,
    /// Block of disk quota records.
    QuotaBlock,
    /// Bitmap block of a realtime group.
    RealtimeBitmap,
    /// Summary block of a realtime group.
    RealtimeSummary,
    /// Superblock of the realtime section.
    RealtimeSuperblock,
    /// The log as a whole.
    Log,
    /// One log record.
    LogRecord,
    /// One item of a logged transaction.
    LogItem,
}

impl Structure {
    /// Whether it is a block of a btree of an allocation group: free space, inodes, owners, reference counts.
    pub const fn is_group_btree(self) -> bool {
        matches!(
            self,
            Self::FreeSpaceByBlock
                | Self::FreeSpaceByLength
                | Self::InodeIndex
                | Self::FreeInodeIndex
                | Self::ReverseMap
                | Self::ReferenceCount
        )
    }

    /// Its name, with the kernel's where that is better known.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Superblock => "superblock",
            Self::FreeSpaceHeader => "free space header (AGF)",
            Self::InodeHeader => "inode header (AGI)",
            Self::FreeList => "free list (AGFL)",
            Self::FreeSpaceByBlock => "free space btree by block (bnobt)",
            Self::FreeSpaceByLength => "free space btree by length (cntbt)",
            Self::InodeIndex => "inode btree (inobt)",
            Self::FreeInodeIndex => "free inode btree (finobt)",
            Self::ReverseMap => "reverse mapping btree (rmapbt)",
            Self::ReferenceCount => "reference count btree (refcountbt)",
            Self::ExtentMap => "extent map btree (bmbt)",
            Self::Inode => "inode",
            Self::InodeCluster => "inode cluster",
            Self::DirectoryShortform => "shortform directory",
            Self::DirectoryBlock => "directory block",
            Self::DirectoryData => "directory data block",
            Self::DirectoryAnyData => "directory data block",
            Self::DirectoryLeaf => "directory leaf block",
            Self::DirectoryLeafNode => "directory leaf block",
            Self::DirectoryNode => "directory node block",
            Self::DirectoryAnyIndex => "directory index block",
            Self::DirectoryFreeIndex => "directory free index block",
            Self::AttributeShortform => "shortform attributes",
            Self::AttributeLeaf => "attribute leaf block",
            Self::AttributeNode => "attribute node block",
            Self::AttributeAnyIndex => "attribute index block",
            Self::AttributeRemoteValue => "remote attribute value block",
            Self::ParentPointer => "parent pointer",
            Self::AccessControlList => "access control list",
            Self::Symlink => "remote symbolic link block",
            Self::SymlinkLocal => "symbolic link",
            Self::Quota => "quota record",
            Self::QuotaBlock => "quota block",
            Self::RealtimeBitmap => "realtime bitmap block",
            Self::RealtimeSummary => "realtime summary block",
            Self::RealtimeSuperblock => "realtime superblock",
            Self::Log => "log",
            Self::LogRecord => "log record",
            Self::LogItem => "log item",
        }
    }
}
