//! Inodes and blocks that a repair or a check leaves in doubt.
//!
//! | a repair | makes of the inode |
//! |---|---|
//! | took its core from the log alone; rebuilt an extent map, a group, a directory or names from a second witness | nothing: that witness said all of it |
//! | rebuilt a directory in which names were missing, or of which entries could not be read | inferred: names of files that are lost, too, are not known |
//! | guessed any of it, kept it with a wrong checksum, gave it neutral values, or rebuilt attributes from those that could be read | inferred |
//! | removed a name of an inode that is still there | inferred, the directory: the name may have been right |
//! | found fewer blocks than the inode counts; rebuilt a directory without parent pointers | partial |
//! | had blocks of other files, although its flag says that it has none | inferred |
//! | without a reverse map: recounted the blocks of an inode, had blocks that others had or that were free | inferred |
//! | believed one witness of a name against another, or an old directory block | inferred |
//! | gave up a log | perhaps older: every inode |
//! | kept it although the log has a newer change of it | perhaps older |
//! | left a finding | inferred; partial where a structure of it cannot be read |
//!
//! What came from the log is inferred as well where a part of the log cannot be read: the newest copy may be there.

use std::collections::{BTreeMap, BTreeSet};

use uxfs_block::ranges::RangeSet;
use uxfs_format::{fault::Structure, geometry::Geometry, inode::Fork, units::InodeNumber};
use uxfs_repair::{
    Finding,
    repair::action::{Action, Action as A, InodeSource, PointerCause, Rejection, Strength},
};

use crate::state::{State, Verdict};

/// Inodes with doubts that are kept. With more, every inode is in doubt.
const MOST_INODES: usize = 1 << 20;

/// All doubts.
#[derive(Debug, Default)]
pub struct Evidence {
    by_inode: BTreeMap<InodeNumber, Verdict>,
    /// Files of which blocks are missing without a trace of where: any hole of them may have held bytes.
    without_blocks: BTreeSet<InodeNumber>,
    /// Inodes that a repair gave up. Their numbers may be those of other inodes afterwards.
    given_up: BTreeSet<InodeNumber>,
    /// Inodes that the log had in full.
    from_log: BTreeSet<InodeNumber>,
    /// Empty files with unknown contents.
    stand_ins: BTreeSet<InodeNumber>,
    /// Bytes of the device that several things claim.
    suspect: RangeSet,
    /// Why every inode is in doubt.
    of_all: Option<Verdict>,
    /// A part of the log cannot be read.
    pub is_log_unreadable: bool,
}

impl Evidence {
    /// What is doubtful about an inode.
    pub fn of(&self, inode: InodeNumber) -> Verdict {
        let mut verdict = self.by_inode.get(&inode).cloned().unwrap_or_default();
        self.of_all.iter().for_each(|all| verdict.merge(all));
        verdict
    }

    /// Whether holes of the file may have held bytes.
    pub fn is_without_blocks(&self, inode: InodeNumber) -> bool {
        self.without_blocks.contains(&inode)
    }

    /// Whether a repair gave up the inode that had this number. Another one may have it now.
    pub fn is_given_up(&self, inode: InodeNumber) -> bool {
        self.given_up.contains(&inode)
    }

    /// Whether the file is empty because its contents are unknown.
    pub fn is_stand_in(&self, inode: InodeNumber) -> bool {
        self.stand_ins.contains(&inode)
    }

    /// Whether the inode is as the log had it.
    pub fn is_from_log(&self, inode: InodeNumber) -> bool {
        self.from_log.contains(&inode)
    }

    /// Bytes of the device that several things claim.
    pub fn suspect(&self) -> &RangeSet {
        &self.suspect
    }

    /// Adds a doubt about an inode.
    pub fn doubt(&mut self, inode: InodeNumber, state: State, reason: impl Into<String>) {
        if self.by_inode.len() >= MOST_INODES && !self.by_inode.contains_key(&inode) {
            self.doubt_all(State::Inferred, "more inodes are in doubt than could be remembered");
            return;
        }
        self.by_inode.entry(inode).or_default().add(state, reason);
    }

    /// Why every inode is in doubt.
    pub fn doubt_about_all(&self) -> Option<&Verdict> {
        self.of_all.as_ref()
    }

    /// Adds a doubt about every inode.
    pub fn doubt_all(&mut self, state: State, reason: impl Into<String>) {
        self.of_all.get_or_insert_default().add(state, reason);
    }

    /// What a change of a repair makes doubtful.
    pub fn add_action(&mut self, action: &Action, geometry: &Geometry) {
        match action {
            Action::NewLog { is_unread: true, .. } => {
                self.doubt_all(State::PerhapsOlder, format!("repair: {action}"));
            }
            Action::InodeRebuilt { inode, source: InodeSource::Log, .. } => {
                self.from_log.insert(*inode);
            }
            Action::InodeRebuilt { inode, source, .. } if source.is_stand_in() => {
                self.stand_ins.insert(*inode);
            }
            Action::InodeLost { inode, .. } | Action::SymlinkLost { inode, .. } => {
                self.given_up.insert(*inode);
            }
            // Its name may have been the right one. That of an inode that was given up is told as lost.
            Action::NameRemoved { directory, inode, .. } if !self.given_up.contains(inode) => {
                self.doubt(*directory, State::Inferred, format!("repair: {action}"));
            }
            Action::BlocksGivenUp { inode, fork: Fork::Data, .. } | Action::FilePartial { inode } => {
                self.without_blocks.insert(*inode);
            }
            Action::InodeBlocks { inode, found, expected }
                if found > expected && !geometry.features.has_reverse_map() =>
            {
                self.without_blocks.insert(*inode);
            }
            _ => {}
        }
        if let Some((inode, state)) = self.state_after(action, geometry) {
            self.doubt(inode, state, format!("repair: {action}"));
        }
    }

    /// An inode that a change concerns, and its state by that.
    fn state_after(&self, action: &Action, geometry: &Geometry) -> Option<(InodeNumber, State)> {
        let features = &geometry.features;
        let log = if self.is_log_unreadable { State::Inferred } else { State::Whole };
        let (inode, state) = match action {
            Action::InodeRebuilt { inode, source: InodeSource::Log, .. }
            | Action::BlockFromLog { inode, .. } => (inode, log),
            Action::InodeRebuilt { inode, .. }
            | Action::InodeMended { inode, .. }
            | Action::InodeUnproved { inode, .. }
            | Action::InodeChecksum { inode }
            | Action::BlockChecksum { inode, .. }
            | Action::ProvedByChecksum { inode: Some(inode), is_guess: true, .. }
            | Action::InodeFlags { inode, .. }
            | Action::InodeTimes { inode }
            // Its flag says that its blocks are its own.
            | Action::InodeShares { inode }
            | Action::SizeOfSpecialFile { inode, .. }
            | Action::AccessList { inode, .. }
            | Action::RealtimeInode { inode }
            // Nothing tells whether there were more of them.
            | Action::Attributes { inode, .. }
            | Action::BlockField { inode, removed: 1.., .. }
            | Action::BlockField { inode, guessed: 1.., .. }
            | Action::BlocksGivenUp { inode, fork: Fork::Attribute, .. }
            | Action::ExtentMapOverruled { inode, .. }
            | Action::ExtentMapKept { inode, .. }
            | Action::ExtentMap { inode, fork: Fork::Attribute, .. } => (inode, State::Inferred),
            Action::OlderKept { inode, .. } | Action::InodePerhapsOlder { inode } => (inode, State::PerhapsOlder),
            Action::BlocksGivenUp { inode, .. } | Action::FilePartial { inode } => (inode, State::Partial),
            Action::ExtentMap { inode, .. }
            | Action::ExtentsWritten { inode }
            | Action::ExtentsUnwritten { inode }
            | Action::SymlinkBlocks { inode } => (inode, State::Whole),
            // Entries that no parent pointer repeats may be gone.
            Action::Directory { inode, .. } if !features.has_parent_pointers() => (inode, State::Partial),
            // So may those of files that are lost, too.
            Action::Directory { inode, from_parent_pointers: 1.., .. }
            | Action::Directory { inode, is_any_unread: true, .. } => (inode, State::Inferred),
            Action::Directory { inode, .. } => (inode, State::Whole),
            // Nothing but the count tells that the extents are wrong.
            Action::InodeBlocks { inode, found, expected } if !features.has_reverse_map() => {
                (inode, if found > expected { State::Partial } else { State::Inferred })
            }
            _ => return state_of_name(action),
        };
        Some((*inode, state))
    }

    /// What a finding that a repair has left makes doubtful.
    pub fn add_finding(&mut self, finding: &Finding, geometry: &Geometry) {
        self.suspect_blocks(finding, geometry);
        if let Finding::LogNotReplayed { .. } = finding {
            self.doubt_all(State::PerhapsOlder, finding.to_string());
            return;
        }
        let state = match finding {
            // These say nothing about the inode's contents or metadata.
            Finding::LinkCount { .. }
            | Finding::ParentPointerMissing { .. }
            | Finding::ParentPointerWithoutEntry { .. }
            | Finding::Unlinked { .. }
            | Finding::NextUnlinked { .. }
            | Finding::IndexEntry { .. }
            | Finding::FreeIndex { .. }
            | Finding::NodeHash { .. }
            | Finding::EntryNotIndexed { .. }
            | Finding::NoName { .. }
            | Finding::FreeInode { .. }
            | Finding::EntryOfFreeInode { .. } => return,
            Finding::Damaged { corruption } => match corruption.structure {
                Structure::Inode => State::Inferred,
                _ => State::Partial,
            },
            Finding::Unreadable { .. } | Finding::NotChecked { .. } => State::Partial,
            Finding::InodeBlocks { inode, found, expected } if found > expected => {
                self.without_blocks.insert(*inode);
                State::Partial
            }
            _ => State::Inferred,
        };
        let object = finding.object(geometry);
        if let Some(inode) = object.inode {
            self.doubt(inode, state, finding.to_string());
        }
    }

    /// What a check of the image without its repair has found: which file has blocks rightly that two had, or that were free, the repair has
    /// decided without a reverse map.
    pub fn add_conflict(&mut self, finding: &Finding, geometry: &Geometry) {
        if let Finding::FreeBlocksInUse { .. } | Finding::BlocksUsedTwice { .. } = finding {
            self.suspect_blocks(finding, geometry);
        }
    }

    /// Blocks of which a finding says that something else has them, too, or that they are not the file's.
    fn suspect_blocks(&mut self, finding: &Finding, geometry: &Geometry) {
        let (group, start, length_blocks) = match finding {
            Finding::FreeBlocksInUse { group, start, length_blocks, .. }
            | Finding::BlocksUsedTwice { group, start, length_blocks, .. } => {
                (*group, *start, *length_blocks)
            }
            Finding::MappingWithoutOwner { group, mapping } | Finding::MappingMissing { group, mapping } => {
                (*group, mapping.start, mapping.length_blocks)
            }
            Finding::SpaceSum { group } => {
                let length_blocks = geometry.group_length_blocks(*group).unwrap_or(0);
                (*group, uxfs_format::units::AgBlock::new(0), length_blocks)
            }
            _ => return,
        };
        let Some(sector) = geometry.sector_of_group_block(group, start) else { return };
        let first = Geometry::byte_of_sector(sector);
        let length_bytes = u64::from(length_blocks) << geometry.block_log;
        self.suspect.insert(first..first.saturating_add(length_bytes));
    }
}

/// The inode that keeps a name against another one: that the name is its own is a guess.
fn of_kept(because: Option<&Rejection>) -> Option<(InodeNumber, State)> {
    match because {
        Some(Rejection::OtherInode { kept, kept_by, .. }) => {
            (*kept_by != Strength::Both).then_some((*kept, State::Inferred))
        }
        _ => None,
    }
}

/// The inode whose name an action guesses. `None` for derived structures, lost objects, links that the manifest does not list, and actions
/// that `state_after` handles.
fn state_of_name(action: &Action) -> Option<(InodeNumber, State)> {
    match action {
        A::ParentPointerSet { cause: PointerCause::MadeAnew, .. } => None,
        A::ParentPointerSet { inode, .. }
        | A::NameAdded { inode, .. }
        | A::NameFromBlock { inode, .. }
        | A::LostAndFound { inode, .. } => Some((*inode, State::Inferred)),
        A::NameRemoved { because, .. } | A::ParentPointerRemoved { because, .. } => of_kept(because.as_ref()),
        A::PrimarySuperblock
        | A::SuperblockFromLog
        | A::SuperblockInferred { .. }
        | A::SuperblockFields
        | A::SuperblockAttributes
        | A::SuperblockByCopies
        | A::SuperblockLog { .. }
        | A::SuperblockRoot { .. }
        | A::MetadataFlags { .. }
        | A::SuperblockCopy { .. }
        | A::Counters
        | A::LogReplayed { .. }
        | A::LogReplayedInPart { .. }
        | A::LsnCleared { .. }
        | A::BitFlippedBack { .. }
        | A::ProvedByChecksum { .. }
        | A::NewLog { .. }
        | A::Group { .. }
        | A::BigTimes { .. }
        | A::BlockMoved { .. }
        | A::OlderKept { .. }
        | A::InodePerhapsOlder { .. }
        | A::InodeChecksum { .. }
        | A::InodeLsn { .. }
        | A::InodeShares { .. }
        | A::DirectorySize { .. }
        | A::SymlinkSize { .. }
        | A::QuotaRecord { .. }
        | A::QuotaCounts { .. }
        | A::QuotaInodeSize { .. }
        | A::QuotaInode { .. }
        | A::BlockChecksum { .. }
        | A::InodeRebuilt { .. }
        | A::FilePartial { .. }
        | A::BlockFromLog { .. }
        | A::BlockField { .. }
        | A::InodeLost { .. }
        | A::InodeMended { .. }
        | A::InodeUnproved { .. }
        | A::FreeInode { .. }
        | A::InodeFlags { .. }
        | A::InodeTimes { .. }
        | A::SizeOfSpecialFile { .. }
        | A::SymlinkBlocks { .. }
        | A::ExtentsWritten { .. }
        | A::ExtentsUnwritten { .. }
        | A::SymlinkLost { .. }
        | A::InodeChunk { .. }
        | A::RealtimeInode { .. }
        | A::UnlinkedFreed { .. }
        | A::ExtentMap { .. }
        | A::ExtentMapOverruled { .. }
        | A::ExtentMapKept { .. }
        | A::BlocksGivenUp { .. }
        | A::InodeBlocks { .. }
        | A::LinkCount { .. }
        | A::Directory { .. }
        | A::Attributes { .. }
        | A::AccessList { .. } => None,
    }
}
