//! The extents of a map in order.

use std::{iter::FusedIterator, ops::Range};

use uxfs_format::btree::extent_map::{Extent, ExtentRecord};

use super::ExtentMap;

/// Extents of a map in order, from both ends.
#[derive(Debug, Clone)]
pub struct Extents<'a> {
    map: &'a ExtentMap,
    /// Indexes of those that are left.
    left: Range<usize>,
    /// Records that begin with the next one; perhaps none, perhaps more than are left.
    front: &'a [ExtentRecord],
    /// Records that end with the last one; perhaps none, perhaps more than are left.
    back: &'a [ExtentRecord],
}

impl<'a> Extents<'a> {
    pub(super) fn new(map: &'a ExtentMap, range: Range<usize>) -> Self {
        let end = range.end.min(map.len());
        Self { map, left: range.start.min(end)..end, front: &[], back: &[] }
    }
}

impl Iterator for Extents<'_> {
    type Item = Extent;

    #[inline]
    fn next(&mut self) -> Option<Extent> {
        let index = self.left.next()?;
        if self.front.is_empty() {
            let (records, place) = self.map.run_at(index);
            self.front = records.get(place..).unwrap_or_default();
        }
        let (first, rest) = self.front.split_first()?;
        self.front = rest;
        Some(first.get())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }

    fn nth(&mut self, count: usize) -> Option<Extent> {
        let skipped = count.min(self.left.len());
        self.left.start += skipped;
        self.front = self.front.get(skipped..).unwrap_or_default();
        self.next()
    }
}

impl DoubleEndedIterator for Extents<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Extent> {
        let index = self.left.next_back()?;
        if self.back.is_empty() {
            let (records, place) = self.map.run_at(index);
            self.back = records.get(..=place).unwrap_or_default();
        }
        let (last, rest) = self.back.split_last()?;
        self.back = rest;
        Some(last.get())
    }
}

impl ExactSizeIterator for Extents<'_> {}
impl FusedIterator for Extents<'_> {}
