//! Which lines of two files have no partner on the other side.
//!
//! Lines become numbers, equal ones the same; a library finds what both files have in common, by Myers' algorithm with the bounds that git
//! has: on hostile files it gives up the shortest answer before time. The lines that remain when [`COMPARISON_TIME`] is over all count as changed.
//! Either way the answer is right, only longer.

use std::{
    convert::Infallible,
    hash::{BuildHasher, RandomState},
    ops::Range,
    time::{Duration, Instant},
};

use hashbrown::{HashTable, hash_table::Entry};
use similar::algorithms::{DiffHook, myers};

use super::{super::both::Both, lines::Lines, slide::slide};

/// Longest search for what two files have in common.
const COMPARISON_TIME: Duration = Duration::from_secs(5);

/// The lines that differ.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// For each line of a side whether it is one of them.
    pub marks: Both<Vec<bool>>,
}

/// Lines of both sides, one behind the other, that take the place of each other.
pub(super) type Change = Both<Range<usize>>;

impl Changes {
    /// Compares two files.
    pub fn between(lines: &Both<Lines>) -> Self {
        let tokens = tokens(lines);
        let Both { first, second } = &tokens;
        let mut changes =
            Self { marks: Both { first: vec![true; first.len()], second: vec![true; second.len()] } };
        let deadline = Instant::now().checked_add(COMPARISON_TIME);
        let Ok(()) =
            myers::diff_deadline(&mut changes, first, 0..first.len(), second, 0..second.len(), deadline);
        slide(&tokens, &mut changes.marks);
        changes
    }

    /// The changes, from the first on.
    pub fn iter(&self) -> impl Iterator<Item = Change> {
        let mut at = Both { first: 0, second: 0 };
        std::iter::from_fn(move || {
            let is_changed = |marks: &[bool], index: usize| marks.get(index).copied();
            let Both { first, second } = &self.marks;
            loop {
                match (is_changed(first, at.first), is_changed(second, at.second)) {
                    (None, None) => return None,
                    (Some(false), Some(false)) => {
                        at.first += 1;
                        at.second += 1;
                    }
                    _ => break,
                }
            }
            let change = Both {
                first: at.first..run_end(first, at.first),
                second: at.second..run_end(second, at.second),
            };
            // One of both is longer than nothing, unless as many lines are not equal: then it ends here.
            at = Both { first: change.first.end, second: change.second.end };
            (!change.first.is_empty() || !change.second.is_empty()).then_some(change)
        })
    }
}

/// Where marked lines end that begin here.
pub(super) fn run_end(marks: &[bool], from: usize) -> usize {
    let rest = marks.get(from..).unwrap_or_default();
    from + rest.iter().position(|is_marked| !is_marked).unwrap_or(rest.len())
}

impl DiffHook for Changes {
    type Error = Infallible;

    fn equal(&mut self, first: usize, second: usize, length: usize) -> Result<(), Infallible> {
        for (marks, begin) in [(&mut self.marks.first, first), (&mut self.marks.second, second)] {
            marks.get_mut(begin..begin.saturating_add(length)).unwrap_or_default().fill(false);
        }
        Ok(())
    }
}

/// A number for each line.
fn tokens(lines: &Both<Lines>) -> Both<Vec<u32>> {
    // With a key of its own: files cannot be made so that their lines meet in one place.
    let hasher = RandomState::new();
    let mut table: HashTable<(u32, bool)> = HashTable::new();
    let line = |(index, is_second): (u32, bool)| {
        let side = if is_second { &lines.second } else { &lines.first };
        side.get(index as usize)
    };
    let mut numbers = |lines: &Lines, is_second: bool, offset: usize| {
        let count = u32::try_from(lines.len()).unwrap_or(u32::MAX);
        (0..count)
            .map(|index| {
                let text = line((index, is_second));
                let hash = hasher.hash_one(text);
                let is_same = |other: &(u32, bool)| line(*other) == text;
                let entry = table.entry(hash, is_same, |other| hasher.hash_one(line(*other)));
                let (number, is_second) = match entry {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(free) => *free.insert((index, is_second)).get(),
                };
                if is_second {
                    number.saturating_add(u32::try_from(offset).unwrap_or(u32::MAX))
                } else {
                    number
                }
            })
            .collect()
    };
    let first = numbers(&lines.first, false, 0);
    let second = numbers(&lines.second, true, lines.first.len());
    Both { first, second }
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
