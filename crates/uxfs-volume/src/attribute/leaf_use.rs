//! How full the leaves of an attribute fork are, in one pass over them.

use std::ops::ControlFlow;

use uxfs_format::{
    attribute::leaf::{LeafBlock, LeafValue},
    attribute::leaf_edit::LeafEdit,
    units::FileBlock,
};

use super::{
    leaves::visit_leaves,
    reader::{AttributeForm, AttributeReader},
};
use crate::{error::Result, name_tree::ForkBlocks, volume::MetadataBuffer};

/// Parts of the range of hashes that are counted apart.
const PARTS: usize = 256;

/// Use of the leaves of an attribute fork. All zeros where the attributes lie in the inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafUse {
    /// Attributes in leaves, parent pointers and half made ones included.
    pub attributes: u64,
    /// Leaves.
    pub leaves: u64,
    /// Bytes of names, values and their entries.
    pub used_bytes: u64,
    /// Bytes that there are for these.
    pub room_bytes: u64,
    /// Leaves with fewer than [`SPARSE_BYTES`](Self::SPARSE_BYTES) bytes used.
    pub sparse_leaves: u64,
    /// Values in blocks of their own.
    pub remote_values: u64,
    /// Different hashes.
    pub hashes: u64,
    /// Attributes that one hash has at most.
    pub most_of_one_hash: u64,
    /// How many hashes one, two, three and so on attributes have; the last counts those with as many or more.
    pub hashes_by_names: [u64; MOST_COUNTED_NAMES],
    /// Attributes by the first byte of their hash.
    parts: [u64; PARTS],
}

/// Attributes of one hash that are counted apart.
pub const MOST_COUNTED_NAMES: usize = 8;

/// Use of one leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafFigures {
    /// Where the leaf lies in the fork.
    pub block: FileBlock,
    /// Attributes in it.
    pub attributes: u64,
    /// Different hashes among them.
    pub hashes: u64,
    /// The first of these.
    pub first_hash: u32,
    /// The last of these.
    pub last_hash: u32,
    /// Bytes of names, values and their entries.
    pub used_bytes: u32,
    /// Bytes that there are for these.
    pub room_bytes: u32,
}

impl Default for LeafUse {
    fn default() -> Self {
        Self {
            attributes: 0,
            leaves: 0,
            used_bytes: 0,
            room_bytes: 0,
            sparse_leaves: 0,
            remote_values: 0,
            hashes: 0,
            most_of_one_hash: 0,
            hashes_by_names: [0; MOST_COUNTED_NAMES],
            parts: [0; PARTS],
        }
    }
}

impl LeafUse {
    /// Leaves with less in use count as sparse, as in the published figures.
    pub const SPARSE_BYTES: u32 = 2700;

    /// Attributes in the emptiest and in the fullest 256th of the range of hashes.
    pub fn spread(&self) -> (u64, u64) {
        let (least, most) = (self.parts.iter().min(), self.parts.iter().max());
        (least.copied().unwrap_or(0), most.copied().unwrap_or(0))
    }
}

impl AttributeReader<'_> {
    /// Looks at all leaves of the attribute fork.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn leaf_use(&self) -> Result<LeafUse> {
        self.visit_leaves(|_| {})
    }

    /// As [`leaf_use`](Self::leaf_use); `visit` gets the figures of each leaf, in the order of hashes.
    ///
    /// # Errors
    /// As there.
    pub fn visit_leaves(&self, mut visit: impl FnMut(&LeafFigures)) -> Result<LeafUse> {
        let mut counting = Counting { found: LeafUse::default(), last: None, of_last: 0 };
        let AttributeForm::Blocks(blocks) = self.form()? else { return Ok(counting.found) };
        visit_leaves(blocks, |leaf, place| {
            let (last_hash, figures) = counting.add(blocks, leaf, place)?;
            visit(&figures);
            Ok(ControlFlow::Continue(last_hash))
        })?;
        Ok(counting.finish())
    }
}

struct Counting {
    found: LeafUse,
    /// The hash of the attribute before, and how many had it.
    last: Option<u32>,
    of_last: u64,
}

impl Counting {
    /// Counts the hash before, of which no more attributes come.
    fn end_hash(&mut self) {
        let last = self.found.hashes_by_names.len().saturating_sub(1) as u64;
        let place = self.of_last.checked_sub(1).map(|place| place.min(last) as usize);
        if let Some(count) = place.and_then(|place| self.found.hashes_by_names.get_mut(place)) {
            *count += 1;
        }
        self.of_last = 0;
    }

    fn finish(mut self) -> LeafUse {
        self.end_hash();
        self.found
    }

    fn add(
        &mut self,
        blocks: &ForkBlocks<'_>,
        buffer: &MetadataBuffer,
        place: FileBlock,
    ) -> Result<(Option<u32>, LeafFigures)> {
        let structure = blocks.index_structure();
        let corrupt = |fault| blocks.corruption(structure, place, Some(buffer.sector()), fault);
        let leaf = LeafBlock::parse(buffer, blocks.geometry()).map_err(corrupt)?;
        let (used, room) = LeafEdit::fill_bytes(&leaf, blocks.geometry().block_size_bytes);
        self.found.leaves += 1;
        self.found.used_bytes += u64::from(used);
        self.found.room_bytes += u64::from(room);
        self.found.sparse_leaves += u64::from(used < LeafUse::SPARSE_BYTES);
        let mut figures = LeafFigures {
            block: place,
            attributes: 0,
            hashes: 0,
            first_hash: leaf.entries.first().map_or(0, |entry| entry.hash.get()),
            last_hash: leaf.last_hash().unwrap_or(0),
            used_bytes: used,
            room_bytes: room,
        };
        let mut last_here = None;
        for (entry, attribute) in leaf.entries.iter().zip(leaf.attributes()) {
            let attribute = attribute.map_err(&corrupt)?;
            let hash = entry.hash.get();
            figures.attributes += 1;
            figures.hashes += u64::from(last_here.replace(hash) != Some(hash));
            if self.last != Some(hash) {
                self.end_hash();
                self.last = Some(hash);
                self.found.hashes += 1;
            }
            let found = &mut self.found;
            found.attributes += 1;
            found.remote_values += u64::from(matches!(attribute.value, LeafValue::Remote { .. }));
            if let Some(part) = found.parts.get_mut((hash >> 24) as usize) {
                *part += 1;
            }
            self.of_last += 1;
            found.most_of_one_hash = found.most_of_one_hash.max(self.of_last);
        }
        Ok((leaf.last_hash(), figures))
    }
}
