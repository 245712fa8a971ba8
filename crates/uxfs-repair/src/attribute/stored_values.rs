//! Values of attributes in blocks of their own, beside the entries that lead to them.
//!
//! Each block of a value says whose it is and which part it holds. So a value that no entry leads to is found by its length, and so is
//! the length of a value.

use std::{cell::OnceCell, collections::BTreeSet};

use uxfs_format::{
    attribute::{
        MAX_VALUE_BYTES,
        flags::AttributeFlags,
        leaf::{self, LeafBlock, LeafValue},
        remote::{RemoteHeader, block_count, part_size_bytes},
    },
    btree::extent_map::Extent,
    fault::Structure,
    field_table::OnDisk,
    inode::Fork,
    name_tree::header::magic_of,
    units::{FileBlock, FsBlock, InodeNumber, Sector},
    verify::{VerifyContext, verify},
};
use uxfs_volume::volume::Volume;

use crate::repair::{log_copies::owner_of, stage::Stage};

/// Values, and leaves, of one inode that are looked at. They take 16 MiB.
const MOST_PLACES: usize = 1 << 20;

/// The attribute fork of one inode.
pub(crate) struct StoredValues<'s> {
    stage: &'s Stage,
    inode: InodeNumber,
    extents: Vec<Extent>,
    /// `None` where there are too many.
    found: OnceCell<Option<Found>>,
}

/// What the whole fork holds.
#[derive(Default)]
struct Found {
    /// First block and length of each value, in order.
    values: Vec<(u64, u32)>,
    leaves: Vec<Sector>,
    /// First blocks of values to which an entry leads that knows the length as well.
    claimed: BTreeSet<u64>,
    /// Lengths that the other entries say.
    lacking: Vec<u32>,
}

/// A part of a value.
struct Part {
    offset_bytes: u32,
    length_bytes: u32,
}

impl<'s> StoredValues<'s> {
    /// `None` where the extents cannot be read.
    pub fn new(volume: &Volume, stage: &'s Stage, inode: InodeNumber) -> Option<Self> {
        let owner = volume.inode(inode).ok()?;
        let extents = volume.extent_map(&owner, Fork::Attribute).ok()?.iter().collect();
        Some(Self { stage, inode, extents, found: OnceCell::new() })
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

    /// The first block of the only value of this length to which no entry leads, if one entry alone may lack it.
    pub fn lost_value(&self, length_bytes: u32) -> Option<FileBlock> {
        let found = self.found()?;
        let is_lost = |value: &&(u64, u32)| value.1 == length_bytes && !found.claimed.contains(&value.0);
        let mut lost = found.values.iter().filter(is_lost);
        let first = lost.next().filter(|_| lost.next().is_none())?;
        let lacking = found.lacking.iter().filter(|lacking| **lacking == length_bytes).count();
        (lacking == 1).then_some(FileBlock::new(first.0))
    }

    /// Whether a value of this length begins at this block.
    pub fn has_value(&self, first_block: FileBlock, length_bytes: u32) -> bool {
        let Some(found) = self.found() else { return true };
        found.values.binary_search(&(first_block.get(), length_bytes)).is_ok()
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
        let mut bytes = vec![0; self.stage.geometry().block_size()];
        self.stage.read_at(sector, &mut bytes).ok()?;
        Some(bytes)
    }

    fn sector_of(&self, block: FileBlock) -> Option<Sector> {
        let next = self.extents.partition_point(|extent| extent.end() <= block);
        let extent = self.extents.get(next).filter(|extent| extent.file_block <= block)?;
        let skipped = block.get().saturating_sub(extent.file_block.get());
        self.stage.geometry().sector_of_block(FsBlock::new(extent.start.get().checked_add(skipped)?))
    }

    fn is_own(&self, structure: Structure, bytes: &[u8], sector: Sector) -> bool {
        let geometry = self.stage.geometry();
        owner_of(structure, bytes) == Some(self.inode.get())
            && verify(structure, bytes, &VerifyContext::new(geometry, sector)).is_ok()
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
        let mut found = Found::default();
        let mut entries = Vec::new();
        for extent in &self.extents {
            for block in extent.file_block.get()..extent.end().get() {
                let sector = self.sector_of(FileBlock::new(block))?;
                let Some(bytes) = self.read(sector) else { continue };
                if let Some(part) = self.part_of(&bytes, sector) {
                    found.add_part(block, &part, self.stage);
                } else if magic_of(&bytes) == Some(leaf::MAGIC) {
                    found.leaves.push(sector);
                    entries.extend(self.entries_of(&bytes));
                }
                if found.values.len().max(found.leaves.len()).max(entries.len()) > MOST_PLACES {
                    return None;
                }
            }
        }
        for (first_block, length_bytes) in entries {
            match found.values.binary_search(&(first_block, length_bytes)) {
                Ok(_) => _ = found.claimed.insert(first_block),
                Err(_) => found.lacking.push(length_bytes),
            }
        }
        Some(found)
    }

    /// First block and length of the values to which the entries of a leaf lead, also of a damaged one.
    fn entries_of(&self, bytes: &[u8]) -> Vec<(u64, u32)> {
        let Ok(leaf) = LeafBlock::parse(bytes, self.stage.geometry()) else { return Vec::new() };
        let remote = leaf.attributes().flatten().filter_map(|attribute| match attribute.value {
            LeafValue::Remote { first_block, length_bytes }
                if !attribute.flags.contains(AttributeFlags::INCOMPLETE) =>
            {
                Some((first_block.get(), length_bytes))
            }
            _ => None,
        });
        remote.collect()
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
}
