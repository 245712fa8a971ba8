//! How sure a change is, and what else may be true.
//!
//! A guess is a change by which the repair believes one witness against another, or makes up what none says. Each guess has its
//! alternative: what is true if the guess is wrong.

use uxfs_format::inode::InodeFault;

use super::{Action, InodeSource, PointerCause, RecordSource, Rejection, Strength};

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
            Self::FilePartial { .. }
            | Self::InodeLost { .. }
            | Self::SymlinkLost { .. }
            | Self::LostAndFound { .. }
            | Self::AccessList { removed: None, .. }
            | Self::Attributes { is_any_lost: true, .. }
            | Self::NewLog { is_unread: true, .. }
            | Self::QuotaRecord { source: RecordSource::Nothing, .. }
            | Self::QuotaInode { .. } => Certainty::Loss,
            _ if self.alternative().is_some() => Certainty::Guess,
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
            Self::SuperblockInferred { .. }
            | Self::SuperblockFields
            | Self::SuperblockByCopies
            | Self::Counters
            | Self::LsnCleared { .. }
            | Self::BitFlippedBack { .. }
            | Self::NewLog { .. }
            | Self::Group { .. }
            | Self::BigTimes { .. }
            | Self::OlderKept { .. }
            | Self::InodeChecksum { .. }
            | Self::InodeLsn { .. }
            | Self::InodeShares { .. }
            | Self::DirectorySize { .. }
            | Self::QuotaRecord { .. }
            | Self::QuotaCounts { .. }
            | Self::QuotaInodeSize { .. }
            | Self::BlockChecksum { .. }
            | Self::BlockField { .. }
            | Self::InodeMended { .. }
            | Self::FreeInode { .. }
            | Self::InodeFlags { .. }
            | Self::InodeTimes { .. }
            | Self::SizeOfSpecialFile { .. }
            | Self::SymlinkBlocks { .. }
            | Self::ExtentsWritten { .. }
            | Self::RealtimeInode { .. }
            | Self::UnlinkedFreed { .. }
            | Self::BlocksGivenUp { .. }
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
        match self {
            Self::SuperblockInferred { .. } => {
                Some("what leaves no trace had other values: label, stripe unit and width".into())
            }
            Self::SuperblockByCopies => {
                Some("the first superblock is right, and its copies are of an older file system".into())
            }
            Self::SuperblockFields => Some("the values are right, and the features are wrong".into()),
            Self::BlocksGivenUp { inode, group, .. } => Some(format!(
                "the extent map of inode {inode} is right, and the reverse map of allocation group {group} is wrong"
            )),
            Self::LinkCount { inode, found, expected } if found > expected => Some(format!(
                "the count is right, and inode {inode} had {} more names that are lost",
                found - expected
            )),
            Self::AccessList { removed: Some(removed @ 1..), .. } => Some(format!(
                "the {removed} removed entries granted or denied something that cannot be read any more"
            )),
            Self::OlderKept { .. } => Some("what changed since is lost, unless others tell it".into()),
            Self::QuotaRecord { quota, id, source: RecordSource::Remains, .. } => {
                Some(format!("{} {id} had other limits", quota.name()))
            }
            _ => self.alternative_of_inode().or_else(|| self.alternative_of_name()),
        }
    }

    /// Inodes and their fields.
    fn alternative_of_inode(&self) -> Option<String> {
        match self {
            Self::InodeChecksum { .. } => {
                Some("a field changed after the checksum was made; no copy tells which".into())
            }
            Self::BlockChecksum { .. } => {
                Some("bytes of it changed after the checksum was made; nothing tells which".into())
            }
            Self::InodeRebuilt { source: InodeSource::Remains, .. } => {
                Some("it had other permissions, or it was free".into())
            }
            Self::InodeRebuilt { source: InodeSource::Inferred(made_up), .. } => {
                let owner = match made_up.owner_from {
                    Some(directory) => format!("directory {directory}"),
                    None => "no directory".into(),
                };
                Some(format!(
                    "it had another owner and other times than {owner}, wider permissions, or another size than {} bytes",
                    made_up.size_bytes
                ))
            }
            Self::InodeRebuilt { fault: Some(InodeFault::FreeThoughIndexed), .. } => {
                Some("it was freed, and the inode index is wrong".into())
            }
            Self::InodeMended { fault, .. } => {
                Some(format!("another field is wrong, and this one is right: {fault}"))
            }
            Self::InodeFlags { .. } => Some("the flags are right, and the type of the file is wrong".into()),
            Self::InodeTimes { .. } => Some("the times had other nanoseconds".into()),
            Self::SizeOfSpecialFile { .. } => {
                Some("the size is right, and the type of the file is wrong".into())
            }
            Self::SymlinkBlocks { .. } => Some("the blocks are right, and the target is longer".into()),
            Self::ExtentsWritten { .. } => Some("the blocks were never written".into()),
            _ => None,
        }
    }

    /// Names and parent pointers.
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
            Self::NameRemoved { inode, because: Some(because), .. }
            | Self::ParentPointerRemoved { inode, because: Some(because), .. } => {
                because.alternative(inode.get())
            }
            _ => self.without_alternative(),
        }
    }

    /// Changes that are no guess, and guesses of the functions above. A new variant is missing here.
    const fn without_alternative(&self) -> Option<String> {
        match self {
            Self::PrimarySuperblock
            | Self::SuperblockFromLog
            | Self::SuperblockInferred { .. }
            | Self::SuperblockFields
            | Self::SuperblockByCopies
            | Self::SuperblockCopy { .. }
            | Self::Counters
            | Self::LogReplayed { .. }
            | Self::LogReplayedInPart { .. }
            | Self::LsnCleared { .. }
            | Self::BitFlippedBack { .. }
            | Self::NewLog { .. }
            | Self::Group { .. }
            | Self::InodeChecksum { .. }
            | Self::InodeRebuilt { .. }
            | Self::FilePartial { .. }
            | Self::BlockFromLog { .. }
            | Self::BlockMoved { .. }
            | Self::OlderKept { .. }
            | Self::BlockField { .. }
            | Self::BigTimes { .. }
            | Self::BlockChecksum { .. }
            | Self::InodeLost { .. }
            | Self::InodeMended { .. }
            | Self::FreeInode { .. }
            | Self::InodeFlags { .. }
            | Self::InodeTimes { .. }
            | Self::InodeLsn { .. }
            | Self::InodeShares { .. }
            | Self::DirectorySize { .. }
            | Self::SizeOfSpecialFile { .. }
            | Self::SymlinkBlocks { .. }
            | Self::ExtentsWritten { .. }
            | Self::SymlinkLost { .. }
            | Self::InodeChunk { .. }
            | Self::RealtimeInode { .. }
            | Self::UnlinkedFreed { .. }
            | Self::ExtentMap { .. }
            | Self::BlocksGivenUp { .. }
            | Self::InodeBlocks { .. }
            | Self::LinkCount { .. }
            | Self::Directory { .. }
            | Self::Attributes { .. }
            | Self::AccessList { .. }
            | Self::NameRemoved { .. }
            | Self::NameAdded { .. }
            | Self::LostAndFound { .. }
            | Self::ParentPointerSet { .. }
            | Self::NameFromBlock { .. }
            | Self::ParentPointerRemoved { .. }
            | Self::QuotaRecord { .. }
            | Self::QuotaCounts { .. }
            | Self::QuotaInodeSize { .. }
            | Self::QuotaInode { .. } => None,
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
            Self::OfRoot | Self::OfItself | Self::Incomplete => None,
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
