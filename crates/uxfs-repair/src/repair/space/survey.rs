//! All inodes of all chunks once, from several threads: what inodes in use have, and which inodes need a decision.
//!
//! Most inodes are sound, in use, and have names: all that follows from them is gathered here, in an order that does not depend on the
//! threads. The others are decided one by one afterwards.

use std::{
    collections::{BTreeSet, HashMap},
    ops::ControlFlow,
    sync::atomic::AtomicBool,
};

use uxfs_format::{
    btree::{inode_index::InodeChunk, reverse_map::Mapping},
    inode::{Fork, InodeFlags2},
    units::{AgInode, AgNumber, InodeNumber},
};
use uxfs_volume::{
    error::Error,
    inode::{Inode, scan::ScanOptions},
    volume::Volume,
};

use crate::{
    block_use::list::{BlockUse, UseList},
    check::Context,
    extent_map,
    inode::gather::{Found, FoundInode, visit_chunks},
    inode_index::gather::ChunksFound,
    memory::Memory,
    observed::groups::SumsByGroup,
    parallel,
    sink::Sink,
    sum::Keys,
};

/// Chunks that a thread takes at once: 1 MiB of inodes of 512 bytes.
const CHUNKS_OF_A_PART: usize = 32;

/// Inodes of a chunk, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ChunkSurvey {
    /// Sound, in use, with names.
    pub in_use: u64,
    /// They need a decision.
    pub open: u64,
}

/// What inodes in use have.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Extents of files and of their btrees, by group.
    pub files: Vec<Vec<Mapping>>,
    /// Inodes with extents that could not be read.
    pub incomplete: BTreeSet<InodeNumber>,
    /// Inodes whose data may be shared.
    pub sharing: BTreeSet<InodeNumber>,
    /// Directories that parent pointers name.
    pub wanted: BTreeSet<InodeNumber>,
}

/// All chunks.
#[derive(Debug, Default)]
pub(super) struct Survey {
    chunks: HashMap<(AgNumber, AgInode), ChunkSurvey>,
    /// Of inodes that need no decision.
    pub contents: Contents,
    /// Inodes that are gone, or free in spite of the index, and those with a wrong checksum.
    pub lost: BTreeSet<InodeNumber>,
}

impl Survey {
    /// Of these chunks, group by group.
    pub fn of(volume: &Volume, found: &[ChunksFound], scan: ScanOptions) -> Self {
        let mut parts = Vec::new();
        for (group, found) in volume.geometry().groups().zip(found) {
            parts.extend(found.chunks.chunks(CHUNKS_OF_A_PART).map(|chunks| (group, chunks)));
        }
        let surveyed = parallel::in_order(scan.threads, parts.len(), |number| {
            let mut part = Part::new(volume, scan);
            if let Some((group, chunks)) = parts.get(number) {
                visit_chunks(volume, *group, chunks, &mut |chunk, inode| part.add(*group, chunk, inode));
            }
            part
        });
        let mut survey = Self::default();
        for part in surveyed {
            survey.chunks.extend(part.chunks);
            survey.lost.extend(part.lost);
            part.seen.add_to(&mut survey.contents);
        }
        survey
    }

    /// What was found of a chunk; `None` of one that was not among them.
    pub fn chunk(&self, group: AgNumber, start: AgInode) -> Option<ChunkSurvey> {
        self.chunks.get(&(group, start)).copied()
    }
}

/// What some inodes have.
pub(super) struct Seen<'v> {
    volume: &'v Volume,
    scan: ScanOptions,
    keys: Keys,
    list: UseList,
    incomplete: BTreeSet<InodeNumber>,
    sharing: BTreeSet<InodeNumber>,
    wanted: BTreeSet<InodeNumber>,
}

impl<'v> Seen<'v> {
    pub fn new(volume: &'v Volume, scan: ScanOptions) -> Self {
        let groups = volume.geometry().groups().map(AgNumber::get).collect();
        Self {
            volume,
            scan,
            keys: Keys::default(),
            list: UseList::of(groups),
            incomplete: BTreeSet::new(),
            sharing: BTreeSet::new(),
            wanted: BTreeSet::new(),
        }
    }

    /// Takes in an inode in use.
    pub fn keep(&mut self, inode: &Inode) {
        if inode.flags2().contains(InodeFlags2::REFLINK) {
            self.sharing.insert(inode.number);
        }
        let _ = self.volume.visit_parent_pointers(inode, |pointer| {
            self.wanted.insert(pointer.parent);
            Ok(ControlFlow::Continue(()))
        });
        let mut forget = |_| ControlFlow::Continue(());
        let context = Context {
            volume: self.volume,
            keys: self.keys.clone(),
            sink: Sink::new(&mut forget),
            scan: self.scan,
            memory: Memory::default(),
            uses: Some(&self.list),
            has_shared_extents: AtomicBool::default(),
            progress: None,
            see: None,
        };
        let mut sums = SumsByGroup::default();
        for fork in [Fork::Data, Fork::Attribute] {
            if extent_map::check::check(&context, inode, fork, &mut sums).is_none() {
                self.incomplete.insert(inode.number);
            }
        }
    }

    /// Adds all of it to what others have.
    pub fn add_to(self, contents: &mut Contents) {
        let groups = self.volume.geometry().ag_count as usize;
        if contents.files.len() < groups {
            contents.files.resize_with(groups, Vec::new);
        }
        for BlockUse { group, start, end, owner, .. } in self.list.into_uses() {
            if let Some(files) = contents.files.get_mut(group as usize) {
                files.push(owner.mapping(start, end.saturating_sub(start)));
            }
        }
        contents.incomplete.extend(self.incomplete);
        contents.sharing.extend(self.sharing);
        contents.wanted.extend(self.wanted);
    }
}

/// Groups in which these inodes lie or have blocks; `None` where not all that they have can be read.
pub(in crate::repair) fn groups_of(
    volume: &Volume,
    scan: ScanOptions,
    inodes: impl IntoIterator<Item = InodeNumber>,
) -> Option<BTreeSet<AgNumber>> {
    let geometry = volume.geometry();
    let (mut seen, mut groups) = (Seen::new(volume, scan), BTreeSet::new());
    for number in inodes {
        groups.extend(geometry.split_inode_number(number).map(|(group, _)| group));
        match volume.inode(number) {
            Ok(inode) => seen.keep(&inode),
            // It has nothing yet.
            Err(Error::Operation(_)) => {}
            Err(_) => return None,
        }
    }
    let mut contents = Contents::default();
    seen.add_to(&mut contents);
    let files = geometry.groups().zip(&contents.files).filter(|(_, files)| !files.is_empty());
    groups.extend(files.map(|(group, _)| group));
    contents.incomplete.is_empty().then_some(groups)
}

/// Some chunks.
struct Part<'v> {
    seen: Seen<'v>,
    chunks: Vec<((AgNumber, AgInode), ChunkSurvey)>,
    lost: Vec<InodeNumber>,
}

impl<'v> Part<'v> {
    fn new(volume: &'v Volume, scan: ScanOptions) -> Self {
        Self { seen: Seen::new(volume, scan), chunks: Vec::new(), lost: Vec::new() }
    }

    fn add(&mut self, group: AgNumber, chunk: &InodeChunk, FoundInode { number, index, found }: FoundInode) {
        let key = (group, chunk.start);
        if self.chunks.last().is_none_or(|(last, _)| *last != key) {
            self.chunks.push((key, ChunkSurvey::default()));
        }
        let Some((_, survey)) = self.chunks.last_mut() else { return };
        let bit = 1_u64.checked_shl(index).unwrap_or(0);
        let is_allocated = chunk.is_allocated(index);
        match found {
            Found::InUse(inode) if inode.link_count() > 0 && inode.next_unlinked().is_none() => {
                survey.in_use |= bit;
                self.seen.keep(&inode);
            }
            Found::InUse(_) => survey.open |= bit,
            Found::Free if !is_allocated => {}
            Found::Free | Found::Damaged(_) | Found::WithoutChecksum(_) => {
                survey.open |= bit;
                self.lost.push(number);
            }
        }
    }
}
