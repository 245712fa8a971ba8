//! A few bytes for each inode that the inode index says is in use, to be filled by several threads.
//!
//! A chunk of 64 inodes takes 336 bytes; beyond a bound all chunks lie in a temporary file ([`chunks`](super::chunks)). Inodes are named
//! by ordinals of 32 bits here, so that a directory can note its parent in four bytes; inodes beyond 2³² are left out, and
//! [`InodeTable::is_complete`] says so.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use uxfs_block::spill::SpillError;
use uxfs_format::{
    btree::inode_index::InodeChunk,
    geometry::{Geometry, INODES_PER_CHUNK},
    inode::FileType,
    units::{AgInode, AgNumber, InodeNumber},
};

use super::chunks::{ChunkHead, ChunkStore, PAGE_CHUNKS};

/// Chunks whose inodes have ordinals.
const MOST_CHUNKS: u32 = u32::MAX / INODES_PER_CHUNK - PAGE_CHUNKS;

/// The file type; 0 for an inode that could not be read.
const TYPE: u8 = 7;
/// A directory whose parent is known from an entry, and not from `..` alone.
const NAMED: u8 = 8;
/// A directory that the root leads to.
const REACHED: u8 = 16;
/// A directory on the way that is being followed to the root.
const FOLLOWED: u8 = 32;
/// An inode of a list of unlinked inodes.
const UNLINKED: u8 = 64;

/// An inode of the metadata directory tree.
const METADATA: u8 = 128;

/// An inode of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ordinal(u32);

/// All inodes in use.
#[derive(Debug)]
pub(crate) struct InodeTable {
    /// By group.
    groups: Vec<GroupInodes>,
    chunks: ChunkStore,
    most_chunks: u32,
    is_incomplete: bool,
    /// Held while the parent of any directory is compared or set.
    parents: Mutex<()>,
    /// Groups whose lists of unlinked inodes could not be read to their ends.
    missed_lists: BTreeSet<AgNumber>,
    /// Groups whose inode index could not be read: nothing tells which of their inodes are in use.
    missed_indexes: BTreeSet<AgNumber>,
}

/// Where the chunks of a group are among all chunks. Each group begins a page of them.
#[derive(Debug, Clone, Copy, Default)]
struct GroupInodes {
    first: u32,
    count: u32,
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
    /// An empty table that keeps about `memory_limit_bytes` in memory.
    pub fn new(memory_limit_bytes: usize) -> Self {
        Self {
            groups: Vec::new(),
            chunks: ChunkStore::new(memory_limit_bytes),
            most_chunks: MOST_CHUNKS,
            is_incomplete: false,
            parents: Mutex::default(),
            missed_lists: BTreeSet::new(),
            missed_indexes: BTreeSet::new(),
        }
    }

    /// One that keeps nothing.
    pub fn of_nothing() -> Self {
        Self { most_chunks: 0, ..Self::new(0) }
    }

    /// Begins the next group.
    pub fn begin_group(&mut self) {
        let first = self.chunks.len().next_multiple_of(PAGE_CHUNKS).min(MOST_CHUNKS);
        self.groups.push(GroupInodes { first, count: 0 });
    }

    /// Adds a chunk of the group that was begun last, behind those that it has.
    pub fn add(&mut self, chunk: &InodeChunk) {
        let Some(group) = self.groups.last_mut() else { return };
        let place = group.first.saturating_add(group.count);
        if place >= self.most_chunks {
            self.is_incomplete = true;
            return;
        }
        self.chunks.add(place, ChunkHead { start: chunk.start.get(), in_use: chunk.allocated() });
        group.count += 1;
    }

    /// Notes an inode of a list of unlinked inodes; `false` where it was noted before, `None` where the table has failed.
    pub fn note_unlinked(&self, ordinal: Ordinal) -> Option<bool> {
        let before = self.chunks.change_state(ordinal.0, |state| state | UNLINKED)?;
        Some(before & UNLINKED == 0)
    }

    /// A list of unlinked inodes of a group could not be read to its end.
    pub fn miss_unlinked(&mut self, group: AgNumber) {
        self.missed_lists.insert(group);
    }

    /// Whether an inode is in a list of unlinked inodes, or in one that could not be read.
    pub fn may_be_unlinked(&self, group: AgNumber, ordinal: Ordinal) -> bool {
        self.state(ordinal).is_none_or(|state| state & UNLINKED != 0) || self.missed_lists.contains(&group)
    }

    /// The inode index of a group could not be read.
    pub fn miss_index(&mut self, group: AgNumber) {
        self.missed_indexes.insert(group);
    }

    /// Whether nothing tells if an inode is in use: the index of its group was not read. Only of inodes that [`find`](Self::find) lacks.
    pub fn is_unknown(&self, geometry: &Geometry, number: InodeNumber) -> bool {
        geometry.split_inode_number(number).is_some_and(|(group, _)| {
            self.missed_indexes.contains(&group) || self.groups.len() <= group.get() as usize
        })
    }

    /// Whether all inodes have ordinals.
    pub fn is_complete(&self) -> bool {
        !self.is_incomplete
    }

    /// Why the table is wrong: its temporary file failed.
    pub fn take_failure(&self) -> Option<SpillError> {
        self.chunks.take_failure()
    }

    /// The inode with this number, if the index says that it is in use.
    pub fn find(&self, geometry: &Geometry, number: InodeNumber) -> Option<Ordinal> {
        let (group, inode) = geometry.split_inode_number(number)?;
        let group = self.groups.get(group.get() as usize)?;
        let (place, chunk) =
            self.chunks.last_not_after(group.first..group.first.saturating_add(group.count), inode.get())?;
        let index = inode.get() - chunk.start;
        if index >= INODES_PER_CHUNK || chunk.in_use >> index & 1 == 0 {
            return None;
        }
        Some(Ordinal(place * INODES_PER_CHUNK + index))
    }

    /// The number of an inode.
    pub fn number(&self, geometry: &Geometry, ordinal: Ordinal) -> InodeNumber {
        let place = ordinal.0 / INODES_PER_CHUNK;
        let group = self.groups.partition_point(|group| group.first <= place).checked_sub(1);
        let (Some(group), Some(chunk)) = (group, self.chunks.head(place)) else { return InodeNumber::NULL };
        let inode = AgInode::new(chunk.start.wrapping_add(ordinal.0 % INODES_PER_CHUNK));
        geometry.inode_number(AgNumber::new(group as u32), inode)
    }

    fn state(&self, ordinal: Ordinal) -> Option<u8> {
        self.chunks.state(ordinal.0)
    }

    /// Adds marks; gives those that were there before.
    fn mark(&self, ordinal: Ordinal, marks: u8) -> u8 {
        self.chunks.change_state(ordinal.0, |state| state | marks).unwrap_or(0)
    }

    /// An inode was read.
    pub fn set(&self, ordinal: Ordinal, file_type: FileType, link_count: u32) {
        let is_directory = file_type == FileType::Directory;
        self.chunks.change_word(ordinal.0, |_| if is_directory { 0 } else { link_count });
        self.chunks.change_state(ordinal.0, |state| state & UNLINKED | file_type.directory_code());
    }

    /// An inode that was read belongs to the metadata directory tree.
    pub fn set_metadata(&self, ordinal: Ordinal) {
        self.mark(ordinal, METADATA);
    }

    /// Whether an inode belongs to the metadata directory tree.
    pub fn is_metadata(&self, ordinal: Ordinal) -> bool {
        self.state(ordinal).is_some_and(|state| state & METADATA != 0)
    }

    /// The type of an inode; `None` where it could not be read.
    pub fn file_type(&self, ordinal: Ordinal) -> Option<FileType> {
        FileType::from_directory_code(self.state(ordinal)? & TYPE)
    }

    /// A file that is no directory has a name.
    pub fn add_name(&self, ordinal: Ordinal) {
        self.chunks.change_word(ordinal.0, |missing| missing.wrapping_sub(1));
    }

    /// Names that the link count of a file says and that were not found, modulo 2³².
    pub fn missing_names(&self, ordinal: Ordinal) -> u32 {
        self.chunks.word(ordinal.0).unwrap_or(0)
    }

    /// Notes the parent of a directory, and compares it with what was noted before.
    pub fn note_parent(&self, directory: Ordinal, parent: Ordinal, witness: ParentWitness) -> ParentNote {
        let Some(state) = self.state(directory) else { return ParentNote::Agrees };
        let _guard = self.parents.lock();
        let is_named = self.state(directory).unwrap_or(state) & NAMED != 0;
        let before = self.parent(directory);
        if witness == ParentWitness::Entry {
            if is_named {
                return ParentNote::NamedBefore;
            }
            self.mark(directory, NAMED);
        }
        let note = match (before, witness) {
            (Some(before), _) if before == parent => return ParentNote::Agrees,
            (None, _) => ParentNote::Agrees,
            (Some(dot_dot), ParentWitness::Entry) => ParentNote::Contradicts { dot_dot, named_in: parent },
            (Some(named_in), ParentWitness::DotDot) => {
                return ParentNote::Contradicts { dot_dot: parent, named_in };
            }
        };
        self.chunks.change_word(directory.0, |_| parent.0.wrapping_add(1));
        note
    }

    /// Whether an entry names a directory.
    pub fn is_named(&self, directory: Ordinal) -> bool {
        self.state(directory).is_some_and(|state| state & NAMED != 0)
    }

    fn parent(&self, directory: Ordinal) -> Option<Ordinal> {
        self.chunks.word(directory.0)?.checked_sub(1).map(Ordinal)
    }

    /// The root leads to a directory.
    pub fn reach(&self, directory: Ordinal) {
        self.mark(directory, REACHED);
    }

    /// Follows a directory's parents. Gives a directory that lies below itself, once for each cycle. Every directory is passed a
    /// bounded number of times over all calls, since each call marks those that it has passed.
    pub fn follow(&self, directory: Ordinal) -> Option<Ordinal> {
        let mut at = Some(directory);
        let mut cycle = None;
        // Marks that cannot be kept, because the temporary file fails, do not end the way.
        while let Some(ordinal) = at.filter(|_| !self.chunks.has_failed()) {
            let marks = self.mark(ordinal, FOLLOWED);
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
        while let Some(ordinal) = at.filter(|_| !self.chunks.has_failed()) {
            if self.mark(ordinal, REACHED) & REACHED != 0 {
                break;
            }
            at = self.parent(ordinal);
        }
        cycle
    }

    /// All inodes in use, in ascending order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = Ordinal> {
        let places =
            self.groups.iter().flat_map(|group| group.first..group.first.saturating_add(group.count));
        places.flat_map(|place| {
            let in_use = self.chunks.head(place).map_or(0, |chunk| chunk.in_use);
            (0..INODES_PER_CHUNK)
                .filter(move |index| in_use >> index & 1 == 1)
                .map(move |index| Ordinal(place * INODES_PER_CHUNK + index))
        })
    }
}

#[cfg(test)]
#[path = "inodes_tests.rs"]
mod tests;
