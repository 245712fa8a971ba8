//! The only list of all kinds of finding: permanent numbers and severities; the kind of an error.

use uxfs_volume::error::Error;

use super::{Finding, severity::Severity};

macro_rules! kinds {
    ($($kind:ident = $number:literal, $severity:ident;)*) => {
        impl Finding {
            /// The numbers of all kinds of finding.
            pub const NUMBERS: &[u16] = &[$($number),*];

            /// A number that stays with the kind of finding for good.
            pub fn number(&self) -> u16 {
                match self {
                    $(Self::$kind { .. } => $number,)*
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
    Damaged = 1, Damaged;
    Unreadable = 2, Damaged;
    NotChecked = 3, Damaged;
    UnreadInodes = 4, Damaged;
    UncheckedGroups = 5, Damaged;
    Opening = 6, Damaged;
    NotKept = 7, Damaged;
    LogNotReplayed = 8, Damaged;
    LogUnwritten = 9, Inconsistent;
    SuperblockCopy = 10, Inconsistent;
    SuperblockCount = 11, Inconsistent;
    InternalInodeMissing = 12, Damaged;
    GroupCount = 20, Inconsistent;
    BtreeKey = 21, Inconsistent;
    FreeExtent = 22, Inconsistent;
    InodeChunk = 23, Inconsistent;
    FreeInodeInUse = 24, Damaged;
    Unlinked = 25, Leftover;
    UnlinkedTwice = 26, Inconsistent;
    UnlinkedWithLinks = 27, Damaged;
    UnlinkedFree = 28, Inconsistent;
    NotUnlinked = 29, Inconsistent;
    FreeBlocksInUse = 30, Damaged;
    BlocksUsedTwice = 31, Damaged;
    BlocksUnused = 32, Inconsistent;
    ReferenceCount = 33, Inconsistent;
    CowStaging = 34, Leftover;
    SpaceSum = 35, Inconsistent;
    MappingWithoutOwner = 36, Inconsistent;
    MappingMissing = 37, Inconsistent;
    InodeBlocks = 40, Inconsistent;
    SizeOfSpecialFile = 41, Inconsistent;
    ExtentOverlap = 42, Damaged;
    NextUnlinked = 43, Inconsistent;
    SharedWithoutFlag = 44, Inconsistent;
    InodeAheadOfLog = 45, Inconsistent;
    InodeAgainstLog = 46, Damaged;
    EntryOfFreeInode = 50, Damaged;
    EntryFileType = 51, Inconsistent;
    Dot = 52, Inconsistent;
    DotDot = 53, Inconsistent;
    NameTwice = 54, Damaged;
    EntryNotIndexed = 55, Inconsistent;
    IndexEntry = 56, Inconsistent;
    FreeIndex = 57, Inconsistent;
    NodeHash = 58, Inconsistent;
    DirectorySize = 59, Inconsistent;
    AttributeIncomplete = 60, Leftover;
    ParentPointerMissing = 61, Damaged;
    ParentPointerWithoutEntry = 62, Damaged;
    AttributeTwice = 63, Damaged;
    AttributeValueShared = 64, Damaged;
    LinkCount = 70, Inconsistent;
    DirectoryNamedTwice = 71, Damaged;
    NoName = 72, Damaged;
    Cycle = 73, Damaged;
    FreeInode = 74, Inconsistent;
    InodeFlags = 75, Inconsistent;
    InodeTime = 76, Inconsistent;
    UnwrittenExtent = 77, Inconsistent;
    SuperblockFields = 78, Inconsistent;
    SymlinkBlocks = 79, Inconsistent;
    NotCompared = 80, Damaged;
    BtreeFill = 81, Inconsistent;
    OlderThanLog = 90, Damaged;
    QuotaCount = 91, Inconsistent;
    QuotaRecordMissing = 92, Inconsistent;
    QuotaInode = 93, Damaged;
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
