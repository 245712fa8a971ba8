//! A sorted list with keys: what is gathered once and looked up often.
//!
//! It takes half the memory of a tree. Lookups of neighbouring keys, one after the other, take no search, and each entry has an index, by which
//! other lists say more of it.

/// Entries in the order of their keys, each key once.
#[derive(Debug, Clone)]
pub(crate) struct Table<K, V> {
    entries: Vec<(K, V)>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<K: Ord, V> Table<K, V> {
    /// Sorts entries. Where a key comes more than once, `join` adds the later entry to the first.
    pub fn of(mut entries: Vec<(K, V)>, mut join: impl FnMut(&mut V, &V)) -> Self {
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        entries.dedup_by(|(next, added), (key, value)| {
            let is_same = next == key;
            if is_same {
                join(value, added);
            }
            is_same
        });
        Self { entries }
    }

    pub fn entries(&self) -> &[(K, V)] {
        &self.entries
    }

    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.entries.iter().map(|(key, _)| key)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        let index = self.index_of(key)?;
        self.entries.get(index).map(|(_, value)| value)
    }

    pub fn contains_key(&self, key: &K) -> bool {
        self.index_of(key).is_some()
    }

    pub fn index_of(&self, key: &K) -> Option<usize> {
        self.entries.binary_search_by(|(other, _)| other.cmp(key)).ok()
    }

    /// As [`index_of`](Self::index_of), for keys that mostly follow each other: `near` is the index of the last one that was found.
    pub fn index_near(&self, key: &K, near: &mut usize) -> Option<usize> {
        let is_at = |index: &usize| self.entries.get(*index).is_some_and(|(other, _)| other == key);
        let found = [near.saturating_add(1), *near].into_iter().find(is_at).or_else(|| self.index_of(key))?;
        *near = found;
        Some(found)
    }

    /// The index of the first entry whose key is not less.
    pub fn first_from(&self, key: &K) -> usize {
        self.entries.partition_point(|(other, _)| other < key)
    }
}

impl<K: Ord, V: Default> Table<K, V> {
    /// Adds an entry for each key that has none.
    pub fn add_missing(&mut self, keys: impl Iterator<Item = K>) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.extend(keys.map(|key| (key, V::default())));
        *self = Self::of(entries, |_, _| {});
    }
}

#[cfg(test)]
impl<K: Ord, V> Table<K, V> {
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let index = self.index_of(key)?;
        self.entries.get_mut(index).map(|(_, value)| value)
    }

    pub fn insert(&mut self, key: K, value: V) {
        self.remove(&key);
        let index = self.first_from(&key);
        self.entries.insert(index, (key, value));
    }

    pub fn remove(&mut self, key: &K) {
        self.entries.retain(|(other, _)| other != key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_near_and_far() {
        let table = Table::of(vec![(5, 1), (3, 1), (9, 1), (5, 2)], |value, added| *value += added);
        assert_eq!(table.entries(), [(3, 1), (5, 3), (9, 1)]);
        let mut near = 0;
        let found: Vec<_> =
            [3, 5, 9, 3, 4, 9, 9].iter().map(|key| table.index_near(key, &mut near)).collect();
        assert_eq!(found, [Some(0), Some(1), Some(2), Some(0), None, Some(2), Some(2)]);
        assert_eq!((table.first_from(&4), table.first_from(&10)), (1, 3));
    }

    #[test]
    fn missing_keys_are_added_once() {
        let mut table = Table::of(vec![(1, 7), (4, 7)], |_, _| {});
        table.add_missing([4, 2, 2].into_iter());
        assert_eq!(table.entries(), [(1, 7), (2, 0), (4, 7)]);
    }
}
