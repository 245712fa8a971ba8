use std::collections::BTreeSet;

use uxfs_format::{
    fault::Structure,
    inode::{Fork, InodeFault},
    quota::QuotaKind,
    units::{AgBlock, AgInode, AgNumber, FsBlock, InodeNumber, Sector},
};

use super::super::{Action, ChangedField, InodeSource, MapWitness, PointerCause, RecordSource};
use crate::{finding::Name, geometry::Witnesses};

const GROUP: AgNumber = AgNumber::new(3);
const INODE: InodeNumber = InodeNumber::new(131);
const DIRECTORY: InodeNumber = InodeNumber::new(128);
const SECTOR: Sector = Sector::new(77);
const STRUCTURE: Structure = Structure::DirectoryBlock;
const FAULT: InodeFault = InodeFault::FreeThoughIndexed;

fn name() -> Name {
    b"name".as_slice().into()
}

fn of_file_system() -> Vec<Action> {
    vec![
        Action::PrimarySuperblock,
        Action::SuperblockFromLog,
        Action::SuperblockInferred { witnesses: Witnesses::default() },
        Action::SuperblockFields,
        Action::SuperblockAttributes,
        Action::SuperblockByCopies,
        Action::SuperblockLog { start: FsBlock::new(5), length_blocks: 9 },
        Action::SuperblockRoot { inode: INODE, is_metadata: true },
        Action::SuperblockCopy { group: GROUP },
        Action::Counters,
        Action::LogReplayed { transactions: 5 },
        Action::LogReplayedInPart { transactions: 5, intents: 2 },
        Action::LsnCleared { structure: STRUCTURE, sector: SECTOR },
        Action::NewLog { cycle: 9, is_unread: true },
        Action::Group { group: GROUP, chunks_without_index: 1 },
        Action::InodeChunk { group: GROUP, first: AgInode::new(64) },
    ]
}

fn of_blocks_and_forks() -> Vec<Action> {
    let (structure, inode, sector, fork) = (STRUCTURE, INODE, SECTOR, Fork::Data);
    vec![
        Action::BitFlippedBack { structure, inode: Some(inode), sector: Some(sector), bit: 12 },
        Action::ProvedByChecksum {
            structure,
            inode: Some(inode),
            sector: Some(sector),
            fields: 1,
            bits: vec![7, 12],
            is_guess: true,
        },
        Action::BlockFromLog { structure, inode, sector },
        Action::BlockMoved { structure, inode, sector, from: Sector::new(99) },
        Action::OlderKept { structure, inode, sector },
        Action::InodePerhapsOlder { inode },
        Action::BlockField { structure, inode, sector, removed: 1, guessed: 0 },
        Action::BlockChecksum { structure, inode, sector },
        Action::ExtentMap { inode, fork, extents: 4 },
        Action::ExtentMapOverruled { inode, fork, extents: 4, by: MapWitness::Size },
        Action::ExtentMapKept { inode, fork },
        Action::BlocksGivenUp {
            inode,
            fork,
            group: GROUP,
            start: AgBlock::new(8),
            blocks: 2,
            kept_by: None,
            is_chosen: false,
        },
        Action::SymlinkBlocks { inode },
        Action::ExtentsWritten { inode },
        Action::ExtentsUnwritten { inode },
        Action::Attributes { inode, attributes: 3, is_any_lost: true },
        Action::AccessList { inode, removed: Some(2) },
    ]
}

fn of_inodes() -> Vec<Action> {
    let inode = INODE;
    vec![
        Action::InodeChecksum { inode },
        Action::InodeRebuilt { inode, source: InodeSource::Remains, fault: None },
        Action::InodeLost { inode, fault: FAULT },
        Action::FreeInode { inode },
        Action::FilePartial { inode },
        Action::SymlinkLost { inode },
        Action::RealtimeInode { inode },
        Action::UnlinkedFreed { inode },
        Action::InodeMended { inode, fault: FAULT },
        Action::InodeUnproved { inode, fields: vec![ChangedField { name: "owner", found: 5, now: 0 }] },
        Action::InodeFlags { inode, flags: 1, flags2: 2 },
        Action::MetadataFlags { inode, is_metadata: true },
        Action::InodeTimes { inode },
        Action::BigTimes { inode },
        Action::InodeLsn { inode },
        Action::InodeShares { inode },
        Action::DirectorySize { inode, found: 1, expected: 2 },
        Action::SymlinkSize { inode, found: 1, expected: 2, is_guessed: false },
        Action::SizeOfSpecialFile { inode, found: 1 },
        Action::InodeBlocks { inode, found: 1, expected: 2 },
        Action::LinkCount { inode, found: 2, expected: 1 },
    ]
}

fn of_names_and_quotas() -> Vec<Action> {
    let (directory, inode, quota) = (DIRECTORY, INODE, QuotaKind::Group);
    vec![
        Action::Directory { inode, names: 3, from_parent_pointers: 1, removed: 1, is_any_unread: true },
        Action::NameRemoved { directory, name: name(), inode, because: None },
        Action::NameAdded { directory, name: name(), inode },
        Action::NameFromBlock { inode, directory, name: name() },
        Action::LostAndFound { inode, folder: b"lost+found"[..].into(), name: name() },
        Action::ParentPointerSet { inode, directory, name: name(), cause: PointerCause::EntryAlone },
        Action::ParentPointerRemoved { inode, directory, name: name(), because: None },
        Action::QuotaRecord { inode, quota, id: 5, source: RecordSource::Remains },
        Action::QuotaCounts { quota },
        Action::QuotaInodeSize { inode, found: 1 },
        Action::QuotaInode { inode, quota },
    ]
}

/// Each variant has a sentence, a word and fields of its own. One that is missing in the lists above fails as well.
#[test]
fn each_change_is_told_and_described() {
    let samples = [of_file_system(), of_blocks_and_forks(), of_inodes(), of_names_and_quotas()].concat();
    let variant = |action: &Action| format!("{action:?}").split(' ').next().unwrap().to_owned();
    let told: BTreeSet<String> = samples.iter().map(variant).collect();
    let all: BTreeSet<String> = Action::VARIANTS.iter().map(ToString::to_string).collect();
    assert_eq!(told, all);
    let sentences: BTreeSet<String> = samples.iter().map(ToString::to_string).collect();
    let words: BTreeSet<&str> = samples.iter().map(|action| action.description().what).collect();
    assert_eq!((sentences.len(), words.len()), (all.len(), all.len()), "{words:?}");
    let kinds: BTreeSet<&str> = samples.iter().map(Action::words_of_kind).collect();
    assert!(kinds.len() == all.len() && kinds.is_disjoint(&words), "{kinds:?}");
    for action in &samples {
        let is_told = action.to_string().len() > 10 && action.description().what != "unknown";
        assert!(is_told, "{action:?}: {action}, {:?}", action.description());
        // What was inferred from which structures is told in words only.
        let has_values =
            format!("{action:?}").contains('{') && !matches!(action, Action::SuperblockInferred { .. });
        assert_eq!(!action.fields().is_empty(), has_values, "{action:?}");
    }
}
