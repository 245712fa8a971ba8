//! How sure a change is, and what else may be true.
//!
//! A guess is a change by which the repair believes one witness against another, or makes up what none says. Each guess has its
//! alternative: what is true if the guess is wrong.

use uxfs_format::inode::InodeFault;

use super::{Action, InodeSource, MapWitness, PointerCause, RecordSource, Rejection, Strength, room::Room};

/// How sure a change is. Programs may rely on [`name`](Self::name).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// It follows from other structures, which agree.
    Computed,
    /// One witness is left, and nothing contradicts it.
    Restored,
    /// Witnesses contradict each other, or none is left: see [`alternative`](Action::alternative).
    Guess,
    /// Something is lost: no witness of it is left.
    Loss,
}

impl Certainty {
    /// One word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Computed => "computed",
            Self::Restored => "restored",
            Self::Guess => "guess",
            Self::Loss => "loss",
        }
    }
}

impl Action {
    /// How sure the change is.
    pub fn certainty(&self) -> Certainty {
        match self {
            _ if self.file_loss().is_some() => Certainty::Loss,
            Self::LostAndFound { .. }
            | Self::AccessList { removed: None, .. }
            | Self::BlockField { removed: 1.., .. }
            | Self::Attributes { is_any_lost: true, .. }
            | Self::NewLog { is_unread: true, .. }
            | Self::QuotaRecord { source: RecordSource::Nothing, .. }
            | Self::QuotaInode { .. } => Certainty::Loss,
            _ if self.alternative().is_some() => Certainty::Guess,
            _ => self.certainty_of_its_kind(),
        }
    }

    /// How sure a change of this kind is where nothing is lost and nothing else may be true.
    const fn certainty_of_its_kind(&self) -> Certainty {
        match self {
            Self::PrimarySuperblock
            | Self::SuperblockFromLog
            | Self::SuperblockCopy { .. }
            | Self::LogReplayed { .. }
            | Self::LogReplayedInPart { .. }
            | Self::InodeRebuilt { .. }
            | Self::BlockFromLog { .. }
            | Self::BlockMoved { .. }
            | Self::InodeChunk { .. }
            | Self::ExtentMap { .. }
            | Self::Directory { .. }
            | Self::Attributes { .. }
            | Self::NameAdded { .. }
            | Self::ParentPointerSet { .. } => Certainty::Restored,
            Self::SuperblockFields | Self::SuperblockAttributes => Certainty::Computed,
            Self::SuperblockInferred { .. }
            | Self::SuperblockByCopies
            | Self::SuperblockLog { .. }
            | Self::SuperblockRoot { .. }
            | Self::MetadataFlags { .. }
            | Self::Counters
            | Self::FilePartial { .. }
            | Self::LostAndFound { .. }
            | Self::QuotaInode { .. }
            | Self::InodeLost { .. }
            | Self::SymlinkLost { .. }
            | Self::LsnCleared { .. }
            | Self::BitFlippedBack { .. }
            | Self::ProvedByChecksum { .. }
            | Self::NewLog { .. }
            | Self::Group { .. }
            | Self::BigTimes { .. }
            | Self::OlderKept { .. }
            | Self::InodePerhapsOlder { .. }
            | Self::InodeChecksum { .. }
            | Self::InodeLsn { .. }
            | Self::InodeShares { .. }
            | Self::DirectorySize { .. }
            | Self::SymlinkSize { .. }
            | Self::QuotaRecord { .. }
            | Self::QuotaCounts { .. }
            | Self::QuotaInodeSize { .. }
            | Self::BlockChecksum { .. }
            | Self::BlockField { .. }
            | Self::InodeMended { .. }
            | Self::InodeUnproved { .. }
            | Self::FreeInode { .. }
            | Self::InodeFlags { .. }
            | Self::InodeTimes { .. }
            | Self::SizeOfSpecialFile { .. }
            | Self::SymlinkBlocks { .. }
            | Self::ExtentsWritten { .. }
            | Self::ExtentsUnwritten { .. }
            | Self::RealtimeInode { .. }
            | Self::UnlinkedFreed { .. }
            | Self::BlocksGivenUp { .. }
            | Self::ExtentMapOverruled { .. }
            | Self::ExtentMapKept { .. }
            | Self::InodeBlocks { .. }
            | Self::LinkCount { .. }
            | Self::AccessList { .. }
            | Self::NameRemoved { .. }
            | Self::NameFromBlock { .. }
            | Self::ParentPointerRemoved { .. } => Certainty::Computed,
        }
    }

    /// Of a guess: what is true if it is wrong.
    pub fn alternative(&self) -> Option<String> {
        match self.room() {
            Room::FileSystem => self.alternative_of_file_system(),
            Room::Block => self.alternative_of_block(),
            Room::Inode => self.alternative_of_inode(),
            Room::InodeField => self.alternative_of_inode_field(),
            Room::Fork => self.alternative_of_fork(),
            Room::Name => self.alternative_of_name(),
            Room::Quota => self.alternative_of_quota(),
        }
    }

    fn alternative_of_file_system(&self) -> Option<String> {
        Some(match self {
            Self::SuperblockInferred { .. } => {
                "what leaves no trace had other values: label, stripe unit and width".into()
            }
            Self::SuperblockByCopies => {
                "the first superblock is right, and its copies are of an older file system".into()
            }
            Self::SuperblockLog { .. } => "the superblock is right, and the reverse map is wrong".into(),
            Self::SuperblockRoot { .. } => {
                "the inode that the superblock named was the root, and is lost".into()
            }
            Self::SuperblockFields => "the values are right, and the features are wrong".into(),
            _ => return None,
        })
    }

    fn alternative_of_block(&self) -> Option<String> {
        Some(match self {
            Self::ProvedByChecksum { is_guess: true, .. } => {
                "more than two bits of it changed, and its checksum is right by chance".into()
            }
            Self::BlockChecksum { .. } => {
                "bytes of it changed after the checksum was made; nothing tells which".into()
            }
            Self::BlockField { guessed: 1.., .. } => {
                "a value ended with zeros, is that of the other name that led to it, or an attribute is of another namespace".into()
            }
            Self::OlderKept { .. } => "what changed since is lost, unless others tell it".into(),
            _ => return None,
        })
    }

    fn alternative_of_inode(&self) -> Option<String> {
        Some(match self {
            Self::InodePerhapsOlder { .. } => {
                "it missed that write too: its blocks, size, times and attributes were others".into()
            }
            Self::InodeChecksum { .. } => {
                "a field changed after the checksum was made; no copy tells which".into()
            }
            Self::InodeRebuilt { source: InodeSource::LogWithoutAttributes, .. } => {
                "it had attributes, which are lost".into()
            }
            Self::InodeRebuilt { source: InodeSource::DamagedLog, .. } => {
                "it changed later, and the damaged part of the log had that change".into()
            }
            Self::InodeRebuilt { source: InodeSource::Remains, .. } => {
                "it had other permissions, or it was free".into()
            }
            Self::InodeRebuilt { source: InodeSource::Inferred(made_up), .. } => {
                let owner = match made_up.owner_from {
                    Some(directory) => format!("another owner and other times than directory {directory}"),
                    None => "an owner and times".into(),
                };
                format!(
                    "it had {owner}, wider permissions, or another size than {} bytes",
                    made_up.size_bytes
                )
            }
            Self::InodeRebuilt { fault: Some(InodeFault::FreeThoughIndexed), .. } => {
                "it was freed, and the inode index is wrong".into()
            }
            _ => return None,
        })
    }

    fn alternative_of_inode_field(&self) -> Option<String> {
        Some(match self {
            Self::InodeMended { fault, .. } => {
                format!("another field is wrong, and this one is right: {fault}")
            }
            Self::InodeUnproved { .. } => {
                "what the inode said was right, and other fields of it are wrong".into()
            }
            Self::InodeFlags { .. } => "the flags are right, and the type of the file is wrong".into(),
            Self::InodeTimes { .. } => "the times had other nanoseconds".into(),
            Self::SymlinkSize { is_guessed: true, .. } => {
                "the target was longer, and its end was overwritten with zeros".into()
            }
            Self::SizeOfSpecialFile { .. } => "the size is right, and the type of the file is wrong".into(),
            Self::LinkCount { inode, found, expected } if found > expected => format!(
                "the count is right, and inode {inode} had {} more names that are lost",
                found - expected
            ),
            _ => return None,
        })
    }

    fn alternative_of_fork(&self) -> Option<String> {
        Some(match self {
            Self::BlocksGivenUp { inode, kept_by: Some(kept_by), is_chosen: true, .. } => {
                format!("they are those of inode {inode}, and inode {kept_by} has them wrongly")
            }
            Self::BlocksGivenUp { inode, group, .. } => format!(
                "the extent map of inode {inode} is right, and the reverse map of allocation group {group} is wrong"
            ),
            Self::ExtentMapOverruled { by: MapWitness::Age, .. } => {
                "what else the inode says is older, too: size, times, owner, attributes".into()
            }
            Self::ExtentMapOverruled { by, .. } => {
                format!("the extent map was right, and both {} and the reverse map are wrong", by.subject())
            }
            Self::ExtentMapKept { .. } => {
                "the inode missed a write, and the others were right: other blocks are those of the file, or lie elsewhere in it".into()
            }
            Self::SymlinkBlocks { .. } => "the blocks are right, and the target is longer".into(),
            Self::ExtentsWritten { .. } => "the blocks were never written".into(),
            Self::ExtentsUnwritten { .. } => "zeros were written".into(),
            Self::AccessList { removed: Some(removed @ 1..), .. } => format!(
                "the {removed} removed entries granted or denied something that cannot be read any more"
            ),
            _ => return None,
        })
    }

    fn alternative_of_quota(&self) -> Option<String> {
        match self {
            Self::QuotaRecord { quota, id, source: RecordSource::Remains, .. } => {
                Some(format!("{} {id} had other limits", quota.name()))
            }
            _ => None,
        }
    }

    fn alternative_of_name(&self) -> Option<String> {
        match self {
            Self::NameFromBlock { directory, .. } => {
                Some(format!("the name was removed, and the block of directory {directory} is old"))
            }
            Self::NameAdded { inode, .. } => {
                Some(format!("the name was removed, and the parent pointer of inode {inode} is left over"))
            }
            Self::ParentPointerSet { directory, cause: PointerCause::OtherGeneration, .. } => {
                Some(format!("the parent pointer names an earlier directory that had the number {directory}"))
            }
            Self::ParentPointerSet { directory, cause: PointerCause::EntryAlone, .. } => Some(format!(
                "the name was removed, and the entry in directory {directory} is left over or names the wrong inode"
            )),
            Self::ParentPointerSet { cause: PointerCause::Unmarked, .. } => {
                Some("the attribute of this name was one of the user's".into())
            }
            Self::NameRemoved { inode, because: Some(because), .. }
            | Self::ParentPointerRemoved { inode, because: Some(because), .. } => {
                because.alternative(inode.get())
            }
            _ => None,
        }
    }
}

impl Rejection {
    /// What is true if the rejected name is right.
    fn alternative(&self, inode: u64) -> Option<String> {
        match self {
            Self::NoInode => Some(format!("inode {inode} was in use, and nothing of it is left")),
            Self::NoDirectory => Some("the directory was there, and nothing of it is left".into()),
            Self::ImpossibleName => Some("it had another name, which cannot be read any more".into()),
            Self::OtherInode { kept, kept_by, rejected_by } => Some(format!(
                "the name is that of inode {inode}, as {} says, and not that of inode {kept}, as {} says{}",
                rejected_by.subject(),
                kept_by.subject(),
                because(*kept_by, *rejected_by)
            )),
            Self::OtherName { directory, name, kept_by, rejected_by, .. } => Some(format!(
                "this is the name of inode {inode}, as {} says, and not \"{}\" in directory {directory}, as {} says{}",
                rejected_by.subject(),
                name.escape_ascii(),
                kept_by.subject(),
                because(*kept_by, *rejected_by)
            )),
            Self::Circle => Some("this name is right, and another one of the circle is wrong".into()),
            Self::OfRoot | Self::OfOtherTree | Self::OfItself | Self::Incomplete => None,
        }
    }
}

/// Why one is believed: only where its witnesses are better.
fn because(kept_by: Strength, rejected_by: Strength) -> &'static str {
    match kept_by > rejected_by {
        true => ", which is believed more",
        false => "",
    }
}
