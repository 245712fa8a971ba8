//! Values of attributes in blocks of their own, beside the entries that lead to them.
//!
//! Each block of a value says whose it is and which part it holds. So a value that no entry leads to is found by its length, and so is
//! the length of a value.

use std::{
    cell::{Cell, OnceCell},
    cmp::Ordering,
    collections::BTreeMap,
};

use uxfs_format::{
    attribute::{
        MAX_VALUE_BYTES,
        flags::AttributeFlags,
        leaf::{self, LeafBlock, LeafValue},
        remote::{HEADER_BYTES, RemoteHeader, block_count, part_size_bytes},
    },
    btree::extent_map::Extent,
    fault::Structure,
    field_table::OnDisk,
    geometry::Geometry,
    inode::{FileType, Fork},
    name_tree::header::magic_of,
    units::{FileBlock, FsBlock, InodeNumber, Sector},
};
use uxfs_volume::volume::Volume;

use super::leaf::sound_parents;
use crate::repair::{
    identity::{is_sound_block_of, owner_of},
    stage::Stage,
};

/// Values, leaves and entries of one inode that are remembered: some 70 MiB.
const MOST_PLACES: usize = 1 << 20;

/// Blocks that may still be read in search of values, for all inodes together: extents of a damaged image claim any number.
#[derive(Debug)]
pub(crate) struct SearchBudget(Cell<u64>);

impl SearchBudget {
    pub fn new(geometry: &Geometry) -> Self {
        // Two steps of a pass may each read all.
        Self(Cell::new(geometry.data_blocks.saturating_mul(2)))
    }

    /// Takes so many blocks, if they are left.
    fn take(&self, blocks: u64) -> bool {
        let left = self.0.get().checked_sub(blocks);
        left.map(|left| self.0.set(left)).is_some()
    }
}

/// The attribute fork of one inode.
pub(crate) struct StoredValues<'s> {
    stage: &'s Stage,
    inode: InodeNumber,
    /// Names of the inode, as its link count says.
    names: u64,
    extents: Vec<Extent>,
    budget: &'s SearchBudget,
    /// `None` where there are too many.
    found: OnceCell<Option<Found>>,
}

/// What the whole fork holds.
#[derive(Default)]
struct Found {
    /// First block and length of each value, in order.
    values: Vec<(u64, u32)>,
    leaves: Vec<Sector>,
    /// By length: the first of the values to which no entry leads, and how many there are.
    lost: BTreeMap<u32, (u64, u64)>,
    /// By length: how many entries lead to no value of theirs.
    lacking: BTreeMap<u32, u64>,
    /// Sound parent pointers in all leaves.
    parents: u64,
    /// An entry is half made or half removed: its value is no lost one.
    has_incomplete: bool,
}

/// A part of a value.
struct Part {
    offset_bytes: u32,
    length_bytes: u32,
}

impl<'s> StoredValues<'s> {
    /// `None` where the extents cannot be read.
    pub fn new(
        volume: &Volume,
        stage: &'s Stage,
        inode: InodeNumber,
        budget: &'s SearchBudget,
    ) -> Option<Self> {
        let owner = volume.inode(inode).ok()?;
        let extents = volume.extent_map(&owner, Fork::Attribute).ok()?.iter().collect();
        let is_directory = owner.file_type() == Some(FileType::Directory);
        let names = if is_directory { 1 } else { owner.link_count().into() };
        Some(Self { stage, inode, names, extents, budget, found: OnceCell::new() })
    }

    /// The length of the value that begins at this block, as its blocks tell.
    pub fn length_at(&self, first_block: FileBlock) -> Option<u32> {
        let geometry = self.stage.geometry();
        let mut length = 0_u32;
        for index in 0..u64::from(block_count(geometry, MAX_VALUE_BYTES)) {
            let Some(part) = self.part_at(FileBlock::new(first_block.get().checked_add(index)?)) else {
                break;
            };
            if part.offset_bytes != length {
                break;
            }
            length = length.checked_add(part.length_bytes)?;
            if part.length_bytes < part_size_bytes(geometry) {
                break;
            }
        }
        Some(length).filter(|length| *length > 0)
    }

    /// The first block of the only value of this length to which no entry leads, if one entry alone lacks it.
    pub fn lost_value(&self, length_bytes: u32) -> Option<FileBlock> {
        self.only_lost_value(length_bytes, 1)
    }

    /// As [`lost_value`](Self::lost_value), for one of two entries that lead to the same value.
    pub fn lost_value_of_two(&self, length_bytes: u32) -> Option<FileBlock> {
        self.only_lost_value(length_bytes, 0)
    }

    fn only_lost_value(&self, length_bytes: u32, lacking: u64) -> Option<FileBlock> {
        let found = self.found().filter(|found| !found.has_incomplete)?;
        let (first_block, count) = *found.lost.get(&length_bytes)?;
        let is_only = count == 1 && found.lacking.get(&length_bytes).copied().unwrap_or(0) == lacking;
        is_only.then_some(FileBlock::new(first_block))
    }

    /// The length of the value that begins at this block of the fork.
    pub fn known_length(&self, first_block: FileBlock) -> Option<u32> {
        let values = &self.found()?.values;
        let index = values.binary_search_by_key(&first_block.get(), |(first_block, _)| *first_block).ok()?;
        values.get(index).map(|(_, length_bytes)| *length_bytes)
    }

    /// Whether no value can begin at this block: it is none of the fork, or a sound block of another kind or another part of a value. A
    /// damaged one may be the right one.
    pub fn is_no_start(&self, block: FileBlock) -> bool {
        let Some(sector) = self.sector_of(block) else { return true };
        let Some(bytes) = self.read(sector) else { return false };
        match self.part_of(&bytes, sector) {
            Some(part) => part.offset_bytes != 0,
            None => self.is_index(&bytes, sector),
        }
    }

    /// Whether anything but zeros lies between two ends of a value: the one that an entry says, and the one that sound blocks tell. `None`
    /// where the block behind these may be one of the value that is damaged.
    pub fn has_data_between(&self, first_block: FileBlock, ends_bytes: [u32; 2]) -> Option<bool> {
        let geometry = self.stage.geometry();
        let block = |index: u32| Some(FileBlock::new(first_block.get().checked_add(index.into())?));
        let [own_blocks, told_blocks] = ends_bytes.map(|end| block_count(geometry, end));
        match told_blocks.cmp(&own_blocks) {
            Ordering::Greater => return Some(true),
            Ordering::Less => {
                let left_bytes =
                    ends_bytes[0].checked_sub(told_blocks.checked_mul(part_size_bytes(geometry))?)?;
                let is_other = self.is_other(block(told_blocks)?, left_bytes.min(part_size_bytes(geometry)));
                return is_other.then_some(false);
            }
            Ordering::Equal => {}
        }
        let last = told_blocks.checked_sub(1)?;
        let bytes = self.read(self.sector_of(block(last)?)?)?;
        let before = last.checked_mul(part_size_bytes(geometry))?;
        let [start, end] =
            ends_bytes.map(|end| end.saturating_sub(before).saturating_add(HEADER_BYTES) as usize);
        Some(bytes.get(start.min(end)..start.max(end))?.iter().any(|byte| *byte != 0))
    }

    /// Whether this block is none of the fork, the first one of a value, or a sound block of another kind. One that has so many bytes may
    /// be a later one, whose place in the value is wrong.
    fn is_other(&self, block: FileBlock, part_bytes: u32) -> bool {
        let Some(sector) = self.sector_of(block) else { return true };
        let Some(bytes) = self.read(sector) else { return false };
        match self.part_of(&bytes, sector) {
            Some(part) => part.offset_bytes == 0 && part.length_bytes != part_bytes,
            None => self.is_index(&bytes, sector),
        }
    }

    fn is_index(&self, bytes: &[u8], sector: Sector) -> bool {
        [Structure::AttributeLeaf, Structure::AttributeNode]
            .into_iter()
            .any(|structure| self.is_own(structure, bytes, sector))
    }

    /// Parent pointers that the inode should have, less the sound ones in its leaves. `of_leaf`: those in a leaf that is looked at.
    pub fn missing_parents(&self, of_leaf: u64) -> u64 {
        let known = self.found().map_or(of_leaf, |found| found.parents);
        self.names.saturating_sub(known)
    }

    /// The sectors of all leaves; of too many, none.
    pub fn leaves(&self) -> &[Sector] {
        self.found().map_or(&[], |found| &found.leaves)
    }

    /// The bytes of the leaf at this block of the fork, if there is a sound one.
    pub fn leaf_at(&self, block: FileBlock) -> Option<Vec<u8>> {
        let sector = self.sector_of(block)?;
        let bytes = self.read(sector)?;
        self.is_own(Structure::AttributeLeaf, &bytes, sector).then_some(bytes)
    }

    fn read(&self, sector: Sector) -> Option<Vec<u8>> {
        let mut bytes = self.block_buffer();
        self.stage.read_at(sector, &mut bytes).ok()?;
        Some(bytes)
    }

    fn block_buffer(&self) -> Vec<u8> {
        vec![0; self.stage.geometry().block_size()]
    }

    fn sector_of(&self, block: FileBlock) -> Option<Sector> {
        let next = self.extents.partition_point(|extent| extent.end() <= block);
        let extent = self.extents.get(next).filter(|extent| extent.file_block <= block)?;
        let skipped = block.get().saturating_sub(extent.file_block.get());
        self.stage.geometry().sector_of_block(FsBlock::new(extent.start.get().checked_add(skipped)?))
    }

    fn is_own(&self, structure: Structure, bytes: &[u8], sector: Sector) -> bool {
        is_sound_block_of(self.inode, structure, bytes, sector, self.stage.geometry())
    }

    fn part_at(&self, block: FileBlock) -> Option<Part> {
        let sector = self.sector_of(block)?;
        self.part_of(&self.read(sector)?, sector)
    }

    fn part_of(&self, bytes: &[u8], sector: Sector) -> Option<Part> {
        let header = RemoteHeader::prefix_of(bytes)?;
        let (offset_bytes, length_bytes) = (header.offset_bytes.get(), header.length_bytes.get());
        let is_own = self.is_own(Structure::AttributeRemoteValue, bytes, sector);
        is_own.then_some(Part { offset_bytes, length_bytes })
    }

    fn found(&self) -> Option<&Found> {
        self.found.get_or_init(|| self.look()).as_ref()
    }

    /// Reads the whole fork in its order: parts of a value follow each other.
    fn look(&self) -> Option<Found> {
        let blocks = self.extents.iter().fold(0_u64, |sum, extent| sum.saturating_add(extent.length_blocks));
        if !self.budget.take(blocks) {
            return None;
        }
        let mut found = Found::default();
        let (mut entries, mut bytes) = (Vec::new(), self.block_buffer());
        for extent in &self.extents {
            for block in extent.file_block.get()..extent.end().get() {
                let sector = self.sector_of(FileBlock::new(block))?;
                if self.stage.read_at(sector, &mut bytes).is_err() {
                    continue;
                }
                if let Some(part) = self.part_of(&bytes, sector) {
                    found.add_part(block, &part, self.stage);
                } else if magic_of(&bytes) == Some(leaf::MAGIC)
                    && owner_of(Structure::AttributeLeaf, &bytes) == Some(self.inode.get())
                {
                    found.leaves.push(sector);
                    found.has_incomplete |= self.add_entries(&bytes, &mut entries);
                    found.parents += sound_parents(&bytes, self.stage.geometry());
                }
                if found.values.len().max(found.leaves.len()).max(entries.len()) > MOST_PLACES {
                    return None;
                }
            }
        }
        found.compare(entries);
        Some(found)
    }

    /// Adds first block and length of the values to which the entries of a leaf lead, also of a damaged one. Gives whether any is half
    /// made.
    fn add_entries(&self, bytes: &[u8], entries: &mut Vec<(u64, u32)>) -> bool {
        let Ok(leaf) = LeafBlock::parse(bytes, self.stage.geometry()) else { return false };
        let mut has_incomplete = false;
        for attribute in leaf.attributes().flatten() {
            if attribute.flags.contains(AttributeFlags::INCOMPLETE) {
                has_incomplete = true;
            } else if let LeafValue::Remote { first_block, length_bytes } = attribute.value {
                entries.push((first_block.get(), length_bytes));
            }
        }
        has_incomplete
    }
}

impl Found {
    fn add_part(&mut self, block: u64, part: &Part, stage: &Stage) {
        if part.offset_bytes == 0 {
            return self.values.push((block, part.length_bytes));
        }
        let Some((first_block, length_bytes)) = self.values.last_mut() else { return };
        let parts = u64::from(block_count(stage.geometry(), *length_bytes));
        if *length_bytes == part.offset_bytes && first_block.saturating_add(parts) == block {
            *length_bytes = length_bytes.saturating_add(part.length_bytes);
        }
    }

    /// Which values no entry has, and which entries have none.
    fn compare(&mut self, mut entries: Vec<(u64, u32)>) {
        entries.sort_unstable();
        for (_, length_bytes) in entries.iter().filter(|entry| self.values.binary_search(entry).is_err()) {
            *self.lacking.entry(*length_bytes).or_default() += 1;
        }
        for value in self.values.iter().filter(|value| entries.binary_search(value).is_err()) {
            self.lost.entry(value.1).or_insert((value.0, 0)).1 += 1;
        }
    }
}
