//! A few bytes for each inode that the inode index says is in use, to be filled by several threads.
//!
//! A chunk of 64 inodes takes 336 bytes. Inodes are named by ordinals of 32 bits here, so that a directory can note its parent in
//! four bytes; inodes beyond 2³² are left out, and [`InodeTable::is_complete`] says so.

use std::{
    collections::{BTreeSet, HashSet},
    sync::atomic::{
        AtomicU8, AtomicU32,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

use parking_lot::Mutex;
use uxfs_format::{
    btree::inode_index::InodeChunk,
    geometry::{Geometry, INODES_PER_CHUNK},
    inode::FileType,
    units::{AgInode, AgNumber, InodeNumber},
};

const CHUNK: usize = INODES_PER_CHUNK as usize;
/// Chunks whose inodes have ordinals.
const MOST_CHUNKS: u32 = u32::MAX / INODES_PER_CHUNK - 1;

/// The file type; 0 for an inode that could not be read.
const TYPE: u8 = 7;
/// A directory whose parent is known from an entry, and not from `..` alone.
const NAMED: u8 = 8;
/// A directory that the root leads to.
const REACHED: u8 = 16;
/// A directory on the way that is being followed to the root.
const FOLLOWED: u8 = 32;

/// An inode of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ordinal(u32);

/// All inodes in use.
#[derive(Debug, Default)]
pub(crate) struct InodeTable {
    /// By group.
    groups: Vec<GroupInodes>,
    chunks: u32,
    is_incomplete: bool,
    /// Held while the parent of any directory is compared or set.
    parents: Mutex<()>,
    /// Inodes in lists of unlinked inodes.
    unlinked: HashSet<InodeNumber>,
    /// Groups whose lists of unlinked inodes could not be read to their ends.
    missed_lists: BTreeSet<AgNumber>,
}

#[derive(Debug, Default)]
struct GroupInodes {
    /// Chunks of the groups before.
    chunks_before: u32,
    chunks: Vec<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    start: u32,
    in_use: u64,
    /// Of a directory one more than the ordinal of its parent, 0 where that is not known; of any other inode the names that its
    /// link count says and that were not found, modulo 2³².
    words: [AtomicU32; CHUNK],
    states: [AtomicU8; CHUNK],
}

/// The parent of a directory, by its entry or its `..`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParentNote {
    /// It agrees with what was known.
    Agrees,
    /// An entry in another directory was there before.
    NamedBefore,
    /// `..` and the entry lead to different directories.
    Contradicts {
        /// The directory that `..` names.
        dot_dot: Ordinal,
        /// The directory with the entry.
        named_in: Ordinal,
    },
}

/// Where a note about a parent comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParentWitness {
    /// `..` of the directory.
    DotDot,
    /// An entry of the parent.
    Entry,
}

impl InodeTable {
    /// Begins the next group.
    pub fn begin_group(&mut self) {
        self.groups.push(GroupInodes { chunks_before: self.chunks, chunks: Vec::new() });
    }

    /// Adds a chunk of the group that was begun last, behind those that it has.
    pub fn add(&mut self, chunk: &InodeChunk) {
        let (Some(group), true) = (self.groups.last_mut(), self.chunks < MOST_CHUNKS) else {
            self.is_incomplete = true;
            return;
        };
        self.chunks += 1;
        group.chunks.push(Chunk {
            start: chunk.start.get(),
            in_use: chunk.allocated(),
            words: std::array::from_fn(|_| AtomicU32::new(0)),
            states: std::array::from_fn(|_| AtomicU8::new(0)),
        });
    }

    /// Ends the group that was begun last.
    pub fn end_group(&mut self) {
        if let Some(group) = self.groups.last_mut() {
            group.chunks.shrink_to_fit();
        }
    }

    /// Notes an inode of a list of unlinked inodes; `false` where it was noted before.
    pub fn note_unlinked(&mut self, inode: InodeNumber) -> bool {
        self.unlinked.insert(inode)
    }

    /// A list of unlinked inodes of a group could not be read to its end.
    pub fn miss_unlinked(&mut self, group: AgNumber) {
        self.missed_lists.insert(group);
    }

    /// Whether an inode is in a list of unlinked inodes, or in one that could not be read.
    pub fn may_be_unlinked(&self, geometry: &Geometry, inode: InodeNumber) -> bool {
        let group = geometry.split_inode_number(inode).map(|(group, _)| group);
        self.unlinked.contains(&inode) || group.is_none_or(|group| self.missed_lists.contains(&group))
    }

    /// Whether all inodes have ordinals.
    pub fn is_complete(&self) -> bool {
        !self.is_incomplete
    }

    /// The inode with this number, if the index says that it is in use.
    pub fn find(&self, geometry: &Geometry, number: InodeNumber) -> Option<Ordinal> {
        let (group, inode) = geometry.split_inode_number(number)?;
        let group = self.groups.get(group.get() as usize)?;
        let place = group.chunks.partition_point(|chunk| chunk.start <= inode.get()).checked_sub(1)?;
        let chunk = group.chunks.get(place)?;
        let index = inode.get() - chunk.start;
        if index >= INODES_PER_CHUNK || chunk.in_use >> index & 1 == 0 {
            return None;
        }
        Some(Ordinal((group.chunks_before + place as u32) * INODES_PER_CHUNK + index))
    }

    fn place(&self, ordinal: Ordinal) -> Option<(usize, &Chunk, usize)> {
        let chunk = ordinal.0 / INODES_PER_CHUNK;
        let index = self.groups.partition_point(|group| group.chunks_before <= chunk).checked_sub(1)?;
        let group = self.groups.get(index)?;
        let in_group = chunk.checked_sub(group.chunks_before)?;
        let chunk = group.chunks.get(in_group as usize)?;
        Some((index, chunk, (ordinal.0 % INODES_PER_CHUNK) as usize))
    }

    fn slot(&self, ordinal: Ordinal) -> Option<(&AtomicU32, &AtomicU8)> {
        let (_, chunk, index) = self.place(ordinal)?;
        Some((chunk.words.get(index)?, chunk.states.get(index)?))
    }

    /// The number of an inode.
    pub fn number(&self, geometry: &Geometry, ordinal: Ordinal) -> InodeNumber {
        let Some((group, chunk, index)) = self.place(ordinal) else { return InodeNumber::NULL };
        let inode = AgInode::new(chunk.start.wrapping_add(index as u32));
        geometry.inode_number(AgNumber::new(group as u32), inode)
    }

    /// An inode was read.
    pub fn set(&self, ordinal: Ordinal, file_type: FileType, link_count: u32) {
        let Some((word, state)) = self.slot(ordinal) else { return };
        let is_directory = file_type == FileType::Directory;
        word.store(if is_directory { 0 } else { link_count }, Release);
        state.store(file_type.directory_code(), Release);
    }

    /// The type of an inode; `None` where it could not be read.
    pub fn file_type(&self, ordinal: Ordinal) -> Option<FileType> {
        let (_, state) = self.slot(ordinal)?;
        FileType::from_directory_code(state.load(Acquire) & TYPE)
    }

    /// A file that is no directory has a name.
    pub fn add_name(&self, ordinal: Ordinal) {
        if let Some((word, _)) = self.slot(ordinal) {
            word.fetch_sub(1, AcqRel);
        }
    }

    /// Names that the link count of a file says and that were not found, modulo 2³².
    pub fn missing_names(&self, ordinal: Ordinal) -> u32 {
        self.slot(ordinal).map_or(0, |(word, _)| word.load(Acquire))
    }

    /// Notes the parent of a directory, and compares it with what was noted before.
    pub fn note_parent(&self, directory: Ordinal, parent: Ordinal, witness: ParentWitness) -> ParentNote {
        let Some((word, state)) = self.slot(directory) else { return ParentNote::Agrees };
        let _guard = self.parents.lock();
        let is_named = state.load(Relaxed) & NAMED != 0;
        let before = word.load(Relaxed).checked_sub(1).map(Ordinal);
        if witness == ParentWitness::Entry {
            if is_named {
                return ParentNote::NamedBefore;
            }
            state.fetch_or(NAMED, AcqRel);
        }
        let note = match (before, witness) {
            (Some(before), _) if before == parent => return ParentNote::Agrees,
            (None, _) => ParentNote::Agrees,
            (Some(dot_dot), ParentWitness::Entry) => ParentNote::Contradicts { dot_dot, named_in: parent },
            (Some(named_in), ParentWitness::DotDot) => {
                return ParentNote::Contradicts { dot_dot: parent, named_in };
            }
        };
        word.store(parent.0.wrapping_add(1), Release);
        note
    }

    /// Whether an entry names a directory.
    pub fn is_named(&self, directory: Ordinal) -> bool {
        self.slot(directory).is_some_and(|(_, state)| state.load(Acquire) & NAMED != 0)
    }

    fn parent(&self, directory: Ordinal) -> Option<Ordinal> {
        let (word, _) = self.slot(directory)?;
        word.load(Acquire).checked_sub(1).map(Ordinal)
    }

    /// The root leads to a directory.
    pub fn reach(&self, directory: Ordinal) {
        if let Some((_, state)) = self.slot(directory) {
            state.fetch_or(REACHED, AcqRel);
        }
    }

    /// Follows a directory's parents. Gives a directory that lies below itself, once for each cycle. Every directory is passed a
    /// bounded number of times over all calls, since each call marks those that it has passed.
    pub fn follow(&self, directory: Ordinal) -> Option<Ordinal> {
        let mut at = Some(directory);
        let mut cycle = None;
        while let Some(ordinal) = at {
            let Some((_, state)) = self.slot(ordinal) else { break };
            let marks = state.fetch_or(FOLLOWED, AcqRel);
            if marks & REACHED != 0 {
                break;
            }
            if marks & FOLLOWED != 0 {
                cycle = Some(ordinal);
                break;
            }
            at = self.parent(ordinal);
        }
        // What was passed is done with, whatever it led to.
        let mut at = Some(directory);
        while let Some(ordinal) = at {
            let Some((_, state)) = self.slot(ordinal) else { break };
            if state.fetch_or(REACHED, AcqRel) & REACHED != 0 {
                break;
            }
            at = self.parent(ordinal);
        }
        cycle
    }

    /// All inodes in use, in ascending order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = Ordinal> {
        self.groups.iter().flat_map(|group| {
            (group.chunks_before..).zip(&group.chunks).flat_map(|(place, chunk)| {
                let in_use = move |index: &u32| chunk.in_use >> index & 1 == 1;
                (0..INODES_PER_CHUNK)
                    .filter(in_use)
                    .map(move |index| Ordinal(place * INODES_PER_CHUNK + index))
            })
        })
    }
}

#[cfg(test)]
#[path = "inodes_tests.rs"]
mod tests;
