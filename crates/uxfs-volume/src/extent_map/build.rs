//! Collecting the extents of a fork, each of which is checked.

use uxfs_block::cache::MemoryAccount;
use uxfs_format::{
    btree::extent_map::{Extent, ExtentMapFault, ExtentRecord},
    geometry::Geometry,
    inode::Fork,
    units::FileBlock,
};

use super::ExtentMap;

/// Collects the extents of a fork and checks each.
pub(super) struct Builder<'a> {
    geometry: &'a Geometry,
    fork: Fork,
    /// Blocks are numbers of the realtime section.
    is_realtime: bool,
    /// As the inode counts them.
    expected: u64,
    end: FileBlock,
    map: ExtentMap,
    /// The account that the memory of many extents is charged to.
    account: Option<&'a MemoryAccount>,
}

impl<'a> Builder<'a> {
    pub fn new(
        geometry: &'a Geometry,
        fork: Fork,
        is_realtime: bool,
        expected: u64,
        account: Option<&'a MemoryAccount>,
    ) -> Self {
        let (end, map) = (FileBlock::new(0), ExtentMap::default());
        Self { geometry, fork, is_realtime, expected, end, map, account }
    }

    /// Where the extents so far end.
    pub fn end(&self) -> FileBlock {
        self.end
    }

    /// Takes the records of one leaf, or none of them.
    pub fn extend(&mut self, records: &[ExtentRecord]) -> Result<(), ExtentMapFault> {
        let found = (self.map.len() + records.len()) as u64;
        if found > self.expected {
            return Err(ExtentMapFault::Count { found, expected: self.expected });
        }
        let end = self.end;
        let checked = records.iter().try_for_each(|record| self.check(&record.get()));
        checked.inspect_err(|_| self.end = end)?;
        self.map.splice(self.map.len()..self.map.len(), records, self.account);
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

    /// The map. Where a part of it was left out there may be fewer extents than the inode counts.
    pub fn finish(mut self, is_whole: bool) -> Result<ExtentMap, ExtentMapFault> {
        let found = self.map.len() as u64;
        if found != self.expected && is_whole {
            return Err(ExtentMapFault::Count { found, expected: self.expected });
        }
        self.map.shrink_to_fit();
        Ok(self.map)
    }
}
