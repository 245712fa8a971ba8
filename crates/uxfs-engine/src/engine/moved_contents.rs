//! Contents whose blocks are led to by another mapping on the device than in memory.
//!
//! A write in place reaches the device at once, but the mapping that leads to the block may not be in the log yet: another
//! part of the file led there before (a range was collapsed or inserted), or another file (contents were exchanged, or a
//! shared block was copied by its other owner). After a crash the old mapping is back, and would show the new bytes where
//! they do not belong. So every operation that moves contents notes it here, and a write in place first waits until that
//! is durable.

use std::{
    collections::BTreeMap,
    sync::atomic::{
        AtomicU64,
        Ordering::{AcqRel, Acquire},
    },
};

use parking_lot::Mutex;
use uxfs_format::units::FsBlock;

use super::LoggedEngine;
use uxfs_volume::error::Result;

/// More are not looked through: then every write in place waits.
const MOST_EXTENTS: usize = 4096;

/// Extents with the checkpoint that holds their new mapping.
#[derive(Debug, Default)]
pub(super) struct MovedContents {
    /// The newest of all.
    latest: AtomicU64,
    /// Length and checkpoint by first block.
    extents: Mutex<BTreeMap<u64, (u64, u64)>>,
}

impl MovedContents {
    fn note(&self, start: FsBlock, length_blocks: u64, sequence: u64, stable: u64) {
        let mut extents = self.extents.lock();
        if self.latest.load(Acquire) <= stable {
            extents.clear();
        }
        let entry = extents.entry(start.get()).or_default();
        *entry = (entry.0.max(length_blocks), sequence);
        self.latest.fetch_max(sequence, AcqRel);
    }

    /// The newest checkpoint that must be stable before these blocks may be written in place; 0 for none.
    fn needed(&self, start: FsBlock, length_blocks: u64, stable: u64) -> u64 {
        let latest = self.latest.load(Acquire);
        if latest <= stable {
            return 0;
        }
        let extents = self.extents.lock();
        if extents.len() > MOST_EXTENTS {
            return latest;
        }
        let end = start.get().saturating_add(length_blocks);
        let overlapping = extents.range(..end).filter(|(first, (length, _))| *first + length > start.get());
        overlapping.map(|(_, (_, sequence))| *sequence).max().filter(|needed| *needed > stable).unwrap_or(0)
    }
}

impl LoggedEngine {
    /// Another mapping leads to these contents now, in checkpoint `sequence`.
    pub fn note_moved_contents(&self, start: FsBlock, length_blocks: u64, sequence: u64) {
        self.moved.note(start, length_blocks, sequence, self.journal.stable());
    }

    /// Waits until the mapping that leads to these blocks is durable. The caller holds no transaction.
    ///
    /// # Errors
    /// The device failed, now or before.
    pub fn wait_for_moved_contents(&self, start: FsBlock, length_blocks: u64) -> Result<()> {
        match self.moved.needed(start, length_blocks, self.journal.stable()) {
            0 => Ok(()),
            sequence => self.force_sequence(sequence),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_moved_since_the_last_stable_checkpoint_is_waited_for() {
        let moved = MovedContents::default();
        let block = FsBlock::new;
        assert_eq!(moved.needed(block(0), u64::MAX, 0), 0);
        moved.note(block(100), 10, 5, 3);
        moved.note(block(105), 1, 6, 3);
        moved.note(block(200), 50, 7, 3);
        assert_eq!(moved.needed(block(90), 10, 3), 0);
        assert_eq!(moved.needed(block(90), 11, 3), 5);
        assert_eq!(moved.needed(block(104), 4, 3), 6);
        assert_eq!(moved.needed(block(249), 1, 6), 7);
        assert_eq!(moved.needed(block(104), 4, 6), 0, "stable");
        assert_eq!(moved.needed(block(249), 1, 7), 0);
        moved.note(block(1), 1, 9, 7);
        assert_eq!(moved.extents.lock().len(), 1, "what is stable is forgotten");
    }
}
