//! Ten lines of each kind, and a count of the rest: damage of one sort must not bury everything else.

use std::collections::{BTreeMap, btree_map};

/// Lines printed of each kind unless all are asked for.
const SHOWN_OF_A_KIND: u64 = 10;

/// How many lines of a kind are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Amount {
    /// None: only the counts.
    Counts,
    /// The first ten, and the counts.
    First,
    /// Every one.
    All,
}

impl Amount {
    /// Most lines of one kind.
    const fn most(self) -> u64 {
        match self {
            Self::Counts => 0,
            Self::First => SHOWN_OF_A_KIND,
            Self::All => u64::MAX,
        }
    }
}

/// How many lines there are of each kind.
#[derive(Debug)]
pub(crate) struct CountedKinds<K> {
    amount: Amount,
    counts: BTreeMap<K, u64>,
}

impl<K: Ord> CountedKinds<K> {
    /// No line yet.
    pub fn new(amount: Amount) -> Self {
        Self { amount, counts: BTreeMap::new() }
    }

    /// Counts a line, and says whether it is to be printed.
    pub fn add(&mut self, kind: K) -> bool {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        *count <= self.amount.most()
    }

    /// The counts, by kind.
    pub fn iter(&self) -> btree_map::Iter<'_, K, u64> {
        self.counts.iter()
    }

    /// Whether this kind has been counted before.
    pub fn has(&self, kind: &K) -> bool {
        self.counts.contains_key(kind)
    }

    /// Number of kinds.
    pub fn kinds(&self) -> usize {
        self.counts.len()
    }

    /// Number of lines.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Lines that were not printed, of a kind with this count.
    pub fn hidden_of(&self, count: u64) -> u64 {
        count.saturating_sub(self.amount.most())
    }

    /// Lines that were not printed.
    pub fn hidden(&self) -> u64 {
        self.counts.values().map(|count| self.hidden_of(*count)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_of_each_kind_are_shown() {
        let lines = || std::iter::repeat_n('a', 12).chain(std::iter::repeat_n('b', 3));
        let shown = |amount| {
            let mut kinds = CountedKinds::new(amount);
            let shown = lines().filter(|kind| kinds.add(*kind)).count();
            (shown, kinds.hidden(), kinds.total())
        };
        assert_eq!(shown(Amount::First), (13, 2, 15));
        assert_eq!(shown(Amount::All), (15, 0, 15));
        assert_eq!(shown(Amount::Counts), (0, 15, 15));
    }
}
