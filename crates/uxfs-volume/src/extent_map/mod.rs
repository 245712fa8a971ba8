//! Where the contents of a fork lie.
//!
//! [`Volume::extent_map`](crate::volume::Volume::extent_map) decodes the extents of a fork of any format
//! once and keeps them with the inode. A map holds 16 bytes for each extent, as the disk does, and is never larger
//! than the blocks it was read from.
//!
//! Invariants of a map: extents ascend and do not overlap; each has a length and lies within one allocation group,
//! behind its headers (not in realtime files); there are as many as the inode counts; none in an attribute fork is
//! unwritten.

mod fork_extents;
mod read;

pub use fork_extents::ForkExtents;

pub use uxfs_format::btree::extent_map::Extent;
use uxfs_format::{
    btree::extent_map::{ExtentMapFault, ExtentRecord},
    geometry::Geometry,
    inode::Fork,
    units::FileBlock,
};

/// The extents of one fork, in order.
#[doc(alias = "xfs_iext_tree")]
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ExtentMap {
    records: Vec<ExtentRecord>,
}

impl ExtentMap {
    /// How many extents there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// All extents in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Extent> + ExactSizeIterator + '_ {
        self.records.iter().map(ExtentRecord::get)
    }

    /// The extent at an index, from 0 in file order.
    pub fn get(&self, index: usize) -> Option<Extent> {
        self.records.get(index).map(ExtentRecord::get)
    }

    /// Index of the extent that holds `file_block`, or else of the next one behind it; [`len`](Self::len) if none.
    pub fn index_at_or_after(&self, file_block: FileBlock) -> usize {
        self.records.partition_point(|record| record.get().end() <= file_block)
    }

    /// The extent that holds `file_block`, whole; `None` in a hole.
    pub fn lookup(&self, file_block: FileBlock) -> Option<Extent> {
        self.next_at_or_after(file_block).filter(|extent| extent.file_block <= file_block)
    }

    /// The extent that holds `file_block`, or else the next one behind it.
    pub fn next_at_or_after(&self, file_block: FileBlock) -> Option<Extent> {
        self.get(self.index_at_or_after(file_block))
    }

    /// All extents that end behind `file_block`, in order: the one that holds it first.
    pub fn from(&self, file_block: FileBlock) -> impl DoubleEndedIterator<Item = Extent> + '_ {
        let index = self.index_at_or_after(file_block);
        self.records.get(index..).unwrap_or_default().iter().map(ExtentRecord::get)
    }

    /// First file block behind all extents; 0 for an empty map.
    pub fn end(&self) -> FileBlock {
        self.iter().next_back().map_or(FileBlock::new(0), |extent| extent.end())
    }

    /// Blocks that all extents have together.
    pub fn blocks(&self) -> u64 {
        self.iter().fold(0, |sum, extent| sum.saturating_add(extent.length_blocks))
    }
}

/// Collects the extents of a fork and checks each.
struct Builder<'a> {
    geometry: &'a Geometry,
    fork: Fork,
    /// Blocks are numbers of the realtime section.
    is_realtime: bool,
    /// As the inode counts them.
    expected: u64,
    end: FileBlock,
    map: ExtentMap,
}

impl<'a> Builder<'a> {
    fn new(geometry: &'a Geometry, fork: Fork, is_realtime: bool, expected: u64) -> Self {
        let (end, map) = (FileBlock::new(0), ExtentMap::default());
        Self { geometry, fork, is_realtime, expected, end, map }
    }

    /// Takes the records of one leaf.
    fn extend(&mut self, records: &[ExtentRecord]) -> Result<(), ExtentMapFault> {
        let found = (self.map.len() + records.len()) as u64;
        if found > self.expected {
            return Err(ExtentMapFault::Count { found, expected: self.expected });
        }
        for record in records {
            self.check(&record.get())?;
        }
        self.map.records.extend_from_slice(records);
        Ok(())
    }

    fn check(&mut self, extent: &Extent) -> Result<(), ExtentMapFault> {
        extent.verify()?;
        if extent.file_block < self.end {
            let file_block = extent.file_block;
            return Err(ExtentMapFault::Overlap { file_block, end: self.end });
        }
        if !self.is_realtime {
            extent.verify_place(self.geometry)?;
        }
        if extent.is_unwritten && self.fork == Fork::Attribute {
            return Err(ExtentMapFault::UnwrittenAttribute { file_block: extent.file_block });
        }
        self.end = extent.end();
        Ok(())
    }

    fn finish(mut self) -> Result<ExtentMap, ExtentMapFault> {
        let found = self.map.len() as u64;
        if found != self.expected {
            return Err(ExtentMapFault::Count { found, expected: self.expected });
        }
        self.map.records.shrink_to_fit();
        Ok(self.map)
    }
}
