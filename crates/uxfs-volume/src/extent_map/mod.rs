//! Where the contents of a fork lie.
//!
//! An [`ExtentMap`] holds the extents of a fork, of 16 bytes each as on disk, for readers and for writers.
//! Extents that lie in the inode are decoded with it; those of a btree [`Volume::extent_map`](crate::volume::Volume::extent_map)
//! reads once and keeps with the inode. A map is never larger than the blocks it was read from.
//!
//! | module | holds |
//! |---|---|
//! | here | the map, and how it is asked |
//! | `iterate` | its extents in order, from both ends |
//! | `change` | other extents in the place of some |
//! | `tree` | very many extents |
//! | `build` | from records to a map, each checked |
//! | `read` | from the bytes of a fork to a map |
//!
//! Invariants of a map: extents ascend and do not overlap; each has a length and lies within one allocation group,
//! behind its headers (not in realtime files); there are as many as the inode counts; none in an attribute fork is
//! unwritten.

mod build;
mod change;
mod iterate;
mod read;
mod tree;

use std::{fmt, ops::Range};

pub use uxfs_format::btree::extent_map::Extent;
use uxfs_format::{btree::extent_map::ExtentRecord, units::FileBlock};

pub use self::iterate::Extents;
pub(crate) use self::read::inline_extents;
use self::tree::Tree;

/// More extents than that lie in a tree: for fewer, moving them costs less.
const FEW_RECORDS: usize = 32;

/// The extents of one fork, in order. Cloning a map of many extents is cheap: both share what neither changes.
#[doc(alias = "xfs_iext_tree")]
#[derive(Clone)]
pub struct ExtentMap {
    form: Form,
}

#[derive(Clone)]
enum Form {
    /// One extent, as most files have: it takes no memory beside the inode.
    One(ExtentRecord),
    /// None, or a few.
    Few(Vec<ExtentRecord>),
    Many(Box<Tree>),
}

impl ExtentMap {
    /// Without extents.
    pub const EMPTY: Self = Self { form: Form::Few(Vec::new()) };

    /// A map of these extents, which ascend; `None` where no record can hold one of them.
    pub fn of(extents: impl IntoIterator<Item = Extent>) -> Option<Self> {
        let mut map = Self::EMPTY;
        for extent in extents {
            map.splice(map.len()..map.len(), &[ExtentRecord::new(&extent)?], None);
        }
        Some(map)
    }

    /// How many extents there are.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.form {
            Form::One(_) => 1,
            Form::Few(records) => records.len(),
            Form::Many(tree) => tree.len(),
        }
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All extents in order.
    pub fn iter(&self) -> Extents<'_> {
        self.range(0..self.len())
    }

    /// The extents of a range of indexes, as far as there are any.
    pub fn range(&self, range: Range<usize>) -> Extents<'_> {
        Extents::new(self, range)
    }

    /// A copy as a list.
    pub fn to_vec(&self) -> Vec<Extent> {
        self.iter().collect()
    }

    /// The extent at an index, from 0 in file order.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Extent> {
        let (records, place) = self.run_at(index);
        records.get(place).map(ExtentRecord::get)
    }

    /// The first extent.
    #[inline]
    pub fn first(&self) -> Option<Extent> {
        self.get(0)
    }

    /// The last extent.
    #[inline]
    pub fn last(&self) -> Option<Extent> {
        let last = match &self.form {
            Form::One(record) => Some(record),
            Form::Few(records) => records.last(),
            Form::Many(tree) => tree.last(),
        };
        last.map(ExtentRecord::get)
    }

    /// Index of the extent that holds `file_block`, or else of the next one behind it; [`len`](Self::len) if none.
    #[inline]
    pub fn index_at_or_after(&self, file_block: FileBlock) -> usize {
        match &self.form {
            Form::One(record) => at_or_after(std::slice::from_ref(record), file_block),
            Form::Few(records) => at_or_after(records, file_block),
            Form::Many(tree) => {
                let (records, before) = tree.leaf_of(file_block);
                before + at_or_after(records, file_block)
            }
        }
    }

    /// Index of the first extent that begins at or behind `file_block`; [`len`](Self::len) if none.
    #[inline]
    pub fn index_beginning_at_or_after(&self, file_block: FileBlock) -> usize {
        let index = self.index_at_or_after(file_block);
        let is_within = self.get(index).is_some_and(|extent| extent.file_block < file_block);
        index + usize::from(is_within)
    }

    /// The extent that holds `file_block`, whole; `None` in a hole.
    #[inline]
    pub fn lookup(&self, file_block: FileBlock) -> Option<Extent> {
        let records = match &self.form {
            Form::One(record) => std::slice::from_ref(record),
            Form::Few(records) => records,
            Form::Many(tree) => tree.leaf_of(file_block).0,
        };
        let found = records.get(at_or_after(records, file_block))?.get();
        (found.file_block <= file_block).then_some(found)
    }

    /// The extent that holds `file_block`, or else the next one behind it.
    #[inline]
    pub fn next_at_or_after(&self, file_block: FileBlock) -> Option<Extent> {
        self.get(self.index_at_or_after(file_block))
    }

    /// All extents that end behind `file_block`, in order: the one that holds it first.
    pub fn from(&self, file_block: FileBlock) -> Extents<'_> {
        self.range(self.index_at_or_after(file_block)..self.len())
    }

    /// First file block behind all extents; 0 for an empty map.
    pub fn end(&self) -> FileBlock {
        self.last().map_or(FileBlock::new(0), |extent| extent.end())
    }

    /// Blocks that all extents have together.
    pub fn blocks(&self) -> u64 {
        match &self.form {
            Form::Many(tree) => tree.blocks(),
            _ => self.iter().fold(0, |sum, extent| sum.saturating_add(extent.length_blocks)),
        }
    }

    /// Records that lie one behind the other, and the place of the extent at `index` among them.
    #[inline]
    fn run_at(&self, index: usize) -> (&[ExtentRecord], usize) {
        match &self.form {
            Form::One(record) => (std::slice::from_ref(record), index),
            Form::Few(records) => (records, index),
            Form::Many(tree) if index < tree.len() => tree.leaf_at(index),
            Form::Many(_) => (&[], 0),
        }
    }
}

/// Index of the extent among `records` that holds `file_block`, or else of the next one; their number if none.
#[inline]
fn at_or_after(records: &[ExtentRecord], file_block: FileBlock) -> usize {
    let begins_before = |record: &ExtentRecord| record.file_block() <= file_block;
    let place = match records.len() {
        // A few are compared faster in order than by halves.
        ..=FEW_RECORDS => records.iter().take_while(|record| begins_before(record)).count(),
        _ => records.partition_point(begins_before),
    };
    let before = place.checked_sub(1).and_then(|index| records.get(index));
    place - usize::from(before.is_some_and(|record| record.get().end() > file_block))
}

impl Default for ExtentMap {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<'a> IntoIterator for &'a ExtentMap {
    type IntoIter = Extents<'a>;
    type Item = Extent;

    fn into_iter(self) -> Extents<'a> {
        self.iter()
    }
}

impl PartialEq for ExtentMap {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other)
    }
}

impl Eq for ExtentMap {}

impl fmt::Debug for ExtentMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

#[cfg(test)]
mod map_tests;
