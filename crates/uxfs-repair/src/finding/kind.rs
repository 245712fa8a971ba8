//! The only list of all kinds of finding: permanent numbers, severities and meanings; the kind of an error.

use uxfs_volume::error::Error;

use super::{Finding, severity::Severity};

macro_rules! kinds {
    ($($kind:ident = $number:literal, $severity:ident, $meaning:literal;)*) => {
        impl Finding {
            /// The numbers of all kinds of finding.
            pub const NUMBERS: &[u16] = &[$($number),*];

            /// A number that stays with the kind of finding for good.
            pub fn number(&self) -> u16 {
                match self {
                    $(Self::$kind { .. } => $number,)*
                }
            }

            /// What a kind of finding means, as a clause; `None` where no kind has this number.
            pub fn meaning_of(number: u16) -> Option<&'static str> {
                match number {
                    $($number => Some($meaning),)*
                    _ => None,
                }
            }

            /// How bad a kind of finding is; `None` where no kind has this number.
            pub fn severity_of(number: u16) -> Option<Severity> {
                match number {
                    $($number => Some(Severity::$severity),)*
                    _ => None,
                }
            }

            /// How bad it is.
            pub fn severity(&self) -> Severity {
                match self {
                    $(Self::$kind { .. } => Severity::$severity,)*
                }
            }
        }
    };
}

kinds! {
    Damaged = 1, Damaged, "a structure fails its verifier, or is not what the pointer to it says";
    Unreadable = 2, Damaged, "the device failed";
    NotChecked = 3, Damaged, "something could not be looked at: it is not supported";
    UnreadInodes = 4, Damaged, "inodes could not be read";
    UncheckedGroups = 5, Damaged, "allocation groups were not looked at, since too many others are damaged";
    Opening = 6, Damaged, "opening passed over a fault: the first superblock, `NEEDSREPAIR`, a device that is too short, a root directory that is not named";
    NotKept = 7, Damaged, "more faults than are kept were passed over";
    LogNotReplayed = 8, Damaged, "the log is dirty and could not be recovered";
    LogUnwritten = 9, Inconsistent, "the log is all zeros";
    SuperblockCopy = 10, Inconsistent, "a copy of the superblock describes another geometry";
    SuperblockCount = 11, Inconsistent, "a counter of the superblock is wrong";
    InternalInodeMissing = 12, Damaged, "an inode that the superblock names is not in use";
    GroupCount = 20, Inconsistent, "a counter of a group header (AGF, AGI) is wrong";
    BtreeKey = 21, Inconsistent, "a key of a btree node is not that of its child";
    FreeExtent = 22, Inconsistent, "a free extent is in one of the two free space btrees only";
    InodeChunk = 23, Inconsistent, "the inode btree and the free inode btree contradict each other";
    FreeInodeInUse = 24, Damaged, "an inode is in use, and the inode btree says that it is free";
    Unlinked = 25, Leftover, "an unlinked list holds an inode";
    UnlinkedTwice = 26, Inconsistent, "an unlinked list leads to an inode a second time";
    UnlinkedWithLinks = 27, Damaged, "an unlinked list holds an inode that has links";
    UnlinkedFree = 28, Inconsistent, "an unlinked list leads to an inode that is not in use";
    NotUnlinked = 29, Inconsistent, "an inode without links is in no unlinked list";
    FreeBlocksInUse = 30, Damaged, "blocks are free and in use";
    BlocksUsedTwice = 31, Damaged, "blocks are used twice and may not be";
    BlocksUnused = 32, Inconsistent, "blocks are neither free nor in use";
    ReferenceCount = 33, Inconsistent, "a reference count is wrong";
    CowStaging = 34, Leftover, "blocks are set aside for a copy on write that will not be finished";
    SpaceSum = 35, Inconsistent, "the blocks of a group do not add up, and the temporary file to say where failed";
    MappingWithoutOwner = 36, Inconsistent, "the reverse map names an owner that does not have the blocks";
    MappingMissing = 37, Inconsistent, "the reverse map lacks an owner";
    InodeChunkMissing = 38, Inconsistent, "a block holds several inode chunks, and the inode btree lacks one of them: Linux makes them together, reads them together, and never frees them";
    InodeBlocks = 40, Inconsistent, "the block count of an inode is wrong";
    SizeOfSpecialFile = 41, Inconsistent, "a special file has a size, or an inode of a realtime section that does not exist";
    ExtentOverlap = 42, Damaged, "an extent overlaps the one before it in the file";
    NextUnlinked = 43, Inconsistent, "an inode in no unlinked list names a next one";
    SharedWithoutFlag = 44, Inconsistent, "a file shares blocks with others and lacks the flag that says so: writing to it would change the others";
    InodeAheadOfLog = 45, Inconsistent, "an inode, in use or free, has a log sequence number ahead of the log: a recovery would pass over it";
    InodeAgainstLog = 46, Damaged, "an inode says something else than its last change in the log, under the same log sequence number: owner, project, mode, flags, size, times, target, device number";
    EntryOfFreeInode = 50, Damaged, "an entry names an inode that is not in use";
    EntryFileType = 51, Inconsistent, "an entry says another file type than the inode";
    Dot = 52, Inconsistent, "`.` of a directory is missing or names something else";
    DotDot = 53, Inconsistent, "`..` of a directory is missing or names something else";
    NameTwice = 54, Damaged, "a name is in a directory twice";
    EntryNotIndexed = 55, Inconsistent, "the index of a directory does not lead to an entry";
    IndexEntry = 56, Inconsistent, "an entry of the index leads to no such name";
    FreeIndex = 57, Inconsistent, "the free index of a directory is wrong about a data block";
    NodeHash = 58, Inconsistent, "a node of name hashes does not say the last hash of its child";
    DirectorySize = 59, Inconsistent, "the size of a directory is not the end of its data";
    AttributeIncomplete = 60, Leftover, "an attribute is only half set";
    ParentPointerMissing = 61, Damaged, "an entry has no parent pointer";
    ParentPointerWithoutEntry = 62, Damaged, "a parent pointer has no entry";
    AttributeTwice = 63, Damaged, "an inode has two attributes with one name";
    AttributeValueShared = 64, Damaged, "two attributes of an inode have their values in the same blocks";
    LinkCount = 70, Inconsistent, "a link count is wrong";
    DirectoryNamedTwice = 71, Damaged, "a directory has two names";
    NoName = 72, Damaged, "an inode in use has no name";
    Cycle = 73, Damaged, "a directory lies below itself";
    FreeInode = 74, Inconsistent, "a free inode fails its verifier: it cannot be allocated";
    InodeFlags = 75, Inconsistent, "an inode has flags that mean nothing, or that do not fit what it is";
    InodeTime = 76, Inconsistent, "a time of an inode has a second of nanoseconds or more";
    UnwrittenExtent = 77, Inconsistent, "a directory or symbolic link has blocks that were never written, or files share such blocks";
    SuperblockFields = 78, Inconsistent, "a superblock has values in fields whose feature it lacks, or that do not fit each other, so that Linux or `xfs_repair` refuses it";
    SymlinkBlocks = 79, Inconsistent, "a symbolic link has more or fewer blocks than its target takes";
    NotCompared = 80, Damaged, "not everything could be compared: the temporary files of what does not fit into memory failed";
    BtreeFill = 81, Inconsistent, "a block of a btree of a group or of an extent map, not the root, has fewer records than it must";
    OlderThanLog = 90, Damaged, "an inode, a block of a file, a header or a btree block of a group is older than its last change in the log: a write was lost; of a group, contents of files may be older as well; or the block of a symbolic link's target has the number of that change and holds something else";
    QuotaCount = 91, Inconsistent, "a count of a quota record is wrong, and the superblock says that counts are complete";
    QuotaRecordMissing = 92, Inconsistent, "a user, group or project has inodes and no quota record, and the superblock says that records are complete";
    QuotaInode = 93, Damaged, "an inode that should hold quota records is no regular file, or has a size";
    MetadataRoot = 94, Damaged, "the inode that the superblock names as the root of the metadata directory tree is no directory with the flag and the type of that tree: Linux does not mount";
    MetadataEntry = 95, Damaged, "an entry leads from the metadata directory tree to a file of users, or from a directory of users into that tree: Linux takes either for damage";
    RealtimeFileMissing = 96, Damaged, "a realtime group has no file of bitmap, summary, owners or reference counts in the metadata directory tree, or another one there: Linux does not mount";
}

impl Finding {
    /// The finding for a reader's error.
    pub fn of_error(error: Error) -> Self {
        match error {
            Error::Corrupt(corruption) => Self::Damaged { corruption },
            Error::Io(error) => Self::Unreadable { error },
            error => Self::NotChecked { error },
        }
    }
}
