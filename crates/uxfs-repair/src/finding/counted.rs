//! Counters and times that findings name.

use uxfs_format::{
    inode::{InodeCore, timestamp::DiskTimestamp},
    quota::QuotaKind,
};

/// A number that a header holds although it follows from something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GroupCounter {
    /// AGF: free blocks.
    FreeBlocks,
    /// AGF: length of the longest free extent.
    LongestFreeExtent,
    /// AGF: blocks on the free list.
    FreeListBlocks,
    /// AGF: blocks of the free space and reverse mapping btrees without their roots.
    FreeSpaceBtreeBlocks,
    /// AGF: blocks of the reverse mapping btree.
    ReverseMapBlocks,
    /// AGF: blocks of the reference count btree.
    ReferenceCountBlocks,
    /// AGI: inodes.
    Inodes,
    /// AGI: free inodes.
    FreeInodes,
    /// AGI: blocks of the inode btree.
    InodeIndexBlocks,
    /// AGI: blocks of the free inode btree.
    FreeInodeIndexBlocks,
}

/// A counter of the superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SuperblockCounter {
    /// `icount`.
    Inodes,
    /// `ifree`.
    FreeInodes,
    /// `fdblocks`.
    FreeBlocks,
}

/// A count of a quota record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QuotaCounter {
    /// `bcount`.
    Blocks,
    /// `icount`.
    Inodes,
    /// `rtbcount`.
    RealtimeBlocks,
}

/// One of the times of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InodeTime {
    /// Last access.
    Access,
    /// Last change of contents.
    Modification,
    /// Last change of anything.
    Change,
    /// When the inode was made.
    Creation,
}

impl GroupCounter {
    /// The name of the counted objects.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FreeBlocks => "free blocks",
            Self::LongestFreeExtent => "blocks in the longest free extent",
            Self::FreeListBlocks => "blocks on the free list (AGFL)",
            Self::FreeSpaceBtreeBlocks => "blocks of the free space and reverse mapping btrees",
            Self::ReverseMapBlocks => "blocks of the reverse mapping btree",
            Self::ReferenceCountBlocks => "blocks of the reference count btree",
            Self::Inodes => "inodes",
            Self::FreeInodes => "free inodes",
            Self::InodeIndexBlocks => "blocks of the inode btree",
            Self::FreeInodeIndexBlocks => "blocks of the free inode btree",
        }
    }
}

impl SuperblockCounter {
    /// The name of the counted objects.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inodes => "inodes",
            Self::FreeInodes => "free inodes",
            Self::FreeBlocks => "free blocks",
        }
    }
}

impl QuotaCounter {
    /// The name of the counted objects.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Inodes => "inodes",
            Self::RealtimeBlocks => "realtime blocks",
        }
    }
}

/// A count of a quota record that is not what the inodes of its owner use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongQuotaCount {
    /// Which quota.
    pub quota: QuotaKind,
    /// The user, group or project.
    pub id: u32,
    /// Which count.
    pub counter: QuotaCounter,
    /// In the record.
    pub found: u64,
    /// In all inodes of the owner.
    pub expected: u64,
}

/// A file of a realtime group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingRealtimeFile {
    /// The realtime group.
    pub group: u32,
    /// What its name ends with, behind the number of the group and a dot.
    pub suffix: &'static str,
}

/// What the inodes of an owner use that has no quota record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingQuotaRecord {
    /// Which quota.
    pub quota: QuotaKind,
    /// The user, group or project.
    pub id: u32,
    /// Blocks that its inodes use.
    pub blocks: u64,
    /// How many inodes.
    pub inodes: u64,
    /// Blocks of the realtime section that its inodes use.
    pub realtime_blocks: u64,
}

impl InodeTime {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Modification => "modification",
            Self::Change => "change",
            Self::Creation => "creation",
        }
    }

    /// Its place in an inode.
    pub(crate) fn of_mut(self, core: &mut InodeCore) -> &mut DiskTimestamp {
        match self {
            Self::Access => &mut core.access_time,
            Self::Modification => &mut core.modification_time,
            Self::Change => &mut core.change_time,
            Self::Creation => &mut core.creation_time,
        }
    }
}
