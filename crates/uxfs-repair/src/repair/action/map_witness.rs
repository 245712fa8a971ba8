//! What decides between an extent map and the reverse map.

/// What decides between an extent map and the reverse map. Programs may rely on [`name`](Self::name).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapWitness {
    /// The copy of the inode in the log.
    Log,
    /// The number of blocks that the inode counts.
    BlockCount,
    /// The free space btree.
    FreeSpace,
    /// The free space and the reference counts: how many owners blocks have.
    BlockOwners,
    /// The size of the file.
    Size,
    /// The owners in the headers of the blocks.
    Contents,
    /// The checksum of the inode, which was wrong.
    Checksum,
    /// The log sequence numbers: the inode is older than what contradicts it.
    Age,
}

impl MapWitness {
    /// As a word for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::BlockCount => "block_count",
            Self::FreeSpace => "free_space",
            Self::BlockOwners => "block_owners",
            Self::Size => "size",
            Self::Contents => "contents",
            Self::Checksum => "checksum",
            Self::Age => "age",
        }
    }

    pub(super) const fn subject(self) -> &'static str {
        match self {
            Self::Log => "the copy of the inode in the log",
            Self::BlockCount => "the block count of the inode",
            Self::FreeSpace => "the free space",
            Self::BlockOwners => {
                "the number of owners that the free space and the reference counts give to the blocks"
            }
            Self::Size => "the size of the file",
            Self::Contents => "the contents of the blocks",
            Self::Checksum => "the checksum of the inode",
            Self::Age => "the age of the inode",
        }
    }
}
