//! What a repair could not bring back, and the witness that would have known it.

use std::collections::BTreeSet;

use uxfs_format::{inode::Fork, units::InodeNumber};

use super::action::{Action, InodeSource, RecordSource};

/// The fate of a file with lost contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileLoss {
    /// Its names remain, and it is empty.
    Empty,
    /// It is gone.
    GivenUp,
    /// It lies in `lost+found`, and reads as zeros in part.
    Partial,
}

impl FileLoss {
    /// What to say of the file.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Empty => "empty, since nothing of its contents is known",
            Self::GivenUp => "given up",
            Self::Partial => "parts of it are missing, and read as zeros",
        }
    }
}

impl Action {
    /// The file that this action gives up, wholly or in part.
    pub fn file_loss(&self) -> Option<(InodeNumber, FileLoss)> {
        match self {
            Self::InodeRebuilt { inode, source, .. } if source.is_stand_in() => {
                Some((*inode, FileLoss::Empty))
            }
            Self::InodeLost { inode, .. } | Self::SymlinkLost { inode } => Some((*inode, FileLoss::GivenUp)),
            Self::FilePartial { inode } => Some((*inode, FileLoss::Partial)),
            _ => None,
        }
    }

    /// The inode whose data fork this action sets, or that it gives up.
    pub(super) const fn rebuilt_inode(&self) -> Option<InodeNumber> {
        match self {
            Self::ExtentMapOverruled { inode, fork: Fork::Data, .. }
            | Self::InodeRebuilt { inode, .. }
            | Self::InodeLost { inode, .. } => Some(*inode),
            _ => None,
        }
    }

    /// The inode that this action keeps, sets or gives up, if it is about the whole of one.
    pub(super) const fn known_inode(&self) -> Option<InodeNumber> {
        match self {
            Self::ExtentMapKept { inode, .. }
            | Self::FreeInode { inode }
            | Self::OlderKept { inode, .. }
            | Self::UnlinkedFreed { inode } => Some(*inode),
            _ => self.rebuilt_inode(),
        }
    }

    /// The witness that was missing, in words, where this action leaves something lost, guessed or without its name.
    pub fn missing_witness(&self) -> Option<&'static str> {
        Some(match self {
            Self::InodeRebuilt { source, .. } if source.is_stand_in() => {
                "a record of blocks of a file: nothing of its contents is known, and it is empty"
            }
            Self::InodeRebuilt { source: InodeSource::Inferred(_), .. } => {
                "a copy of an inode in the log: owner, permissions, times, attributes in the inode and exact size are guesses"
            }
            Self::InodeRebuilt { source: InodeSource::LogWithoutAttributes, .. } => {
                "a copy of the attributes in an inode: those that it had beside its names are lost"
            }
            Self::InodeRebuilt { source: InodeSource::DamagedLog, .. } => {
                "a later record of the log, which is damaged: the inode may be of an older time"
            }
            Self::InodeRebuilt { source: InodeSource::Remains, .. } => {
                "a copy of an inode's mode: its permissions are guesses"
            }
            Self::InodeChecksum { .. } => {
                "a copy of an inode in the log: its checksum was wrong, and which field is wrong is not known"
            }
            Self::BlockChecksum { .. } => {
                "a copy of a target or value: its checksum was wrong, and bytes of it may be"
            }
            Self::InodeMended { .. }
            | Self::InodeUnproved { .. }
            | Self::InodeFlags { .. }
            | Self::InodeTimes { .. }
            | Self::SizeOfSpecialFile { .. }
            | Self::SuperblockFields => "a copy of a field: it has a neutral value",
            Self::OlderKept { .. } | Self::InodePerhapsOlder { .. } => {
                "what an inode or block lost with a write: the log has overwritten it"
            }
            Self::InodeLost { .. } => {
                "an entry, a parent pointer or a record of blocks of an inode: it is lost"
            }
            Self::SymlinkLost { .. } => "a copy of the target of a symbolic link: it is lost",
            Self::FilePartial { .. } => {
                "a reverse map record or an extent map for some blocks of a file: it is partial, in lost+found"
            }
            Self::Directory { removed: 1.., .. } | Self::NameRemoved { .. } => {
                "the inode that an entry names"
            }
            Self::Attributes { is_any_lost: true, .. }
            | Self::BlockField { removed: 1.., .. }
            | Self::AccessList { .. } => "a copy of attributes that cannot be read",
            Self::QuotaRecord { source: RecordSource::Remains | RecordSource::Nothing, .. }
            | Self::QuotaInode { .. } => "a copy of quota limits",
            Self::LostAndFound { .. } => {
                "an entry or a parent pointer that names an inode: it is in lost+found"
            }
            _ => return None,
        })
    }
}

/// Realtime inodes that were given up, and made again empty as they were, are no loss.
pub(super) fn forget_made_again(actions: &mut Vec<Action>) {
    let mut made = BTreeSet::new();
    actions.retain(|action| match action {
        Action::RealtimeInode { inode } => made.insert(*inode),
        _ => true,
    });
    actions.retain(|action| !matches!(action, Action::InodeLost { inode, .. } if made.contains(inode)));
}

#[cfg(test)]
mod tests {
    use uxfs_format::{
        inode::FileType,
        units::{AgNumber, InodeNumber},
    };

    use super::*;
    use crate::repair::action::{Inference, TypeSource};

    #[test]
    fn what_is_made_from_other_witnesses_lacks_none() {
        let inode = InodeNumber::new(131);
        let made_up = Inference {
            file_type: FileType::Regular,
            type_from: TypeSource::Entry,
            owner_from: None,
            size_bytes: 1,
            has_unknown_contents: false,
        };
        let rebuilt = |source| Action::InodeRebuilt { inode, source, fault: None };
        assert_eq!(rebuilt(InodeSource::Log).missing_witness(), None);
        assert!(
            rebuilt(InodeSource::Inferred(made_up))
                .missing_witness()
                .is_some_and(|words| words.contains("log"))
        );
        let stand_in = Inference { size_bytes: 0, has_unknown_contents: true, ..made_up };
        let losses = [made_up, stand_in].map(|made_up| rebuilt(InodeSource::Inferred(made_up)).file_loss());
        assert_eq!(losses, [None, Some((inode, FileLoss::Empty))]);
        let group = Action::Group { group: AgNumber::new(1), chunks_without_index: 0 };
        assert_eq!(group.missing_witness(), None);
        let directory = |removed| Action::Directory {
            inode,
            names: 3,
            from_parent_pointers: 3,
            removed,
            is_any_unread: true,
        };
        assert_eq!(directory(0).missing_witness(), None);
        assert!(directory(1).missing_witness().is_some());
    }
}
