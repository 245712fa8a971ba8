//! Which buffer to give up: two queues and a memory of what was given up lately.
//!
//! New buffers enter probation, a queue that aims at a tenth of the memory. What is used again after a while moves
//! on to the main queue when it reaches probation's end; the rest leaves there and is remembered as a ghost. A ghost
//! that comes back enters the main queue at once. The main queue is a clock: what was used since the hand last
//! passed stays. A burst of uses right after a buffer came in counts as one use: a scan reads all inodes of a
//! cluster, one after the other, and never again.
//!
//! This module knows buffers only by their index in the shard and their size.

use std::collections::VecDeque;

use hashbrown::HashTable;

/// Probation aims at one part in this many of a shard's memory.
pub(super) const PROBATION_SHARE: u64 = 10;
/// Uses that are told apart in the main queue.
const MAX_REFERENCES: u8 = 3;
/// Ghosts remembered at least.
const MIN_GHOSTS: usize = 64;
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueueName {
    Nowhere,
    Probation,
    Main,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    place: QueueName,
    references: u8,
    newer: u32,
    older: u32,
    bytes: u64,
    hash: u64,
    /// `Policy::inserted_bytes` when it came in.
    inserted_at: u64,
}

#[derive(Debug)]
struct Queue {
    newest: u32,
    oldest: u32,
    count: usize,
    bytes: u64,
}

impl Default for Queue {
    fn default() -> Self {
        Self { newest: NONE, oldest: NONE, count: 0, bytes: 0 }
    }
}

/// The queues of one shard.
#[derive(Debug, Default)]
pub(super) struct Policy {
    nodes: Vec<Node>,
    probation: Queue,
    main: Queue,
    ghosts: Ghosts,
    /// Bytes of all buffers that ever came in: the clock by which bursts are told.
    inserted_bytes: u64,
    /// Uses within so many inserted bytes after a buffer came in are one burst.
    burst_bytes: u64,
}

impl Policy {
    /// Buffers in the queues.
    pub fn len(&self) -> usize {
        self.probation.count + self.main.count
    }

    /// A buffer came in. True where it was given up not long ago.
    pub fn insert(&mut self, index: u32, hash: u64, bytes: u64, probation_target: u64) -> bool {
        self.burst_bytes = probation_target / 2;
        self.inserted_bytes += bytes;
        let was_ghost = self.ghosts.take(hash);
        let place = if was_ghost { QueueName::Main } else { QueueName::Probation };
        let node = Node {
            place: QueueName::Nowhere,
            references: 0,
            newer: NONE,
            older: NONE,
            bytes,
            hash,
            inserted_at: self.inserted_bytes,
        };
        let position = index as usize;
        if position >= self.nodes.len() {
            self.nodes.resize(position + 1, node);
        }
        self.nodes[position] = node;
        self.push(index, place);
        was_ghost
    }

    /// A buffer is used.
    #[inline]
    pub fn touch(&mut self, index: u32) {
        let node = &mut self.nodes[index as usize];
        let in_burst = self.inserted_bytes - node.inserted_at < self.burst_bytes;
        if node.references < MAX_REFERENCES && !(in_burst && node.place == QueueName::Probation) {
            node.references += 1;
        }
    }

    /// Takes a buffer out without remembering it.
    pub fn remove(&mut self, index: u32) {
        let node = self.nodes[index as usize];
        let queue = match node.place {
            QueueName::Nowhere => return,
            QueueName::Probation => &mut self.probation,
            QueueName::Main => &mut self.main,
        };
        queue.count -= 1;
        queue.bytes -= node.bytes;
        match node.newer {
            NONE => queue.newest = node.older,
            newer => self.nodes[newer as usize].older = node.older,
        }
        match node.older {
            NONE => queue.oldest = node.newer,
            older => self.nodes[older as usize].newer = node.newer,
        }
        self.nodes[index as usize].place = QueueName::Nowhere;
    }

    /// Chooses a buffer to give up and takes it out; none if all are pinned.
    pub fn evict(&mut self, probation_target: u64, is_pinned: impl Fn(u32) -> bool) -> Option<u32> {
        // Bounds: a pinned buffer in probation is passed once, one in the main queue once in each round of the
        // clock, of which there are as many as there are counts of references.
        let mut probation_passes = self.probation.count;
        let mut main_passes = self.main.count * (usize::from(MAX_REFERENCES) + 1);
        loop {
            let from_probation = probation_passes > 0
                && self.probation.count > 0
                && (self.probation.bytes > probation_target || self.main.count == 0 || main_passes == 0);
            if from_probation {
                probation_passes -= 1;
                let index = self.probation.oldest;
                if is_pinned(index) {
                    self.requeue(index, QueueName::Probation);
                } else if self.nodes[index as usize].references > 0 {
                    self.nodes[index as usize].references = 0;
                    self.requeue(index, QueueName::Main);
                    main_passes += 1;
                } else {
                    return Some(self.give_up(index));
                }
            } else if main_passes > 0 && self.main.count > 0 {
                main_passes -= 1;
                let index = self.main.oldest;
                let references = &mut self.nodes[index as usize].references;
                if *references > 0 {
                    *references -= 1;
                    self.requeue(index, QueueName::Main);
                } else if is_pinned(index) {
                    self.requeue(index, QueueName::Main);
                } else {
                    return Some(self.give_up(index));
                }
            } else {
                return None;
            }
        }
    }

    fn give_up(&mut self, index: u32) -> u32 {
        self.remove(index);
        let most = self.len().max(MIN_GHOSTS);
        self.ghosts.remember(self.nodes[index as usize].hash, most);
        index
    }

    fn requeue(&mut self, index: u32, place: QueueName) {
        self.remove(index);
        self.push(index, place);
    }

    fn push(&mut self, index: u32, place: QueueName) {
        let queue = match place {
            QueueName::Nowhere => return,
            QueueName::Probation => &mut self.probation,
            QueueName::Main => &mut self.main,
        };
        let node = &mut self.nodes[index as usize];
        (node.place, node.newer, node.older) = (place, NONE, queue.newest);
        queue.count += 1;
        queue.bytes += node.bytes;
        match queue.newest {
            NONE => queue.oldest = index,
            newest => self.nodes[newest as usize].newer = index,
        }
        queue.newest = index;
    }
}

/// Hashes of names given up lately, oldest first. A collision only puts a buffer into the main queue too early.
#[derive(Debug, Default)]
struct Ghosts {
    order: VecDeque<u64>,
    known: HashTable<u64>,
}

impl Ghosts {
    fn remember(&mut self, hash: u64, most: usize) {
        while self.order.len() >= most {
            let Some(oldest) = self.order.pop_front() else { break };
            self.take(oldest);
        }
        self.order.push_back(hash);
        self.known.entry(hash, |known| *known == hash, |known| *known).or_insert(hash);
    }

    fn take(&mut self, hash: u64) -> bool {
        self.known
            .find_entry(hash, |known| *known == hash)
            .map(hashbrown::hash_table::OccupiedEntry::remove)
            .is_ok()
    }
}

#[cfg(test)]
#[path = "eviction_tests.rs"]
mod tests;
