//! A sound btree from sorted records, block by block.
//!
//! Invariants:
//! 1. Each level divides its entries evenly among the fewest blocks of three quarters of their room, and a single block takes as
//!    many as fit. So every block but the root has at least half of its room in use, which Linux and xfs_repair want.
//! 2. Nothing but the given blocks is written.

use uxfs_format::{
    btree::{
        BlockPointer, BtreeKind,
        block::{Address, Pointer},
        block_edit::BlockEdit,
        block_header::{BlockHeader, BlockIdentity, ShortBlockHeader},
        extent_map::{ExtentMap, ExtentMapKey, ExtentRecord},
    },
    checksum,
    edit::{DirtyMap, Edit},
    geometry::Geometry,
    units::{AgBlock, AgNumber, FsBlock, InodeNumber, Sector},
};
use uxfs_volume::error::{OperationError, Result};

use crate::repair::stage::Stage;

/// How many blocks each level of a tree has, the leaves first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    blocks_by_level: Vec<usize>,
}

impl Shape {
    /// The shape of a tree with so many records.
    pub fn of<K: BtreeKind>(records: usize, geometry: &Geometry) -> Self {
        let mut blocks_by_level = Vec::new();
        let mut entries = records;
        let mut level = 0_u16;
        loop {
            let room = K::max_entries(geometry.block_size_bytes, level).max(4) as usize;
            let blocks = if entries <= room { 1 } else { entries.div_ceil(room * 3 / 4) };
            blocks_by_level.push(blocks);
            if blocks == 1 {
                return Self { blocks_by_level };
            }
            entries = blocks;
            level = level.saturating_add(1);
        }
    }

    /// Blocks of all levels.
    pub fn blocks(&self) -> usize {
        self.blocks_by_level.iter().sum()
    }

    /// Levels, from 1.
    pub fn levels(&self) -> u32 {
        u32::try_from(self.blocks_by_level.len()).unwrap_or(u32::MAX)
    }
}

/// A tree that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Built<A = AgBlock> {
    pub root: A,
    pub levels: u32,
    pub blocks: u32,
}

/// Writes a tree of a group with these records, which are in order, into `blocks`, which are as many as its shape says.
pub(crate) fn build<K: BtreeKind<Header = ShortBlockHeader>>(
    stage: &Stage,
    group: AgNumber,
    records: &[K::Record],
    blocks: &[AgBlock],
) -> Result<Built> {
    let shape = Shape::of::<K>(records.len(), stage.geometry());
    let sector_of = |block| stage.sector_of(group, block);
    let mut writer = Writer::<K>::new(stage, group.get().into(), &sector_of);
    writer.write_levels(records, &shape.blocks_by_level, blocks)?;
    let root = blocks.last().copied().unwrap_or(AgBlock::new(u32::MAX));
    Ok(Built { root, levels: shape.levels(), blocks: u32::try_from(shape.blocks()).unwrap_or(u32::MAX) })
}

/// The levels of an extent map below its root, which lies in the inode.
#[derive(Debug, Clone)]
pub(crate) struct BelowRoot {
    /// Level of the root.
    pub level: u16,
    /// First file block and place of each child of the root.
    pub children: Vec<(ExtentMapKey, FsBlock)>,
    pub blocks: u64,
}

/// Writes an extent map of an inode with these records, which are in order, but for its root, which has room for
/// `root_entries`. `None` where `blocks` are too few.
pub(crate) fn build_extent_map(
    stage: &Stage,
    inode: InodeNumber,
    records: &[ExtentRecord],
    blocks: &[FsBlock],
    root_entries: usize,
) -> Result<Option<BelowRoot>> {
    let geometry = stage.geometry();
    // Three quarters full where there are blocks for it, else full.
    let shapes = [3, 4].map(|quarters| below_root(records.len(), quarters, root_entries, geometry));
    let Some(levels) = shapes.into_iter().find(|levels| levels.iter().sum::<usize>() <= blocks.len()) else {
        return Ok(None);
    };
    let sector_of = |block: FsBlock| {
        let place = geometry.split_fs_block(block).ok_or(OperationError::NoSuchGroup)?;
        stage.sector_of(place.0, place.1)
    };
    let mut writer = Writer::<ExtentMap>::new(stage, inode.get(), &sector_of);
    writer.write_levels(records, &levels, blocks)?;
    let level = u16::try_from(levels.len()).unwrap_or(u16::MAX);
    let count = levels.iter().sum::<usize>() as u64;
    Ok(Some(BelowRoot { level, children: writer.children, blocks: count }))
}

/// Blocks of each level below a root in an inode.
fn below_root(records: usize, quarters: usize, root_entries: usize, geometry: &Geometry) -> Vec<usize> {
    let mut levels = Vec::new();
    let mut entries = records;
    loop {
        let level = u16::try_from(levels.len()).unwrap_or(u16::MAX);
        let room = ExtentMap::max_entries(geometry.block_size_bytes, level).max(4) as usize;
        let blocks = if entries <= room { 1 } else { entries.div_ceil(room * quarters / 4) };
        levels.push(blocks);
        if blocks <= root_entries.max(1) {
            return levels;
        }
        entries = blocks;
    }
}

/// Writes level after level.
struct Writer<'s, K: BtreeKind> {
    stage: &'s Stage,
    owner: u64,
    sector_of: &'s dyn Fn(Address<K>) -> Result<Sector>,
    /// Keys and places of the level below.
    children: Vec<(K::Key, Address<K>)>,
    /// Of the level at hand.
    next: Vec<(K::Key, Address<K>)>,
}

impl<'s, K: BtreeKind> Writer<'s, K> {
    fn new(stage: &'s Stage, owner: u64, sector_of: &'s dyn Fn(Address<K>) -> Result<Sector>) -> Self {
        Self { stage, owner, sector_of, children: Vec::new(), next: Vec::new() }
    }

    fn write_levels(&mut self, records: &[K::Record], levels: &[usize], blocks: &[Address<K>]) -> Result<()> {
        let mut rest = blocks;
        for (level, count) in (0_u16..).zip(levels) {
            let (own, behind) = rest.split_at_checked(*count).unwrap_or((rest, &[]));
            rest = behind;
            match level {
                0 => self.write_leaves(records, own)?,
                _ => self.write_nodes(level, own)?,
            }
        }
        Ok(())
    }

    fn write_leaves(&mut self, records: &[K::Record], blocks: &[Address<K>]) -> Result<()> {
        let mut rest = records;
        for index in 0..blocks.len() {
            let (own, behind) = split_evenly(rest, blocks.len() - index);
            rest = behind;
            self.write(blocks, index, 0, |edit| {
                for (index, record) in own.iter().enumerate() {
                    edit.insert_record(index, record);
                }
            })?;
            self.note_key(own.iter().map(K::key_of_record), blocks.get(index));
        }
        self.end_level();
        Ok(())
    }

    fn write_nodes(&mut self, level: u16, blocks: &[Address<K>]) -> Result<()> {
        let children = std::mem::take(&mut self.children);
        let mut rest = children.as_slice();
        for index in 0..blocks.len() {
            let (own, behind) = split_evenly(rest, blocks.len() - index);
            rest = behind;
            self.write(blocks, index, level, |edit| {
                for (index, (key, child)) in own.iter().enumerate() {
                    edit.insert_entry(index, key, &Pointer::<K>::from_address(*child));
                }
            })?;
            self.note_key(own.iter().map(|(key, _)| *key), blocks.get(index));
        }
        self.end_level();
        Ok(())
    }

    fn note_key(&mut self, keys: impl Iterator<Item = K::Key>, block: Option<&Address<K>>) {
        let key = keys.reduce(|mut key, other| {
            K::widen_key(&mut key, &other);
            key
        });
        if let (Some(key), Some(block)) = (key, block) {
            self.next.push((key, *block));
        }
    }

    fn end_level(&mut self) {
        self.children = std::mem::take(&mut self.next);
    }

    /// Writes the block at `index` of a level that lies in `blocks`.
    fn write(
        &self,
        blocks: &[Address<K>],
        index: usize,
        level: u16,
        fill: impl FnOnce(&mut BlockEdit<'_, K>),
    ) -> Result<()> {
        let geometry = self.stage.geometry();
        let Some(block) = blocks.get(index) else { return Ok(()) };
        let sector = (self.sector_of)(*block)?;
        let identity = BlockIdentity { sector, uuid: geometry.metadata_uuid, owner: self.owner };
        let mut bytes = vec![0; geometry.block_size_bytes as usize];
        let mut dirty = DirtyMap::clean();
        let mut edit = BlockEdit::<K>::new(Edit::new(&mut bytes, &mut dirty));
        edit.format(level, identity);
        if let Some(left) = index.checked_sub(1).and_then(|index| blocks.get(index)) {
            edit.set_left_sibling(Pointer::<K>::from_address(*left));
        }
        if let Some(right) = blocks.get(index + 1) {
            edit.set_right_sibling(Pointer::<K>::from_address(*right));
        }
        fill(&mut edit);
        checksum::seal(&mut bytes, K::Header::CHECKSUM_OFFSET_BYTES);
        self.stage.write_at(sector, &bytes)
    }
}

/// The first of `parts` equal parts, and the rest.
fn split_evenly<T>(all: &[T], parts: usize) -> (&[T], &[T]) {
    all.split_at_checked(all.len().div_ceil(parts.max(1))).unwrap_or((all, &[]))
}

#[cfg(test)]
mod tests {
    use uxfs_format::btree::{free_space::ByBlock, reverse_map::ReverseMap};
    use uxfs_testkit::golden::GoldenImage;
    use uxfs_volume::volume::{Volume, VolumeOptions};

    use super::*;

    #[test]
    fn every_block_but_the_root_is_at_least_half_full() {
        let image = GoldenImage::named("block-1k").unwrap().unpacked().unwrap();
        let device = uxfs_block::engine::sync::SyncDevice::open_read_only(&image, 0).unwrap();
        let volume = Volume::open(std::sync::Arc::new(device), &VolumeOptions::default()).unwrap();
        let geometry = volume.geometry();
        for records in (0..3000).chain([100_000, 1_234_567]) {
            check::<ByBlock>(records, geometry);
            check::<ReverseMap>(records, geometry);
        }
    }

    fn check<K: BtreeKind>(records: usize, geometry: &Geometry) {
        let shape = Shape::of::<K>(records, geometry);
        let mut entries = records;
        for (level, blocks) in (0..).zip(&shape.blocks_by_level) {
            let most = K::max_entries(geometry.block_size_bytes, level) as usize;
            let least = K::min_entries(geometry.block_size_bytes, level) as usize;
            assert!(entries.div_ceil(*blocks) <= most, "{records} records: {shape:?}");
            assert!(*blocks == 1 || entries / blocks >= least, "{records} records: {shape:?}");
            entries = *blocks;
        }
        assert_eq!(entries, 1);
    }
}
