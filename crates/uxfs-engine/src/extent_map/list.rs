//! Changes of a list of extents, as pure functions.
//!
//! Each function looks at the list and says what has to change, as a [`Splice`]; the same splice is then made in the
//! list in memory and in the btree that mirrors it.
//!
//! Extents that continue each other in the file and on disk, both written or both not, become one as long as a record
//! can hold their length.

use std::ops::Range;

use uxfs_format::{
    btree::extent_map::{Extent, MAX_EXTENT_BLOCKS},
    units::{FileBlock, FsBlock},
};

/// Neighbours of a list that give way to at most three extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Splice {
    /// Where in the list.
    pub index: usize,
    /// How many extents go.
    pub removed: usize,
    added: [Extent; 3],
    added_count: usize,
}

const NOTHING: Extent =
    Extent { file_block: FileBlock::new(0), start: FsBlock::new(0), length_blocks: 0, is_unwritten: false };

impl Splice {
    fn new(index: usize, removed: usize) -> Self {
        Self { index, removed, added: [NOTHING; 3], added_count: 0 }
    }

    fn and(mut self, extent: Extent) -> Self {
        if let Some(slot) = self.added.get_mut(self.added_count) {
            *slot = extent;
            self.added_count += 1;
        }
        self
    }

    fn and_some(self, extent: Option<Extent>) -> Self {
        match extent {
            Some(extent) => self.and(extent),
            None => self,
        }
    }

    /// What comes in their place.
    pub fn added(&self) -> &[Extent] {
        self.added.get(..self.added_count).unwrap_or_default()
    }

    /// By how much the list becomes longer.
    pub fn growth(&self) -> i64 {
        self.added_count as i64 - self.removed as i64
    }

    /// The extents of the list that go.
    pub fn removed<'a>(&self, extents: &'a [Extent]) -> &'a [Extent] {
        extents.get(self.index..self.index.saturating_add(self.removed)).unwrap_or_default()
    }

    /// Makes the change.
    pub fn apply(&self, extents: &mut Vec<Extent>) {
        if self.removed == self.added_count {
            let end = self.index.saturating_add(self.removed);
            if let Some(slots) = extents.get_mut(self.index..end) {
                slots.copy_from_slice(self.added());
            }
        } else if self.index == extents.len() {
            extents.extend_from_slice(self.added());
        } else {
            let end = self.index.saturating_add(self.removed).min(extents.len());
            extents.splice(self.index..end, self.added().iter().copied());
        }
    }
}

/// Index of the first extent that ends behind `file_block`.
pub fn index_at_or_after(extents: &[Extent], file_block: FileBlock) -> usize {
    match extents.last() {
        // Files grow at their end.
        Some(last) if last.end() > file_block => extents.partition_point(|extent| extent.end() <= file_block),
        _ => extents.len(),
    }
}

/// The extents that have blocks in a range, as indexes.
pub fn overlapping(extents: &[Extent], start: FileBlock, end: FileBlock) -> Range<usize> {
    let first = index_at_or_after(extents, start);
    let rest = extents.get(first..).unwrap_or_default();
    first..first + rest.partition_point(|extent| extent.file_block < end)
}

/// The part of an extent that lies in a range, if any does.
pub fn part_of(extent: &Extent, start: FileBlock, end: FileBlock) -> Option<Extent> {
    let first = extent.file_block.max(start);
    let length_blocks = extent.end().min(end).checked_distance_from(first).filter(|length| *length > 0)?;
    let skipped = first.checked_distance_from(extent.file_block)?;
    Some(Extent {
        file_block: first,
        start: extent.start.checked_add(skipped)?,
        length_blocks,
        is_unwritten: extent.is_unwritten,
    })
}

/// Both as one, if the second continues the first and one record can hold them.
fn joined(first: &Extent, second: &Extent) -> Option<Extent> {
    let length_blocks = first.length_blocks + second.length_blocks;
    let continues = first.end() == second.file_block
        && first.start.checked_add(first.length_blocks) == Some(second.start)
        && first.is_unwritten == second.is_unwritten;
    (continues && length_blocks <= MAX_EXTENT_BLOCKS).then_some(Extent { length_blocks, ..*first })
}

fn before(extents: &[Extent], index: usize) -> Option<&Extent> {
    extents.get(index.checked_sub(1)?)
}

/// Adds an extent. `None` where some of its file blocks are mapped already.
pub fn insertion(extents: &[Extent], new: &Extent) -> Option<Splice> {
    let index = index_at_or_after(extents, new.file_block);
    if extents.get(index).is_some_and(|next| next.file_block < new.end()) {
        return None;
    }
    Some(placed(extents, index, 0, None, *new, None))
}

/// Takes the mappings of a range away.
pub fn removal(extents: &[Extent], start: FileBlock, end: FileBlock) -> Splice {
    let range = overlapping(extents, start, end);
    let found = extents.get(range.clone()).unwrap_or_default();
    let head = found.first().and_then(|first| part_of(first, FileBlock::new(0), start));
    let tail = found.last().and_then(|last| part_of(last, end, FileBlock::NULL));
    Splice::new(range.start, range.len()).and_some(head).and_some(tail)
}

/// Makes the first part of a range that is not yet so written or unwritten. Gives that part as it was; nothing where
/// the whole range is as wanted. Holes stay what they are.
pub fn conversion(
    extents: &[Extent],
    start: FileBlock,
    end: FileBlock,
    is_unwritten: bool,
) -> Option<(Extent, Splice)> {
    let range = overlapping(extents, start, end);
    let found = extents.get(range.clone()).unwrap_or_default();
    let (index, extent) =
        (range.start..).zip(found).find(|(_, extent)| extent.is_unwritten != is_unwritten)?;
    let part = part_of(extent, start, end)?;
    let head = part_of(extent, FileBlock::new(0), start);
    let tail = part_of(extent, end, FileBlock::NULL);
    let splice = placed(extents, index, 1, head, Extent { is_unwritten, ..part }, tail);
    Some((part, splice))
}

/// Puts an extent in the place of a part of another one.
pub fn replacement(extents: &[Extent], new: &Extent) -> Option<Splice> {
    let index = index_at_or_after(extents, new.file_block);
    let old = extents.get(index)?;
    if old.file_block > new.file_block || old.end() < new.end() {
        return None;
    }
    let head = part_of(old, FileBlock::new(0), new.file_block);
    let tail = part_of(old, new.end(), FileBlock::NULL);
    Some(placed(extents, index, 1, head, *new, tail))
}

/// How many extents more there are when a range is no longer what the extents around it are.
pub fn division_growth(extents: &[Extent], range: &Range<FileBlock>) -> u32 {
    let is_within = |block: FileBlock| {
        let found = extents.get(index_at_or_after(extents, block));
        found.is_some_and(|extent| extent.file_block < block)
    };
    u32::from(is_within(range.start)) + u32::from(is_within(range.end))
}

/// Moves an extent to other file blocks, over none but holes.
pub fn shift(extents: &[Extent], index: usize, file_block: FileBlock) -> Option<Splice> {
    let extent = extents.get(index)?;
    Some(placed(extents, index, 1, None, Extent { file_block, ..*extent }, None))
}

/// Divides the extent that holds `file_block` and the one before it, if one does.
pub fn division(extents: &[Extent], file_block: FileBlock) -> Option<Splice> {
    let index = index_at_or_after(extents, file_block);
    let extent = extents.get(index)?;
    let head = part_of(extent, FileBlock::new(0), file_block)?;
    let tail = part_of(extent, file_block, FileBlock::NULL)?;
    Some(Splice::new(index, 1).and(head).and(tail))
}

/// Puts `new`, between what is left of the extents it replaces, in the place of `removed` extents from `index`, and
/// joins it with its neighbours where that is possible.
fn placed(
    extents: &[Extent],
    index: usize,
    removed: usize,
    head: Option<Extent>,
    new: Extent,
    tail: Option<Extent>,
) -> Splice {
    let left = if head.is_none() { before(extents, index) } else { None };
    let right = if tail.is_none() { extents.get(index + removed) } else { None };
    let (mut splice, mut new) = (Splice::new(index, removed), new);
    if let Some(both) = left.and_then(|left| joined(left, &new)) {
        (splice.index, splice.removed, new) = (splice.index - 1, splice.removed + 1, both);
    }
    if let Some(both) = right.and_then(|right| joined(&new, right)) {
        (splice.removed, new) = (splice.removed + 1, both);
    }
    splice.and_some(head).and(new).and_some(tail)
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
