//! What a finding means to the owner of the file system.

use super::Finding;

/// How bad a finding is, the least first. Programs may rely on the order and on [`name`](Self::name).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Left over from work that was cut off: only space is wasted.
    Leftover,
    /// A fact that follows from others is recorded wrongly. Nothing is lost yet; changing the file system may make it worse.
    Inconsistent,
    /// Something cannot be read, or two witnesses of names or contents contradict each other: files, names or attributes may be lost.
    Damaged,
}

impl Severity {
    /// One word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leftover => "leftover",
            Self::Inconsistent => "inconsistent",
            Self::Damaged => "damaged",
        }
    }
}

impl Finding {
    /// How bad it is.
    pub fn severity(&self) -> Severity {
        match self {
            Self::CowStaging { .. } | Self::Unlinked { .. } | Self::AttributeIncomplete { .. } => {
                Severity::Leftover
            }
            Self::SuperblockCopy { .. }
            | Self::SuperblockCount { .. }
            | Self::GroupCount { .. }
            | Self::BtreeKey { .. }
            | Self::BtreeFill { .. }
            | Self::FreeExtent { .. }
            | Self::InodeChunk { .. }
            | Self::UnlinkedTwice { .. }
            | Self::UnlinkedFree { .. }
            | Self::NotUnlinked { .. }
            | Self::NextUnlinked { .. }
            | Self::BlocksUnused { .. }
            | Self::ReferenceCount { .. }
            | Self::SpaceSum { .. }
            | Self::MappingWithoutOwner { .. }
            | Self::MappingMissing { .. }
            | Self::InodeBlocks { .. }
            | Self::SizeOfSpecialFile { .. }
            | Self::EntryFileType { .. }
            | Self::Dot { .. }
            | Self::DotDot { .. }
            | Self::EntryNotIndexed { .. }
            | Self::IndexEntry { .. }
            | Self::FreeIndex { .. }
            | Self::NodeHash { .. }
            | Self::FreeInode { .. }
            | Self::InodeFlags { .. }
            | Self::InodeTime { .. }
            | Self::UnwrittenExtent { .. }
            | Self::SuperblockFields { .. }
            | Self::SymlinkBlocks { .. }
            | Self::QuotaCount { .. }
            | Self::SharedWithoutFlag { .. }
            | Self::InodeAheadOfLog { .. }
            | Self::DirectorySize { .. }
            | Self::QuotaRecordMissing { .. }
            | Self::LinkCount { .. } => Severity::Inconsistent,
            Self::Damaged { .. }
            | Self::Unreadable { .. }
            | Self::NotChecked { .. }
            | Self::Opening { .. }
            | Self::NotKept { .. }
            | Self::NotCompared { .. }
            | Self::LogNotReplayed { .. }
            | Self::UnreadInodes { .. }
            | Self::OlderThanLog { .. }
            | Self::UncheckedGroups { .. }
            | Self::FreeInodeInUse { .. }
            | Self::UnlinkedWithLinks { .. }
            | Self::FreeBlocksInUse { .. }
            | Self::BlocksUsedTwice { .. }
            | Self::ExtentOverlap { .. }
            | Self::InternalInodeMissing { .. }
            | Self::QuotaInode { .. }
            | Self::AttributeTwice { .. }
            | Self::AttributeValueShared { .. }
            | Self::EntryOfFreeInode { .. }
            | Self::NameTwice { .. }
            | Self::ParentPointerMissing { .. }
            | Self::ParentPointerWithoutEntry { .. }
            | Self::DirectoryNamedTwice { .. }
            | Self::NoName { .. }
            | Self::Cycle { .. } => Severity::Damaged,
        }
    }
}
