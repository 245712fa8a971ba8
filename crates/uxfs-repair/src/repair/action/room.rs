//! What a change is about: the only list of all kinds of change.
//!
//! Sentences, descriptions and alternatives are divided by these rooms. A new variant of [`Action`] does not compile until it has a room here
//! and a certainty; a test of this file fails until the functions for its room have a sentence and a description of it.

use super::Action;

macro_rules! rooms {
    ($($(#[$about:meta])* $room:ident: $($variant:ident),+;)+) => {
        /// What a change is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Room {
            $($(#[$about])* $room,)+
        }

        impl Action {
            /// What the change is about.
            pub(super) const fn room(&self) -> Room {
                match self {
                    $($(Self::$variant { .. })|+ => Room::$room,)+
                }
            }

            /// The variants by name.
            #[cfg(test)]
            const VARIANTS: &[&str] = &[$($(stringify!($variant),)+)+];
        }
    };
}

rooms! {
    /// Superblocks, the log, groups.
    FileSystem: PrimarySuperblock, SuperblockFromLog, SuperblockInferred, SuperblockFields, SuperblockAttributes, SuperblockByCopies, SuperblockLog, SuperblockRoot, SuperblockCopy, Counters,
        LogReplayed, LogReplayedInPart, LsnCleared, NewLog, Group, InodeChunk;
    /// Structures with a checksum, mostly blocks of files.
    Block: BitFlippedBack, ProvedByChecksum, BlockFromLog, BlockMoved, OlderKept, BlockField, BlockChecksum;
    /// Whole inodes.
    Inode: InodePerhapsOlder, InodeChecksum, InodeRebuilt, InodeLost, FreeInode, FilePartial, SymlinkLost, RealtimeInode, UnlinkedFreed;
    /// Fields of inodes.
    InodeField: InodeMended, InodeUnproved, InodeFlags, InodeTimes, BigTimes, InodeLsn, InodeShares, DirectorySize, SymlinkSize, SizeOfSpecialFile, InodeBlocks,
        LinkCount, MetadataFlags;
    /// Extent maps and attributes.
    Fork: ExtentMap, ExtentMapOverruled, ExtentMapKept, BlocksGivenUp, SymlinkBlocks, ExtentsWritten, ExtentsUnwritten, Attributes, AccessList;
    /// Directories, names, parent pointers.
    Name: Directory, NameRemoved, NameAdded, NameFromBlock, LostAndFound, ParentPointerSet, ParentPointerRemoved;
    /// Quotas.
    Quota: QuotaRecord, QuotaCounts, QuotaInodeSize, QuotaInode;
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
