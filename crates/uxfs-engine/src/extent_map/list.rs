//! Changes of a list of extents, as pure functions.
//!
//! Each function looks at the list and says what has to change, as a [`Splice`]; the same splice is then made in the
//! list in memory and in the btree that mirrors it.
//!
//! Extents that continue each other in the file and on disk, both written or both not, become one as long as a record
//! can hold their length.

use std::ops::{Deref, Range};

use uxfs_block::cache::MemoryAccount;
use uxfs_format::{
    btree::extent_map::{Extent, ExtentRecord, MAX_EXTENT_BLOCKS},
    units::{FileBlock, FsBlock},
};

use uxfs_volume::extent_map::{ExtentMap, Extents};

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

/// The extents that a splice adds, packed.
#[derive(Debug, Clone, Copy)]
pub struct AddedRecords {
    records: [ExtentRecord; 3],
    count: usize,
}

impl Deref for AddedRecords {
    type Target = [ExtentRecord];

    fn deref(&self) -> &[ExtentRecord] {
        self.records.get(..self.count).unwrap_or_default()
    }
}

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

    /// The extents in their place.
    pub fn added(&self) -> &[Extent] {
        self.added.get(..self.added_count).unwrap_or_default()
    }

    /// By how much the list becomes longer.
    pub fn growth(&self) -> i64 {
        self.added_count as i64 - self.removed as i64
    }

    /// The extents of the list that go.
    pub fn removed<'a>(&self, extents: &'a ExtentMap) -> Extents<'a> {
        extents.range(self.index..self.index.saturating_add(self.removed))
    }

    /// The new extents as records; `None` where none can hold one of the extents.
    pub fn records(&self) -> Option<AddedRecords> {
        let mut records =
            AddedRecords { records: [ExtentRecord::new(&NOTHING)?; 3], count: self.added_count };
        for (record, extent) in records.records.iter_mut().zip(self.added()) {
            *record = ExtentRecord::new(extent)?;
        }
        Some(records)
    }

    /// Makes the change, of which `added` are the [`records`](Self::records).
    pub fn apply(&self, extents: &mut ExtentMap, added: &AddedRecords, account: Option<&MemoryAccount>) {
        extents.splice(self.index..self.index.saturating_add(self.removed), added, account);
    }
}

/// Index of the first extent that ends behind `file_block`.
pub fn index_at_or_after(extents: &ExtentMap, file_block: FileBlock) -> usize {
    extents.index_at_or_after(file_block)
}

/// The extents that have blocks in a range, as indexes.
pub fn overlapping(extents: &ExtentMap, start: FileBlock, end: FileBlock) -> Range<usize> {
    let first = index_at_or_after(extents, start);
    first..extents.index_beginning_at_or_after(end).max(first)
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

fn before(extents: &ExtentMap, index: usize) -> Option<Extent> {
    extents.get(index.checked_sub(1)?)
}

/// Adds an extent. `None` where some of its file blocks are mapped already.
pub fn insertion(extents: &ExtentMap, new: &Extent) -> Option<Splice> {
    let index = index_at_or_after(extents, new.file_block);
    if extents.get(index).is_some_and(|next| next.file_block < new.end()) {
        return None;
    }
    Some(placed(extents, index, 0, None, *new, None))
}

/// Takes the mappings of a range away.
pub fn removal(extents: &ExtentMap, start: FileBlock, end: FileBlock) -> Splice {
    let range = overlapping(extents, start, end);
    let found = |index: usize| extents.get(index).filter(|_| !range.is_empty());
    let head = found(range.start).and_then(|first| part_of(&first, FileBlock::new(0), start));
    let last = range.end.checked_sub(1).and_then(found);
    let tail = last.and_then(|last| part_of(&last, end, FileBlock::NULL));
    Splice::new(range.start, range.len()).and_some(head).and_some(tail)
}

/// Makes the first part of a range that is not yet so written or unwritten. Gives that part as it was; nothing where
/// the whole range is as wanted. Holes stay what they are.
pub fn conversion(
    extents: &ExtentMap,
    start: FileBlock,
    end: FileBlock,
    is_unwritten: bool,
) -> Option<(Extent, Splice)> {
    let range = overlapping(extents, start, end);
    let (index, extent) = (range.start..)
        .zip(extents.range(range.clone()))
        .find(|(_, extent)| extent.is_unwritten != is_unwritten)?;
    let part = part_of(&extent, start, end)?;
    let head = part_of(&extent, FileBlock::new(0), start);
    let tail = part_of(&extent, end, FileBlock::NULL);
    let splice = placed(extents, index, 1, head, Extent { is_unwritten, ..part }, tail);
    Some((part, splice))
}

/// Puts an extent in the place of a part of another one.
pub fn replacement(extents: &ExtentMap, new: &Extent) -> Option<Splice> {
    let index = index_at_or_after(extents, new.file_block);
    let old = extents.get(index)?;
    if old.file_block > new.file_block || old.end() < new.end() {
        return None;
    }
    let head = part_of(&old, FileBlock::new(0), new.file_block);
    let tail = part_of(&old, new.end(), FileBlock::NULL);
    Some(placed(extents, index, 1, head, *new, tail))
}

/// How many extents more there are when a range is no longer what the extents around it are.
pub fn division_growth(extents: &ExtentMap, range: &Range<FileBlock>) -> u32 {
    let is_within = |block: FileBlock| {
        let found = extents.get(index_at_or_after(extents, block));
        found.is_some_and(|extent| extent.file_block < block)
    };
    u32::from(is_within(range.start)) + u32::from(is_within(range.end))
}

/// Moves an extent to other file blocks, over none but holes.
pub fn shift(extents: &ExtentMap, index: usize, file_block: FileBlock) -> Option<Splice> {
    let extent = extents.get(index)?;
    Some(placed(extents, index, 1, None, Extent { file_block, ..extent }, None))
}

/// Divides the extent that holds `file_block` and the one before it, if one does.
pub fn division(extents: &ExtentMap, file_block: FileBlock) -> Option<Splice> {
    let index = index_at_or_after(extents, file_block);
    let extent = extents.get(index)?;
    let head = part_of(&extent, FileBlock::new(0), file_block)?;
    let tail = part_of(&extent, file_block, FileBlock::NULL)?;
    Some(Splice::new(index, 1).and(head).and(tail))
}

/// Puts `new`, between what is left of the extents it replaces, in the place of `removed` extents from `index`, and
/// joins it with its neighbours where that is possible.
fn placed(
    extents: &ExtentMap,
    index: usize,
    removed: usize,
    head: Option<Extent>,
    new: Extent,
    tail: Option<Extent>,
) -> Splice {
    let left = if head.is_none() { before(extents, index) } else { None };
    let right = if tail.is_none() { extents.get(index + removed) } else { None };
    let (mut splice, mut new) = (Splice::new(index, removed), new);
    if let Some(both) = left.and_then(|left| joined(&left, &new)) {
        (splice.index, splice.removed, new) = (splice.index - 1, splice.removed + 1, both);
    }
    if let Some(both) = right.and_then(|right| joined(&new, &right)) {
        (splice.removed, new) = (splice.removed + 1, both);
    }
    splice.and_some(head).and(new).and_some(tail)
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
