//! The chunks of the inode table: in memory up to a bound, behind it in a temporary file.
//!
//! 1. Chunks have places: ascending numbers, with gaps. Their starts ascend within a group, and each group begins a page of
//!    [`PAGE_CHUNKS`] places.
//! 2. While all chunks fit into memory, they are read and changed without a lock. Beyond the bound all of them are in pages
//!    behind one lock, of which those that were used last stay in memory. There is no way back.
//! 3. After a failure of the temporary file nothing is known about any inode, and [`take_failure`](ChunkStore::take_failure) says so.

use std::{
    ops::Range,
    sync::atomic::{
        AtomicBool, AtomicU8, AtomicU32,
        Ordering::{AcqRel, Acquire, Relaxed},
    },
};

use parking_lot::Mutex;
use uxfs_block::spill::{SpillError, pages::SpillPages};
use uxfs_format::geometry::INODES_PER_CHUNK;

const CHUNK: usize = INODES_PER_CHUNK as usize;
/// Places of a page.
pub(super) const PAGE_CHUNKS: u32 = 16;
/// Start, bits, words and states of a chunk in a page.
const CHUNK_BYTES: usize = 12 + 5 * CHUNK;
const WORDS_BYTE: usize = 12;
const STATES_BYTE: usize = WORDS_BYTE + 4 * CHUNK;

/// Which inodes a chunk has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ChunkHead {
    pub start: u32,
    pub in_use: u64,
}

#[derive(Debug)]
pub(super) struct Chunk {
    head: ChunkHead,
    /// Of a directory one more than the ordinal of its parent, 0 where that is not known; of any other inode the names that its
    /// link count says and that were not found, modulo 2³².
    words: [AtomicU32; CHUNK],
    states: [AtomicU8; CHUNK],
}

/// All chunks.
#[derive(Debug)]
pub(super) struct ChunkStore {
    memory_limit: usize,
    /// Behind the last place.
    end: u32,
    chunks: Chunks,
    failure: Mutex<Option<SpillError>>,
    has_failed: AtomicBool,
}

#[derive(Debug)]
enum Chunks {
    Memory {
        chunks: Vec<Chunk>,
        /// The place of the first chunk of each stretch without gaps, and its index.
        stretches: Vec<(u32, u32)>,
    },
    Pages {
        pages: Mutex<SpillPages>,
        /// Start of the first chunk of each page.
        starts: Vec<u32>,
    },
}

impl ChunkStore {
    pub fn new(memory_limit: usize) -> Self {
        Self {
            memory_limit,
            end: 0,
            chunks: Chunks::Memory { chunks: Vec::new(), stretches: Vec::new() },
            failure: Mutex::default(),
            has_failed: AtomicBool::new(false),
        }
    }

    /// The place behind the last chunk.
    pub fn len(&self) -> u32 {
        self.end
    }

    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    pub fn take_failure(&self) -> Option<SpillError> {
        self.failure.lock().take()
    }

    fn kept<T>(&self, result: Result<T, SpillError>) -> Option<T> {
        result.map_err(|error| self.fail(error)).ok()
    }

    fn fail(&self, error: SpillError) {
        self.has_failed.store(true, Relaxed);
        self.failure.lock().get_or_insert(error);
    }

    /// Adds a chunk at a place behind the last.
    pub fn add(&mut self, place: u32, head: ChunkHead) {
        if let Chunks::Memory { chunks, .. } = &self.chunks
            && (chunks.len() + 1) * size_of::<Chunk>() > self.memory_limit
        {
            self.move_to_pages();
        }
        let gap = place != self.end || place == 0;
        self.end = place + 1;
        match &mut self.chunks {
            Chunks::Memory { chunks, stretches } => {
                if gap {
                    stretches.push((place, chunks.len() as u32));
                }
                chunks.push(Chunk {
                    head,
                    words: std::array::from_fn(|_| AtomicU32::new(0)),
                    states: std::array::from_fn(|_| AtomicU8::new(0)),
                });
            }
            Chunks::Pages { pages, starts } => {
                let result = add_to_pages(pages.get_mut(), starts, place, head);
                self.kept(result);
            }
        }
    }

    fn move_to_pages(&mut self) {
        let page_bytes = CHUNK_BYTES * PAGE_CHUNKS as usize;
        // Both ways are in memory for a moment.
        let mut pages = SpillPages::new(page_bytes, self.memory_limit / 2);
        let mut starts = Vec::new();
        if let Chunks::Memory { chunks, stretches } = &self.chunks {
            let mut next = stretches.iter().peekable();
            let mut place = 0;
            for (index, chunk) in (0..).zip(chunks) {
                if let Some((start, _)) = next.next_if(|(_, first)| *first == index) {
                    place = *start;
                }
                // The bits of unlinked inodes are there already.
                let result = add_to_pages(&mut pages, &mut starts, place, chunk.head)
                    .and_then(|()| copy_states(&mut pages, place, chunk));
                if self.kept(result).is_none() {
                    break;
                }
                place += 1;
            }
        }
        self.chunks = Chunks::Pages { pages: Mutex::new(pages), starts };
    }

    /// The last chunk among those of these places that does not begin behind `start`, and its place.
    pub fn last_not_after(&self, places: Range<u32>, start: u32) -> Option<(u32, ChunkHead)> {
        if places.is_empty() {
            return None;
        }
        match &self.chunks {
            Chunks::Memory { chunks, stretches } => {
                let first = index_of(stretches, places.start)?;
                let of_group = chunks.get(first..first + places.len())?;
                let index = of_group.partition_point(|chunk| chunk.head.start <= start).checked_sub(1)?;
                Some((places.start + index as u32, of_group.get(index)?.head))
            }
            Chunks::Pages { pages, starts } => {
                let first = places.start / PAGE_CHUNKS;
                let of_group = starts.get(first as usize..places.end.div_ceil(PAGE_CHUNKS) as usize)?;
                let index = of_group.partition_point(|first| *first <= start).checked_sub(1)?;
                let page = first + index as u32;
                let places = page * PAGE_CHUNKS..places.end.min((page + 1) * PAGE_CHUNKS);
                let mut pages = pages.lock();
                let bytes = self.kept(pages.read(page))?;
                let heads = places.zip(bytes.chunks_exact(CHUNK_BYTES).map(head_of));
                heads.take_while(|(_, head)| head.start <= start).last()
            }
        }
    }

    /// The chunk at a place.
    pub fn head(&self, place: u32) -> Option<ChunkHead> {
        match &self.chunks {
            Chunks::Memory { chunks, stretches } => Some(chunks.get(index_of(stretches, place)?)?.head),
            Chunks::Pages { pages, .. } => {
                let mut pages = pages.lock();
                let bytes = self.kept(pages.read(place / PAGE_CHUNKS))?;
                bytes.chunks_exact(CHUNK_BYTES).nth((place % PAGE_CHUNKS) as usize).map(head_of)
            }
        }
    }

    pub fn word(&self, ordinal: u32) -> Option<u32> {
        match &self.chunks {
            Chunks::Memory { chunks, stretches } => {
                let chunk = chunks.get(index_of(stretches, ordinal / INODES_PER_CHUNK)?)?;
                Some(chunk.words.get(in_chunk(ordinal))?.load(Acquire))
            }
            Chunks::Pages { pages, .. } => {
                let mut pages = pages.lock();
                let bytes = self.kept(pages.read(page_of(ordinal)))?;
                bytes.get(word_byte(ordinal)..)?.first_chunk().copied().map(u32::from_le_bytes)
            }
        }
    }

    pub fn state(&self, ordinal: u32) -> Option<u8> {
        match &self.chunks {
            Chunks::Memory { chunks, stretches } => {
                let chunk = chunks.get(index_of(stretches, ordinal / INODES_PER_CHUNK)?)?;
                Some(chunk.states.get(in_chunk(ordinal))?.load(Acquire))
            }
            Chunks::Pages { pages, .. } => {
                let mut pages = pages.lock();
                let bytes = self.kept(pages.read(page_of(ordinal)))?;
                bytes.get(state_byte(ordinal)).copied()
            }
        }
    }

    pub fn change_word(&self, ordinal: u32, change: impl Fn(u32) -> u32) {
        match &self.chunks {
            Chunks::Memory { chunks, stretches } => {
                let chunk =
                    index_of(stretches, ordinal / INODES_PER_CHUNK).and_then(|index| chunks.get(index));
                if let Some(word) = chunk.and_then(|chunk| chunk.words.get(in_chunk(ordinal))) {
                    let _ = word.fetch_update(AcqRel, Acquire, |word| Some(change(word)));
                }
            }
            Chunks::Pages { pages, .. } => {
                let mut pages = pages.lock();
                let Some(bytes) = self.kept(pages.change(page_of(ordinal))) else { return };
                let word = bytes.get_mut(word_byte(ordinal)..).and_then(|bytes| bytes.first_chunk_mut::<4>());
                if let Some(word) = word {
                    *word = change(u32::from_le_bytes(*word)).to_le_bytes();
                }
            }
        }
    }

    /// Gives the state before.
    pub fn change_state(&self, ordinal: u32, change: impl Fn(u8) -> u8) -> Option<u8> {
        match &self.chunks {
            Chunks::Memory { chunks, stretches } => {
                let chunk = chunks.get(index_of(stretches, ordinal / INODES_PER_CHUNK)?)?;
                let state = chunk.states.get(in_chunk(ordinal))?;
                state.fetch_update(AcqRel, Acquire, |state| Some(change(state))).ok()
            }
            Chunks::Pages { pages, .. } => {
                let mut pages = pages.lock();
                let bytes = self.kept(pages.change(page_of(ordinal)))?;
                let state = bytes.get_mut(state_byte(ordinal))?;
                let before = *state;
                *state = change(before);
                Some(before)
            }
        }
    }
}

/// The index of the chunk at a place.
fn index_of(stretches: &[(u32, u32)], place: u32) -> Option<usize> {
    let stretch = stretches.partition_point(|(first, _)| *first <= place).checked_sub(1)?;
    let (first, index) = stretches.get(stretch)?;
    Some((place - first + index) as usize)
}

fn in_chunk(ordinal: u32) -> usize {
    (ordinal % INODES_PER_CHUNK) as usize
}

fn page_of(ordinal: u32) -> u32 {
    ordinal / INODES_PER_CHUNK / PAGE_CHUNKS
}

fn chunk_byte(place: u32) -> usize {
    (place % PAGE_CHUNKS) as usize * CHUNK_BYTES
}

fn word_byte(ordinal: u32) -> usize {
    chunk_byte(ordinal / INODES_PER_CHUNK) + WORDS_BYTE + 4 * in_chunk(ordinal)
}

fn state_byte(ordinal: u32) -> usize {
    chunk_byte(ordinal / INODES_PER_CHUNK) + STATES_BYTE + in_chunk(ordinal)
}

fn head_of(bytes: &[u8]) -> ChunkHead {
    let start = bytes.first_chunk().copied().map_or(0, u32::from_le_bytes);
    let in_use = bytes.get(4..).and_then(|bytes| bytes.first_chunk().copied()).map_or(0, u64::from_le_bytes);
    ChunkHead { start, in_use }
}

fn add_to_pages(
    pages: &mut SpillPages,
    starts: &mut Vec<u32>,
    place: u32,
    head: ChunkHead,
) -> Result<(), SpillError> {
    let page = place / PAGE_CHUNKS;
    if place.is_multiple_of(PAGE_CHUNKS) {
        // Groups without chunks may take a page.
        starts.resize(page as usize, head.start);
        starts.push(head.start);
    }
    let bytes = pages.change(page)?;
    let bytes = bytes.get_mut(chunk_byte(place)..).unwrap_or_default();
    for (byte, value) in
        bytes.iter_mut().zip(head.start.to_le_bytes().into_iter().chain(head.in_use.to_le_bytes()))
    {
        *byte = value;
    }
    Ok(())
}

fn copy_states(pages: &mut SpillPages, place: u32, chunk: &Chunk) -> Result<(), SpillError> {
    let bytes = pages.change(place / PAGE_CHUNKS)?;
    let bytes = bytes.get_mut(chunk_byte(place) + STATES_BYTE..).unwrap_or_default();
    for (byte, state) in bytes.iter_mut().zip(&chunk.states) {
        *byte = state.load(Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_takes_as_much_memory_as_the_crate_says() {
        assert_eq!(size_of::<Chunk>(), 336);
    }
}
