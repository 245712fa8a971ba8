//! Which records a change of owners takes away and which it puts in their place: no tree, only neighbours.
//!
//! Two mappings are one record wherever they can be: blocks that follow each other, the same owner and flags, and for
//! the contents of a fork also file blocks that follow each other. xfs_repair compares the tree with a list that is
//! merged in this way throughout.

use uxfs_format::{
    btree::reverse_map::Mapping,
    units::{AgBlock, FileBlock},
};

/// More file blocks than a record can say.
const FILE_BLOCK_LIMIT: u64 = 1 << 54;

/// Most mappings that one change is about: two neighbours and a record split in three.
const MOST: usize = 5;

/// A few mappings in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Pieces {
    items: [Option<Mapping>; MOST],
    count: usize,
}

impl Pieces {
    pub fn new(mappings: impl IntoIterator<Item = Mapping>) -> Self {
        let mut pieces = Self::default();
        mappings.into_iter().for_each(|mapping| pieces.push(mapping));
        pieces
    }

    /// The same, with all that can be one made one.
    pub fn merged(mappings: impl IntoIterator<Item = Mapping>) -> Self {
        let mut pieces = Self::default();
        for mapping in mappings {
            match pieces.last_mut() {
                Some(last) if continues(last, &mapping) => last.length_blocks += mapping.length_blocks,
                _ => pieces.push(mapping),
            }
        }
        pieces
    }

    fn push(&mut self, mapping: Mapping) {
        if let Some(slot) = self.items.get_mut(self.count) {
            *slot = Some(mapping);
            self.count += 1;
        }
    }

    fn last_mut(&mut self) -> Option<&mut Mapping> {
        self.items.get_mut(self.count.checked_sub(1)?)?.as_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Mapping> {
        self.items.iter().flatten()
    }

    /// Takes out the first that `wanted` accepts.
    pub fn take(&mut self, wanted: impl Fn(&Mapping) -> bool) -> Option<Mapping> {
        self.items.iter_mut().find(|slot| slot.as_ref().is_some_and(&wanted))?.take()
    }
}

/// Whether `right` is where the record of `left` would go on.
pub fn continues(left: &Mapping, right: &Mapping) -> bool {
    left.end() == right.start
        && left.owner == right.owner
        && left.is_attribute_fork == right.is_attribute_fork
        && left.is_extent_map_block == right.is_extent_map_block
        && left.is_unwritten == right.is_unwritten
        && left.length_blocks.checked_add(right.length_blocks).is_some()
        && (!left.has_file_blocks()
            || file_end(left) == right.file_block.get() && file_end(right) <= FILE_BLOCK_LIMIT)
}

/// Whether `whole` says of all the blocks of `part` the same as `part` does.
pub(super) fn contains(whole: &Mapping, part: &Mapping) -> bool {
    let Some(skip) = part.start.checked_distance_from(whole.start) else { return false };
    whole.owner == part.owner
        && part.end() <= whole.end()
        && whole.is_attribute_fork == part.is_attribute_fork
        && whole.is_extent_map_block == part.is_extent_map_block
        && whole.is_unwritten == part.is_unwritten
        && (!whole.has_file_blocks()
            || whole.file_block.get().saturating_add(skip.into()) == part.file_block.get())
}

fn file_end(mapping: &Mapping) -> u64 {
    mapping.file_block.get().saturating_add(mapping.length_blocks.into())
}

/// The part of a mapping from `start` to before `end`, both within it; `None` for no blocks.
pub(super) fn part(mapping: &Mapping, start: AgBlock, end: AgBlock) -> Option<Mapping> {
    let skip = start.checked_distance_from(mapping.start)?;
    let length_blocks = end.checked_distance_from(start).filter(|length| *length > 0)?;
    let advance = if mapping.has_file_blocks() { u64::from(skip) } else { 0 };
    let file_block = FileBlock::new(mapping.file_block.get().saturating_add(advance));
    Some(Mapping { start, length_blocks, file_block, ..*mapping })
}

/// Records before and behind a new mapping that it goes on from or to, and the new one between them.
pub(super) fn mapped(left: Option<Mapping>, new: Mapping, right: Option<Mapping>) -> (Pieces, Pieces) {
    let left = left.filter(|left| continues(left, &new));
    let right = right.filter(|right| continues(&new, right));
    let after = left.into_iter().chain([new]).chain(right);
    (Pieces::new(left.into_iter().chain(right)), Pieces::merged(after))
}

/// A record that loses the blocks of `gone`.
pub(super) fn unmapped(record: Mapping, gone: &Mapping) -> (Pieces, Pieces) {
    let before = part(&record, record.start, gone.start);
    let behind = part(&record, gone.end(), record.end());
    (Pieces::new([record]), Pieces::new(before.into_iter().chain(behind)))
}

/// A record of which the blocks of `new` become written or unwritten, as `new` says.
pub(super) fn converted(
    left: Option<Mapping>,
    record: Mapping,
    new: Mapping,
    right: Option<Mapping>,
) -> (Pieces, Pieces) {
    let left = left.filter(|left| continues(left, &new));
    let right = right.filter(|right| continues(&new, right));
    let before = part(&record, record.start, new.start);
    let behind = part(&record, new.end(), record.end());
    let old = left.into_iter().chain([record]).chain(right);
    let after = left.into_iter().chain(before).chain([new]).chain(behind).chain(right);
    (Pieces::new(old), Pieces::merged(after))
}
