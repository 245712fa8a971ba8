//! Changes of a repair, in sentences.

use std::fmt;

use uxfs_format::{
    fault::Structure,
    inode::Fork,
    units::{InodeNumber, Sector},
};

use super::{Action, InodeSource, PointerCause, RecordSource, room::Room};
use crate::finding::Name;

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.room() {
            Room::FileSystem => self.write_of_file_system(f),
            Room::Block => self.write_of_block(f),
            Room::Inode => self.write_of_inode(f),
            Room::InodeField => self.write_of_inode_field(f),
            Room::Fork => self.write_of_fork(f),
            Room::Name => self.write_of_name(f),
            Room::Quota => self.write_of_quota(f),
        }
    }
}

/// A structure and where it lies, with a space behind.
fn write_structure(
    f: &mut fmt::Formatter<'_>,
    structure: Structure,
    inode: Option<InodeNumber>,
    sector: Option<Sector>,
) -> fmt::Result {
    write!(f, "{} ", structure.name())?;
    if let Some(inode) = inode {
        let of = if structure == Structure::Inode { "" } else { "of inode " };
        write!(f, "{of}{inode} ")?;
    }
    match sector {
        Some(sector) => write!(f, "at sector {sector} "),
        None => Ok(()),
    }
}

/// A change is told by the function for its room; the others have no words for it.
impl Action {
    fn write_of_file_system(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PrimarySuperblock => f.write_str("write the superblock of group 0 from a copy"),
            Self::SuperblockFromLog => f.write_str("write the superblock of group 0 as the log has it"),
            Self::SuperblockInferred { witnesses } => {
                write!(f, "write the superblock of group 0 as inferred from {witnesses}; its label is lost")
            }
            Self::SuperblockFields => {
                f.write_str("clear fields of the superblock of group 0 that have wrong values")
            }
            Self::SuperblockAttributes => f.write_str(
                "set the attribute bit of the superblock of group 0, because inodes have attributes",
            ),
            Self::SuperblockByCopies => {
                f.write_str("write the superblock of group 0 as its copies say, which all agree")
            }
            Self::SuperblockLog { start, length_blocks } => write!(
                f,
                "write the place of the log into the superblock of group 0: {length_blocks} blocks from block {start} on"
            ),
            Self::SuperblockRoot { inode, is_metadata: false } => {
                write!(f, "write the root directory into the superblock of group 0: inode {inode}")
            }
            Self::SuperblockRoot { inode, is_metadata: true } => write!(
                f,
                "write the root of the metadata directory tree into the superblock of group 0: inode {inode}"
            ),
            Self::SuperblockCopy { group } => write!(f, "write the copy of the superblock in group {group}"),
            Self::Counters => f.write_str("recount inodes and free blocks for the superblock"),
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
            Self::NewLog { cycle, is_unread: false } => write!(f, "write a new log, in cycle {cycle}"),
            Self::NewLog { cycle, is_unread: true } => {
                write!(f, "write a new log, in cycle {cycle}; the old one cannot be used")
            }
            Self::Group { group, chunks_without_index: 0 } => {
                write!(f, "rebuild the headers and btrees of allocation group {group}")
            }
            Self::Group { group, chunks_without_index } => write!(
                f,
                "rebuild the headers and btrees of allocation group {group}; {chunks_without_index} inode chunks were found by searching"
            ),
            Self::InodeChunk { group, first } => {
                write!(
                    f,
                    "make an inode chunk at inode {first} of allocation group {group}, where inodes are missing"
                )
            }
            _ => Ok(()),
        }
    }

    fn write_of_block(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BitFlippedBack { structure, inode, sector, bit } => {
                write!(f, "flip bit {bit} of the ")?;
                write_structure(f, *structure, *inode, *sector)?;
                f.write_str("back: its checksum is right with that alone")
            }
            Self::ProvedByChecksum { structure, inode, sector, fields, bits, .. } => {
                f.write_str("put ")?;
                match fields {
                    0 => {}
                    1 => f.write_str("a known value")?,
                    fields => write!(f, "{fields} known values")?,
                }
                if !bits.is_empty() {
                    let bits: Vec<_> = bits.iter().map(ToString::to_string).collect();
                    let (and, plural) =
                        (if *fields > 0 { " and " } else { "" }, if bits.len() == 1 { "" } else { "s" });
                    write!(f, "{and}bit{plural} {}", bits.join(", "))?;
                }
                f.write_str(" of the ")?;
                write_structure(f, *structure, *inode, *sector)?;
                f.write_str("right: its checksum is right with that alone")
            }
            Self::BlockFromLog { structure, inode, sector } => {
                let structure = structure.name();
                write!(f, "put the {structure} of inode {inode} at sector {sector} back as the log has it")
            }
            Self::BlockMoved { structure, inode, sector, from } => {
                let structure = structure.name();
                write!(
                    f,
                    "put the {structure} of inode {inode} back to sector {sector}; it lies at the place of another, sector {from}"
                )
            }
            Self::OlderKept { structure, inode, sector } => {
                let structure = structure.name();
                write!(
                    f,
                    "keep the {structure} of inode {inode} at sector {sector}, which is older than the log says"
                )
            }
            Self::BlockField { structure, inode, sector, removed, guessed } => {
                let structure = structure.name();
                write!(f, "correct a field of the {structure} of inode {inode} at sector {sector}")?;
                if *guessed > 0 {
                    write!(f, "; {guessed} lengths or places of values or namespaces of names are guesses")?;
                }
                match removed {
                    0 => Ok(()),
                    removed => write!(f, "; {removed} attributes were removed"),
                }
            }
            Self::BlockChecksum { structure, inode, sector } => {
                let structure = structure.name();
                write!(
                    f,
                    "keep the {structure} of inode {inode} at sector {sector}, whose checksum alone is wrong"
                )
            }
            _ => Ok(()),
        }
    }

    fn write_of_inode(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InodePerhapsOlder { inode } => {
                write!(f, "keep inode {inode}, although inodes beside it missed a write")
            }
            Self::InodeChecksum { inode } => {
                write!(f, "keep inode {inode}, which is sound but for its checksum")
            }
            Self::InodeRebuilt { inode, source, .. } => {
                let source = match source {
                    InodeSource::Log => "as the log has it",
                    InodeSource::DamagedLog => "as the log has it; later records of the log are damaged",
                    InodeSource::LogAndReverseMap => "from the log and the reverse map",
                    InodeSource::LogWithoutAttributes => {
                        "from the log and the reverse map; attributes that lay in the inode are lost, but for its names"
                    }
                    InodeSource::Elsewhere(place) => {
                        return write!(f, "put inode {inode} back, which lies at the place of inode {place}");
                    }
                    InodeSource::Displaced(sector) => {
                        return write!(f, "put inode {inode} back, which lies at sector {sector}");
                    }
                    InodeSource::Remains => {
                        "from what is left of it; its file type follows from what names it, and its permissions are guesses"
                    }
                    source if source.is_stand_in() => {
                        "from what names it; nothing of its contents is known, so that it is empty"
                    }
                    InodeSource::Inferred(_) => {
                        "from what names it and the reverse map; owner, permissions, times and size are guesses"
                    }
                };
                write!(f, "recreate inode {inode} {source}")
            }
            Self::InodeLost { inode, fault } => write!(f, "give inode {inode} up: {fault}"),
            Self::FreeInode { inode } => write!(f, "reinitialize free inode {inode}"),
            Self::FilePartial { inode } => {
                write!(f, "note that parts of inode {inode} are missing and read as zeros: see lost+found")
            }
            Self::SymlinkLost { inode } => {
                write!(f, "give symbolic link {inode} up: its target cannot be read")
            }
            Self::RealtimeInode { inode } => write!(f, "recreate realtime inode {inode}, empty"),
            Self::UnlinkedFreed { inode } => write!(f, "free inode {inode}, which has no links and no name"),
            _ => Ok(()),
        }
    }

    fn write_of_inode_field(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InodeMended { inode, fault } => {
                write!(f, "keep inode {inode}, with neutral values where they were wrong: {fault}")
            }
            Self::MetadataFlags { inode, is_metadata: true } => {
                write!(f, "mark inode {inode} as part of the metadata directory tree")
            }
            Self::MetadataFlags { inode, is_metadata: false } => {
                write!(f, "mark inode {inode} as a file of users, not of the metadata directory tree")
            }
            Self::InodeUnproved { inode, fields } => {
                let fields: Vec<_> = fields.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "give inode {inode} other values, since its checksum was wrong: {}",
                    fields.join(", ")
                )
            }
            Self::InodeFlags { inode, flags, flags2 } => write!(
                f,
                "clear flags {flags:#x} of inode {inode}, and {flags2:#x} of the second word, which it may not have"
            ),
            Self::InodeTimes { inode } => {
                write!(f, "clear the nanoseconds of times of inode {inode} that have too many")
            }
            Self::BigTimes { inode } => {
                write!(f, "mark the times of inode {inode} as numbers of 64 bits, which they are")
            }
            Self::InodeLsn { inode } => {
                write!(f, "clear the log sequence number of inode {inode}, which the log has not reached")
            }
            Self::InodeShares { inode } => {
                write!(f, "mark inode {inode} as one that shares blocks with others")
            }
            Self::DirectorySize { inode, found, expected } => {
                write!(f, "set the size of directory {inode} to {expected} bytes; it was {found}")
            }
            Self::SymlinkSize { inode, found, expected, .. } => {
                write!(f, "set the size of symbolic link {inode} to {expected} bytes; it was {found}")
            }
            Self::SizeOfSpecialFile { inode, found } => {
                write!(f, "clear the size of special or internal file {inode}, which was {found} bytes")
            }
            Self::InodeBlocks { inode, found, expected } => {
                write!(f, "set the block count of inode {inode} to {expected}; it was {found}")
            }
            Self::LinkCount { inode, found, expected } => {
                write!(f, "set the link count of inode {inode} to {expected}; it was {found}")
            }
            _ => Ok(()),
        }
    }

    fn write_of_fork(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ExtentMap { inode, fork, extents } => {
                let fork = name_of(*fork);
                write!(
                    f,
                    "rebuild the extent map of the {fork} fork of inode {inode}, with {extents} extents"
                )
            }
            Self::ExtentMapOverruled { inode, fork, extents, by } => write!(
                f,
                "rebuild the extent map of the {} fork of inode {inode} as the reverse map has it, with {extents} extents: {} agrees with that",
                name_of(*fork),
                by.subject()
            ),
            Self::ExtentMapKept { inode, fork } => write!(
                f,
                "keep the extent map of the {} fork of inode {inode}, which the reverse map or the free space contradicts",
                name_of(*fork)
            ),
            Self::BlocksGivenUp { inode, fork, group, start, blocks, kept_by, .. } => {
                let fork = name_of(*fork);
                write!(
                    f,
                    "take {blocks} blocks, from block {start} of allocation group {group} on, from the {fork} fork of inode {inode}, which "
                )?;
                match kept_by {
                    Some(owner) if owner == inode => f.write_str("it has more than once"),
                    Some(owner) => write!(f, "inode {owner} has as well"),
                    None => f.write_str("are those of a structure of the group"),
                }
            }
            Self::SymlinkBlocks { inode } => {
                write!(f, "take blocks from symbolic link {inode}, which its target does not need")
            }
            Self::ExtentsWritten { inode } => {
                write!(f, "mark the extents of inode {inode} as written, which their blocks must be")
            }
            Self::ExtentsUnwritten { inode } => {
                write!(
                    f,
                    "mark extents of inode {inode} as never written, as the reverse map has them: their blocks hold zeros"
                )
            }
            Self::Attributes { inode, attributes, is_any_lost } => {
                write!(f, "rebuild the attributes of inode {inode}; {attributes} could be read")?;
                if *is_any_lost { f.write_str(", others could not") } else { Ok(()) }
            }
            Self::AccessList { inode, removed: None } => {
                write!(f, "remove an access control list of inode {inode} in which nothing is sound")
            }
            Self::AccessList { inode, removed: Some(removed) } => {
                write!(f, "mend an access control list of inode {inode}; {removed} entries were removed")
            }
            _ => Ok(()),
        }
    }

    fn write_of_name(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |name: &Name| format!("\"{}\"", name.escape_ascii());
        match self {
            Self::Directory { inode, names, from_parent_pointers, removed, .. } => write!(
                f,
                "rebuild directory {inode} with {names} names, {from_parent_pointers} of them known by parent pointers only; \
                 {removed} names were removed"
            ),
            Self::NameRemoved { directory, name, inode, .. } => {
                write!(f, "remove {} from directory {directory}, which named inode {inode}", quoted(name))
            }
            Self::NameAdded { directory, name, inode } => {
                write!(f, "add {} to directory {directory}, for inode {inode}", quoted(name))
            }
            Self::NameFromBlock { inode, directory, name } => write!(
                f,
                "name inode {inode} {} in directory {directory}, as a block of it says that no map leads to and that may be old",
                quoted(name)
            ),
            Self::LostAndFound { inode, folder, name } => {
                write!(f, "name inode {inode} {} in {}", quoted(name), folder.escape_ascii())
            }
            Self::ParentPointerSet { inode, directory, name, cause } => {
                let name = quoted(name);
                write!(f, "set the parent pointer of inode {inode} for {name} in directory {directory}")?;
                match cause {
                    PointerCause::Unmarked => f.write_str(", from an attribute that has lost its mark"),
                    _ => Ok(()),
                }
            }
            Self::ParentPointerRemoved { inode, directory, name, .. } => write!(
                f,
                "remove the parent pointer of inode {inode} for {} in directory {directory}",
                quoted(name)
            ),
            _ => Ok(()),
        }
    }

    fn write_of_quota(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QuotaRecord { inode, quota, id, source } => {
                let owner = quota.name();
                match source {
                    RecordSource::Checksum => {
                        write!(
                            f,
                            "flip a bit of the quota record of {owner} {id} in inode {inode} back: its checksum is right with that alone"
                        )
                    }
                    RecordSource::Remains => {
                        write!(
                            f,
                            "keep the limits of {owner} {id} in inode {inode}, and correct the rest of the record"
                        )
                    }
                    RecordSource::Nothing => {
                        write!(f, "rebuild the quota record of {owner} {id} in inode {inode}, without limits")
                    }
                }
            }
            Self::QuotaCounts { quota } => {
                write!(f, "have the next mount with quotas count what each {} uses", quota.name())
            }
            Self::QuotaInodeSize { inode, found } => {
                write!(f, "clear the size of quota inode {inode}, which was {found} bytes")
            }
            Self::QuotaInode { inode, quota } => {
                write!(
                    f,
                    "forget inode {inode}, which should hold the {} quotas and is no file",
                    quota.name()
                )
            }
            _ => Ok(()),
        }
    }
}

const fn name_of(fork: Fork) -> &'static str {
    match fork {
        Fork::Data => "data",
        Fork::Attribute => "attribute",
    }
}
