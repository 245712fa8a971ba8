//! Votes for values, in bounded memory.

use std::collections::BTreeMap;

/// Values that are counted at once.
const MOST_VALUES: usize = 4096;

/// How often each value was named. Where there are too many values the rare ones are forgotten: a value with more votes than one in
/// [`MOST_VALUES`] stays.
#[derive(Debug, Clone)]
pub(super) struct Votes<V> {
    counts: BTreeMap<V, u64>,
}

impl<V> Default for Votes<V> {
    fn default() -> Self {
        Self { counts: BTreeMap::new() }
    }
}

impl<V: Ord + Copy> Votes<V> {
    pub fn add(&mut self, value: V, weight: u64) {
        if let Some(count) = self.counts.get_mut(&value) {
            *count = count.saturating_add(weight);
            return;
        }
        if self.counts.len() >= MOST_VALUES {
            self.counts.retain(|_, count| {
                *count = count.saturating_sub(weight);
                *count > 0
            });
        }
        if self.counts.len() < MOST_VALUES {
            self.counts.insert(value, weight);
        }
    }

    /// The value with the most votes; of several the smallest.
    pub fn best(&self) -> Option<V> {
        let most = self.counts.values().max()?;
        self.counts.iter().find(|(_, count)| *count == most).map(|(value, _)| *value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (V, u64)> + '_ {
        self.counts.iter().map(|(value, count)| (*value, *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_value_outlives_a_flood_of_others() {
        let mut votes = Votes::default();
        for value in 0..100_000_u64 {
            votes.add(value + 10, 1);
            if value % 100 == 0 {
                votes.add(7, 1);
            }
        }
        assert_eq!(votes.best(), Some(7));
        assert!(votes.counts.len() <= MOST_VALUES);
    }
}
