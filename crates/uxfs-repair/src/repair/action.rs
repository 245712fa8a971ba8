//! What a repair does, in sentences.

use std::fmt;

use uxfs_format::{
    fault::Structure,
    inode::{Fork, InodeFault},
    units::{AgInode, AgNumber, InodeNumber, Sector},
};

use crate::finding::Name;

/// From what an inode was made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InodeSource {
    /// The newest copy in the log, all of it.
    Log,
    /// The newest copy in the log, and the reverse map.
    LogAndReverseMap,
    /// Its place, which lacks the mode alone. Its type follows from what names it; its permissions are not known.
    Remains,
    /// The entry that names it, and the reverse map: owner, permissions, times and attributes are not known.
    Inferred,
}

/// One change of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// The superblock of group 0 is written from another group's.
    PrimarySuperblock,
    /// No group has a superblock: that of group 0 is written as the log has it.
    SuperblockFromLog,
    /// Fields of the superblock of group 0 get neutral values.
    SuperblockFields,
    /// The superblock of group 0 is written as all copies say.
    SuperblockByCopies,
    /// A copy of the superblock is written from that of group 0.
    SuperblockCopy {
        /// The copy's group.
        group: AgNumber,
    },
    /// The counters of the superblock are computed anew.
    Counters,
    /// The log is replayed.
    LogReplayed {
        /// Transactions.
        transactions: u64,
    },
    /// The log is replayed, but for what its intents would still have done.
    LogReplayedInPart {
        /// Transactions.
        transactions: u64,
        /// Intents.
        intents: u64,
    },
    /// A log sequence number that no log has reached is cleared.
    LsnCleared {
        /// Of which structure.
        structure: Structure,
        /// Where it lies.
        sector: Sector,
    },
    /// A new log is written.
    NewLog {
        /// Its cycle.
        cycle: u32,
    },
    /// Headers, free list and btrees of a group are made anew from its inodes and their extents.
    Group {
        /// Which group.
        group: AgNumber,
        /// Inode chunks that no inode btree named.
        chunks_without_index: u32,
    },
    /// An inode that is sound but for its checksum gets the right one.
    InodeChecksum {
        /// The inode.
        inode: InodeNumber,
    },
    /// An inode that was gone is made again.
    InodeRebuilt {
        /// The inode.
        inode: InodeNumber,
        /// From what.
        source: InodeSource,
        /// What its place held.
        fault: Option<InodeFault>,
    },
    /// Something of a regular file is missing, and reads as zeros. It lies in `lost+found`.
    FilePartial {
        /// The inode.
        inode: InodeNumber,
    },
    /// A block is put back as the log has it.
    BlockFromLog {
        /// What it is.
        structure: Structure,
        /// Whose it is.
        inode: InodeNumber,
        /// Where it lies.
        sector: Sector,
    },
    /// An inode is lost: its place becomes a free inode.
    InodeLost {
        /// The inode.
        inode: InodeNumber,
        /// What its place holds.
        fault: InodeFault,
    },
    /// An inode that fails its verifier gets neutral values.
    InodeMended {
        /// The inode.
        inode: InodeNumber,
        /// What was wrong first.
        fault: InodeFault,
    },
    /// A free inode is made anew.
    FreeInode {
        /// The inode.
        inode: InodeNumber,
    },
    /// Flags of an inode are cleared, which it may not have.
    InodeFlags {
        /// The inode.
        inode: InodeNumber,
        /// Of the first word.
        flags: u16,
        /// Of the second word.
        flags2: u64,
    },
    /// Nanoseconds of times of an inode are cleared, which made a second or more.
    InodeTimes {
        /// The inode.
        inode: InodeNumber,
    },
    /// The size of a special file is cleared.
    SizeOfSpecialFile {
        /// The inode.
        inode: InodeNumber,
        /// The size that it had.
        found: u64,
    },
    /// Blocks behind the target of a symbolic link are taken from it.
    SymlinkBlocks {
        /// The inode.
        inode: InodeNumber,
    },
    /// Extents of a directory or a symbolic link are marked as written.
    ExtentsWritten {
        /// The inode.
        inode: InodeNumber,
    },
    /// A symbolic link is given up, because its target cannot be read.
    SymlinkLost {
        /// The inode.
        inode: InodeNumber,
    },
    /// A chunk of free inodes is made where inodes were that others name.
    InodeChunk {
        /// The allocation group.
        group: AgNumber,
        /// The first inode.
        first: AgInode,
    },
    /// The realtime bitmap or summary inode is made again, empty.
    RealtimeInode {
        /// The inode.
        inode: InodeNumber,
    },
    /// An inode that is in use without links and names is freed.
    UnlinkedFreed {
        /// The inode.
        inode: InodeNumber,
    },
    /// The extent map of a fork is made anew from the reverse map.
    ExtentMap {
        /// The inode.
        inode: InodeNumber,
        /// Which fork.
        fork: Fork,
        /// Extents that it has now.
        extents: u64,
    },
    /// The block count of an inode.
    InodeBlocks {
        /// The inode.
        inode: InodeNumber,
        /// Before.
        found: u64,
        /// Now.
        expected: u64,
    },
    /// The link count of an inode.
    LinkCount {
        /// The inode.
        inode: InodeNumber,
        /// Before.
        found: u32,
        /// Now.
        expected: u32,
    },
    /// A directory is made anew from its entries and from the parent pointers that name it.
    Directory {
        /// The directory.
        inode: InodeNumber,
        /// Names that it has now.
        names: u64,
        /// Of these, names that only parent pointers knew.
        from_parent_pointers: u64,
        /// Names that it had, of inodes that are gone or have another name.
        removed: u64,
    },
    /// The attribute fork of an inode is made anew.
    Attributes {
        /// The inode.
        inode: InodeNumber,
        /// Attributes that could be read, without parent pointers.
        attributes: u64,
    },
    /// An access control list that Linux refuses keeps its sound entries, with those that the mode says.
    AccessList {
        /// The inode.
        inode: InodeNumber,
        /// Entries that are gone; `None` where the whole list is.
        removed: Option<u64>,
    },
    /// A name is removed.
    NameRemoved {
        /// The directory.
        directory: InodeNumber,
        /// The name.
        name: Name,
        /// The inode that it named.
        inode: InodeNumber,
    },
    /// A file or directory that nothing names gets a name in `lost+found`.
    LostAndFound {
        /// The inode.
        inode: InodeNumber,
        /// The name.
        name: Name,
    },
    /// A parent pointer is set.
    ParentPointerSet {
        /// The inode that gets it.
        inode: InodeNumber,
        /// The directory that it names.
        directory: InodeNumber,
        /// The name.
        name: Name,
    },
    /// A parent pointer is removed.
    ParentPointerRemoved {
        /// The inode that had it.
        inode: InodeNumber,
        /// The directory that it named.
        directory: InodeNumber,
        /// The name.
        name: Name,
    },
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PrimarySuperblock => f.write_str("write the superblock of group 0 from a copy"),
            Self::SuperblockFromLog => f.write_str("write the superblock of group 0 as the log has it"),
            Self::SuperblockFields => {
                f.write_str("clear fields of the superblock of group 0 that have wrong values")
            }
            Self::SuperblockByCopies => {
                f.write_str("write the superblock of group 0 as its copies say, which all agree")
            }
            Self::SuperblockCopy { group } => write!(f, "write the copy of the superblock in group {group}"),
            Self::Counters => f.write_str("count inodes and blocks of the superblock anew"),
            Self::LogReplayed { transactions } => write!(f, "replay {transactions} transactions of the log"),
            Self::LogReplayedInPart { transactions, intents } => write!(
                f,
                "replay {transactions} transactions of the log, without the rest of {intents} operations that it leaves open"
            ),
            Self::LsnCleared { structure, sector } => write!(
                f,
                "clear the log sequence number of the {} at sector {sector}, which no log has reached",
                structure.name()
            ),
            Self::NewLog { cycle } => write!(f, "write a new log, in cycle {cycle}"),
            Self::Group { group, chunks_without_index: 0 } => {
                write!(f, "make the headers and btrees of allocation group {group} anew")
            }
            Self::Group { group, chunks_without_index } => write!(
                f,
                "make the headers and btrees of allocation group {group} anew; {chunks_without_index} inode chunks were found by searching"
            ),
            Self::InodeChecksum { inode } => {
                write!(f, "keep inode {inode}, which is sound but for its checksum")
            }
            Self::InodeRebuilt { inode, source, .. } => {
                let source = match source {
                    InodeSource::Log => "as the log has it",
                    InodeSource::LogAndReverseMap => "from the log and the reverse map",
                    InodeSource::Remains => {
                        "from what is left of it; its file type follows from what names it, and its permissions are guesses"
                    }
                    InodeSource::Inferred => {
                        "from the entry that names it and the reverse map; owner, permissions, times and size are guesses"
                    }
                };
                write!(f, "make inode {inode} again {source}")
            }
            Self::FilePartial { inode } => {
                write!(f, "note that parts of inode {inode} are missing and read as zeros: see lost+found")
            }
            Self::BlockFromLog { structure, inode, sector } => {
                let structure = structure.name();
                write!(f, "put the {structure} of inode {inode} at sector {sector} back as the log has it")
            }
            Self::InodeLost { inode, fault } => write!(f, "give inode {inode} up: {fault}"),
            Self::SymlinkLost { inode } => {
                write!(f, "give symbolic link {inode} up: its target cannot be read")
            }
            Self::InodeChunk { group, first } => {
                write!(
                    f,
                    "make an inode chunk at inode {first} of allocation group {group}, where inodes are missing"
                )
            }
            Self::RealtimeInode { inode } => write!(f, "make realtime inode {inode} again, empty"),
            _ => self.write_of_inodes(f),
        }
    }
}

impl Action {
    /// Fields of inodes.
    fn write_of_inodes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InodeMended { inode, fault } => {
                write!(f, "keep inode {inode}, with neutral values where they were wrong: {fault}")
            }
            Self::FreeInode { inode } => write!(f, "make free inode {inode} anew"),
            Self::InodeFlags { inode, flags, flags2 } => write!(
                f,
                "clear flags {flags:#x} of inode {inode}, and {flags2:#x} of the second word, which it may not have"
            ),
            Self::InodeTimes { inode } => {
                write!(f, "clear the nanoseconds of times of inode {inode} that have too many")
            }
            Self::SizeOfSpecialFile { inode, found } => {
                write!(f, "clear the size of special file {inode}, which was {found} bytes")
            }
            Self::SymlinkBlocks { inode } => {
                write!(f, "take blocks from symbolic link {inode}, which its target does not need")
            }
            Self::ExtentsWritten { inode } => {
                write!(f, "mark the extents of inode {inode} as written, since it is no regular file")
            }
            _ => self.write_of_names(f),
        }
    }

    /// Link counts, directories, attributes, names.
    fn write_of_names(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |name: &Name| format!("\"{}\"", name.escape_ascii());
        match self {
            Self::UnlinkedFreed { inode } => write!(f, "free inode {inode}, which has no links and no name"),
            Self::ExtentMap { inode, fork, extents } => {
                let fork = match fork {
                    Fork::Data => "data",
                    Fork::Attribute => "attribute",
                };
                write!(
                    f,
                    "make the extent map of the {fork} fork of inode {inode} anew, with {extents} extents"
                )
            }
            Self::InodeBlocks { inode, found, expected } => {
                write!(f, "set the block count of inode {inode} to {expected}; it was {found}")
            }
            Self::LinkCount { inode, found, expected } => {
                write!(f, "set the link count of inode {inode} to {expected}; it was {found}")
            }
            Self::Directory { inode, names, from_parent_pointers, removed } => write!(
                f,
                "make directory {inode} anew with {names} names, {from_parent_pointers} of them known by parent pointers only; \
                 {removed} names were removed"
            ),
            Self::Attributes { inode, attributes } => {
                write!(f, "make the attributes of inode {inode} anew; {attributes} could be read")
            }
            Self::AccessList { inode, removed: None } => {
                write!(f, "remove an access control list of inode {inode} in which nothing is sound")
            }
            Self::AccessList { inode, removed: Some(removed) } => {
                write!(f, "mend an access control list of inode {inode}; {removed} entries were removed")
            }
            Self::NameRemoved { directory, name, inode } => {
                write!(f, "remove {} from directory {directory}, which named inode {inode}", quoted(name))
            }
            Self::LostAndFound { inode, name } => {
                write!(f, "name inode {inode} {} in lost+found", quoted(name))
            }
            Self::ParentPointerSet { inode, directory, name } => {
                write!(
                    f,
                    "set the parent pointer of inode {inode} for {} in directory {directory}",
                    quoted(name)
                )
            }
            Self::ParentPointerRemoved { inode, directory, name } => write!(
                f,
                "remove the parent pointer of inode {inode} for {} in directory {directory}",
                quoted(name)
            ),
            // Every other variant is in the function above.
            _ => Ok(()),
        }
    }
}
