//! Permanent numbers of findings.

use super::Finding;

macro_rules! numbers {
    ($($kind:ident = $number:literal,)*) => {
        impl Finding {
            /// The numbers of all kinds of finding.
            pub const NUMBERS: &[u16] = &[$($number),*];

            /// A number that stays with the kind of finding for good.
            pub fn number(&self) -> u16 {
                match self {
                    $(Self::$kind { .. } => $number,)*
                }
            }
        }
    };
}

numbers! {
    Damaged = 1,
    Unreadable = 2,
    NotChecked = 3,
    UnreadInodes = 4,
    UncheckedGroups = 5,
    Opening = 6,
    NotKept = 7,
    LogNotReplayed = 8,
    SuperblockCopy = 10,
    SuperblockCount = 11,
    InternalInodeMissing = 12,
    GroupCount = 20,
    BtreeKey = 21,
    FreeExtent = 22,
    InodeChunk = 23,
    FreeInodeInUse = 24,
    Unlinked = 25,
    UnlinkedTwice = 26,
    UnlinkedWithLinks = 27,
    UnlinkedFree = 28,
    NotUnlinked = 29,
    FreeBlocksInUse = 30,
    BlocksUsedTwice = 31,
    BlocksUnused = 32,
    ReferenceCount = 33,
    CowStaging = 34,
    SpaceSum = 35,
    MappingWithoutOwner = 36,
    MappingMissing = 37,
    InodeBlocks = 40,
    SizeOfSpecialFile = 41,
    ExtentOverlap = 42,
    NextUnlinked = 43,
    SharedWithoutFlag = 44,
    InodeAheadOfLog = 45,
    EntryOfFreeInode = 50,
    EntryFileType = 51,
    Dot = 52,
    DotDot = 53,
    NameTwice = 54,
    EntryNotIndexed = 55,
    IndexEntry = 56,
    FreeIndex = 57,
    NodeHash = 58,
    DirectorySize = 59,
    AttributeIncomplete = 60,
    ParentPointerMissing = 61,
    ParentPointerWithoutEntry = 62,
    AttributeTwice = 63,
    AttributeValueShared = 64,
    LinkCount = 70,
    DirectoryNamedTwice = 71,
    NoName = 72,
    Cycle = 73,
    FreeInode = 74,
    InodeFlags = 75,
    InodeTime = 76,
    UnwrittenExtent = 77,
    SuperblockFields = 78,
    SymlinkBlocks = 79,
    NotCompared = 80,
    BtreeFill = 81,
    OlderThanLog = 90,
    QuotaCount = 91,
    QuotaRecordMissing = 92,
    QuotaInode = 93,
}
