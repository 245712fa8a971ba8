//! Sets of inode numbers, small where the numbers lie close together, as XFS allocates them. Walks remember in one
//! which directories they have seen: on a damaged image a directory could hold itself, or be reached in millions of
//! ways.

use std::collections::HashMap;

use uxfs_format::units::InodeNumber;

/// Inode numbers, 64 neighbours to a word.
#[derive(Debug, Default)]
pub struct InodeSet {
    words: HashMap<u64, u64>,
}

impl InodeSet {
    /// Adds a number; `false` where it was there before.
    pub fn insert(&mut self, inode: InodeNumber) -> bool {
        let word = self.words.entry(inode.get() >> 6).or_default();
        let bit = 1 << (inode.get() & 63);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Whether a number has been added.
    pub fn contains(&self, inode: InodeNumber) -> bool {
        self.words.get(&(inode.get() >> 6)).is_some_and(|word| *word >> (inode.get() & 63) & 1 == 1)
    }

    /// Takes all numbers out.
    pub fn clear(&mut self) {
        self.words.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_new_once() {
        let mut set = InodeSet::default();
        for number in [128, 129, u64::MAX] {
            assert!(set.insert(InodeNumber::new(number)));
        }
        assert!(!set.insert(InodeNumber::new(128)) && !set.insert(InodeNumber::NULL));
        assert!(set.contains(InodeNumber::new(129)) && !set.contains(InodeNumber::new(130)));
        set.clear();
        assert!(!set.contains(InodeNumber::new(129)));
    }
}
