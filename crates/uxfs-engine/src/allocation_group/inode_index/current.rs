//! The chunks that were worked on last.
//!
//! Threads that work in one group mostly work in different chunks. With one chunk in memory each of them would put the
//! other's record back into the trees, under the lock of the group that both wait for.

use uxfs_format::{btree::inode_index::InodeChunk, units::AgInode};

/// Most chunks of a group kept in memory.
pub const MOST_CURRENT_CHUNKS: usize = 4;

/// A chunk that was worked on.
#[derive(Debug, Clone, Copy)]
pub struct CurrentChunk {
    pub(super) chunk: InodeChunk,
    /// Its records in the trees are behind.
    pub(super) is_dirty: bool,
}

/// A chunk whose free inodes have been looked at where they lie.
#[derive(Debug, Clone, Copy)]
pub struct ComparedChunk {
    pub(super) start: AgInode,
    /// A bit for each inode in a cluster that fails its verifier.
    pub(super) unreadable: u64,
}

/// Chunks of a group, from the newest on: the one that was worked on last comes first.
#[derive(Debug, Default)]
pub struct CurrentChunks {
    chunks: [Option<CurrentChunk>; MOST_CURRENT_CHUNKS],
}

impl CurrentChunks {
    /// The one that was worked on last.
    pub(super) fn newest(&self) -> Option<&InodeChunk> {
        self.chunks.first()?.as_ref().map(|current| &current.chunk)
    }

    /// The one that an inode belongs to.
    #[inline]
    pub(super) fn of_inode(&self, inode: AgInode) -> Option<&InodeChunk> {
        let mut chunks = self.chunks.iter().map_while(Option::as_ref).map(|current| &current.chunk);
        chunks.find(|chunk| chunk.index_of(inode).is_some())
    }

    /// Whether the trees are behind.
    pub fn are_dirty(&self) -> bool {
        self.chunks.iter().flatten().any(|current| current.is_dirty)
    }

    /// Puts a chunk first, in the place of what was known of it. `at_most` are kept; one that is too many is given.
    #[inline]
    pub(super) fn put(&mut self, chunk: CurrentChunk, at_most: usize) -> Option<CurrentChunk> {
        let start = chunk.chunk.start;
        let is_it = |slot: &Option<CurrentChunk>| slot.is_none_or(|current| current.chunk.start == start);
        let last = at_most.clamp(1, MOST_CURRENT_CHUNKS) - 1;
        let place = self.chunks.iter().position(is_it).map_or(last, |place| place.min(last));
        let moved = self.chunks.get_mut(..=place)?;
        moved.rotate_right(1);
        moved.first_mut()?.replace(chunk).filter(|old| old.chunk.start != start)
    }

    /// Forgets a chunk.
    pub(super) fn remove(&mut self, start: AgInode) {
        let found =
            self.chunks.iter().position(|slot| slot.is_some_and(|current| current.chunk.start == start));
        if let Some(behind) = found.and_then(|place| self.chunks.get_mut(place..)) {
            behind.rotate_left(1);
            if let Some(last) = behind.last_mut() {
                *last = None;
            }
        }
    }

    /// The next one that the trees are behind of, which they are no longer.
    pub(super) fn take_dirty(&mut self) -> Option<InodeChunk> {
        let current = self.chunks.iter_mut().flatten().find(|current| current.is_dirty)?;
        current.is_dirty = false;
        Some(current.chunk)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn chunk(number: u32, is_dirty: bool) -> CurrentChunk {
        CurrentChunk { chunk: InodeChunk::new(AgInode::new(number * 64)), is_dirty }
    }

    fn number(chunk: &InodeChunk) -> u32 {
        chunk.start.get() / 64
    }

    #[derive(Debug, Clone)]
    enum Step {
        Put(u32, bool),
        Remove(u32),
        TakeDirty,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..7_u32, any::<bool>()).prop_map(|(number, is_dirty)| Step::Put(number, is_dirty)),
            1 => (0..7_u32).prop_map(Step::Remove),
            1 => Just(Step::TakeDirty),
        ];
        prop::collection::vec(step, 0..60)
    }

    proptest! {
        /// A list that the newest comes to the front of.
        #[test]
        fn the_newest_are_kept(steps in steps(), at_most in 0..6_usize) {
            let mut chunks = CurrentChunks::default();
            let mut model: Vec<(u32, bool)> = Vec::new();
            for step in steps {
                match step {
                    Step::Put(what, is_dirty) => {
                        let gone = chunks.put(chunk(what, is_dirty), at_most);
                        model.retain(|(known, _)| *known != what);
                        model.insert(0, (what, is_dirty));
                        let most = at_most.clamp(1, MOST_CURRENT_CHUNKS);
                        let expected = (model.len() > most).then(|| model.pop().unwrap());
                        prop_assert_eq!(gone.map(|gone| (number(&gone.chunk), gone.is_dirty)), expected);
                    }
                    Step::Remove(what) => {
                        chunks.remove(AgInode::new(what * 64));
                        model.retain(|(known, _)| *known != what);
                    }
                    Step::TakeDirty => {
                        let expected = model.iter_mut().find(|(_, is_dirty)| *is_dirty).map(|entry| {
                            entry.1 = false;
                            entry.0
                        });
                        prop_assert_eq!(chunks.take_dirty().as_ref().map(number), expected);
                    }
                }
                prop_assert_eq!(chunks.newest().map(number), model.first().map(|(number, _)| *number));
                prop_assert_eq!(chunks.are_dirty(), model.iter().any(|(_, is_dirty)| *is_dirty));
                for what in 0..7 {
                    let found = chunks.of_inode(AgInode::new(what * 64 + 5)).map(number);
                    let expected = model.iter().find(|(known, _)| *known == what).map(|(known, _)| *known);
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }
}
