//! Sets of block numbers and inode numbers, one bit for each, in pages that exist where the set has anything.

use std::collections::BTreeMap;

/// Bits of a page.
const PAGE_BITS: u64 = 1 << 15;
const PAGE_WORDS: usize = (PAGE_BITS / 64) as usize;

/// A set of numbers. Numbers that lie close together share a page of 4 KiB.
#[derive(Debug, Clone, Default)]
pub struct NumberSet {
    pages: BTreeMap<u64, Box<[u64; PAGE_WORDS]>>,
}

/// Page, word in the page, bit in the word.
fn place(number: u64) -> (u64, usize, u64) {
    (number / PAGE_BITS, (number % PAGE_BITS / 64) as usize, 1 << (number % 64))
}

impl NumberSet {
    /// Adds a number.
    pub fn insert(&mut self, number: u64) {
        let (page, word, bit) = place(number);
        let page = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE_WORDS]));
        if let Some(word) = page.get_mut(word) {
            *word |= bit;
        }
    }

    /// Adds `count` numbers from `start` on.
    pub fn insert_run(&mut self, start: u64, count: u64) {
        let end = start.saturating_add(count);
        let mut next = start;
        while next < end {
            let (page, word, bit) = place(next);
            let is_whole = bit == 1 && end - next >= 64;
            let page = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE_WORDS]));
            if let Some(word) = page.get_mut(word) {
                *word |= if is_whole { u64::MAX } else { bit };
            }
            next += if is_whole { 64 } else { 1 };
        }
    }

    /// Whether a number is in the set.
    pub fn contains(&self, number: u64) -> bool {
        let (page, word, bit) = place(number);
        self.pages.get(&page).and_then(|page| page.get(word)).is_some_and(|word| word & bit != 0)
    }

    /// Whether `count` numbers from `start` on all are in the set.
    pub fn contains_run(&self, start: u64, count: u64) -> bool {
        (start..start.saturating_add(count)).all(|number| self.contains(number))
    }

    /// How many numbers it has.
    pub fn len(&self) -> u64 {
        let words = self.pages.values().flat_map(|page| page.iter());
        words.map(|word| u64::from(word.count_ones())).sum()
    }

    /// The numbers in order, as runs of a first number and a count of at most `most`.
    pub fn runs(&self, most: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut numbers = self.numbers().peekable();
        std::iter::from_fn(move || {
            let start = numbers.next()?;
            let mut count = 1;
            while count < most && numbers.next_if_eq(&(start + count)).is_some() {
                count += 1;
            }
            Some((start, count))
        })
    }

    fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.pages.iter().flat_map(|(page, words)| {
            (0_u64..).zip(words.iter()).filter(|(_, word)| **word != 0).flat_map(move |(index, word)| {
                let first = page * PAGE_BITS + index * 64;
                (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| first + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_what_was_inserted() {
        let mut set = NumberSet::default();
        set.insert_run(60, 200);
        set.insert_run(PAGE_BITS - 3, 10);
        set.insert(u64::from(u32::MAX) << 8);
        let expected = vec![(60, 200), (PAGE_BITS - 3, 10), (u64::from(u32::MAX) << 8, 1)];
        assert_eq!(set.runs(u64::MAX).collect::<Vec<_>>(), expected);
        assert_eq!(set.len(), 211);
        assert_eq!(set.runs(128).next(), Some((60, 128)));
        assert!(set.contains_run(60, 200) && !set.contains(260) && !set.contains(59));
    }
}
