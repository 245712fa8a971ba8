//! The active items, which hold the log's tail: the number of changes of each checkpoint that are not written back.
//!
//! Invariants:
//! 1. Entries are in the order of their checkpoints, without gaps, and so in the order of their log sequence numbers.
//! 2. The oldest entry has something to wait for: entries that have nothing leave as soon as they are the oldest.
//! 3. The tail is where the oldest entry's checkpoint began: replay from there brings back everything that is not at
//!    home.

use std::collections::VecDeque;

use uxfs_block::self_check;
use uxfs_format::units::Lsn;

#[derive(Debug, Clone, Copy)]
struct Entry {
    lsn: Lsn,
    /// Buffers not at home, intents without end, and one while the checkpoint is being written.
    count: u64,
}

/// The active items, counted by checkpoint.
#[doc(alias = "xfs_ail")]
#[derive(Debug)]
pub struct ActiveItems {
    /// Checkpoint of the first entry.
    first: u64,
    entries: VecDeque<Entry>,
}

impl ActiveItems {
    /// Nothing; the first checkpoint will be `first`.
    pub fn new(first: u64) -> Self {
        Self { first, entries: VecDeque::new() }
    }

    /// Begins the next checkpoint, which holds itself until [`release`](Self::release)d.
    pub fn open(&mut self, sequence: u64, lsn: Lsn) {
        if self.entries.is_empty() {
            self.first = sequence;
        }
        self_check!(self.first + self.entries.len() as u64 == sequence, "checkpoints follow each other");
        self.entries.push_back(Entry { lsn, count: 1 });
    }

    /// One thing more that must not be lost.
    pub fn enter(&mut self, sequence: u64) {
        if let Some(entry) = self.entry(sequence) {
            entry.count += 1;
        }
    }

    /// One thing is safe without the log.
    pub fn release(&mut self, sequence: u64) {
        if let Some(entry) = self.entry(sequence) {
            entry.count = entry.count.saturating_sub(1);
        }
        while self.entries.front().is_some_and(|oldest| oldest.count == 0) {
            self.entries.pop_front();
            self.first += 1;
        }
    }

    /// Where the oldest checkpoint began that holds anything.
    pub fn tail(&self) -> Option<Lsn> {
        self.entries.front().map(|entry| entry.lsn)
    }

    /// The oldest checkpoint that holds anything, and all others up to the newest.
    pub fn lsns(&self) -> (u64, Vec<Lsn>) {
        (self.first, self.entries.iter().map(|entry| entry.lsn).collect())
    }

    /// The newest of the oldest checkpoints for which `is_old` is true, if it is for any.
    pub fn newest_where(&self, is_old: impl Fn(Lsn) -> bool) -> Option<u64> {
        let old = self.entries.iter().take_while(|entry| is_old(entry.lsn)).count() as u64;
        Some(self.first + old.checked_sub(1)?)
    }

    fn entry(&mut self, sequence: u64) -> Option<&mut Entry> {
        let index = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        self.entries.get_mut(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_moves_when_the_oldest_has_nothing_left() {
        let lsn = |block| Lsn::from_parts(1, block);
        let mut items = ActiveItems::new(1);
        assert_eq!(items.tail(), None);
        for sequence in 1..=3 {
            items.open(sequence, lsn(sequence as u32 * 10));
        }
        items.enter(1);
        items.enter(3);
        items.release(2);
        items.release(1);
        assert_eq!(items.tail(), Some(lsn(10)), "one thing of the first is left");
        assert_eq!(items.newest_where(|lsn| lsn < Lsn::from_parts(1, 25)), Some(2));
        items.release(1);
        assert_eq!(items.tail(), Some(lsn(30)), "the second had nothing left before");
        assert_eq!(items.lsns(), (3, vec![lsn(30)]));
        items.release(3);
        items.release(3);
        items.release(3);
        assert_eq!(items.tail(), None);
        items.open(4, lsn(40));
        assert_eq!(items.tail(), Some(lsn(40)));
    }
}
