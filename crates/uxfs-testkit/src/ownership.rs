//! A naive model of block ownership and sharing: what the btrees of an AG must say.

use std::collections::{BTreeMap, BTreeSet};

use uxfs_format::{
    btree::{
        BtreeKind,
        reference_count::SharedExtent,
        reverse_map::{Mapping, Owner, ReverseMap, ReverseMapRecord},
    },
    units::{AgBlock, FileBlock},
};

/// All owners of all blocks of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnerModel {
    blocks: BTreeSet<Owned>,
}

/// One block of one owner. Ordered so that blocks which belong in one record follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Owned {
    owner: u64,
    /// Attribute fork, block of an extent map, unwritten.
    flags: [bool; 3],
    /// File block less block: the same all along a record.
    shift: i64,
    block: u32,
}

fn blocks_of(mapping: &Mapping) -> impl Iterator<Item = Owned> + use<> {
    let Mapping { is_attribute_fork, is_extent_map_block, is_unwritten, .. } = *mapping;
    let (owner, flags) = (mapping.owner.raw(), [is_attribute_fork, is_extent_map_block, is_unwritten]);
    let start = mapping.start.get();
    let shift =
        if mapping.has_file_blocks() { mapping.file_block.get().cast_signed() - i64::from(start) } else { 0 };
    (start..start + mapping.length_blocks).map(move |block| Owned { owner, flags, shift, block })
}

impl OwnerModel {
    /// Holds what a list of mappings says.
    pub fn of(mappings: impl IntoIterator<Item = Mapping>) -> Self {
        let mut model = Self::default();
        mappings.into_iter().for_each(|mapping| model.map(&mapping));
        model
    }

    /// Gives blocks to an owner.
    ///
    /// # Panics
    /// The owner has one of them already, in the same way.
    pub fn map(&mut self, mapping: &Mapping) {
        for owned in blocks_of(mapping) {
            assert!(self.blocks.insert(owned), "mapped twice: {owned:?}");
        }
    }

    /// Takes blocks from an owner.
    ///
    /// # Panics
    /// The owner does not have one of them in this way.
    pub fn unmap(&mut self, mapping: &Mapping) {
        for owned in blocks_of(mapping) {
            assert!(self.blocks.remove(&owned), "not mapped: {owned:?}");
        }
    }

    /// Makes blocks written or unwritten.
    pub fn convert(&mut self, mapping: &Mapping) {
        self.unmap(&Mapping { is_unwritten: !mapping.is_unwritten, ..*mapping });
        self.map(mapping);
    }

    /// Whether the owner has all of these blocks in this way.
    pub fn has(&self, mapping: &Mapping) -> bool {
        blocks_of(mapping).all(|owned| self.blocks.contains(&owned))
    }

    /// Whether any of the blocks has an owner.
    pub fn is_any_owned(&self, start: AgBlock, length_blocks: u32) -> bool {
        let range = start.get()..start.get() + length_blocks;
        self.blocks.iter().any(|owned| range.contains(&owned.block))
    }

    /// The merged list, in the order of the tree.
    pub fn mappings(&self) -> Vec<Mapping> {
        let mut list: Vec<Mapping> = Vec::new();
        let mut last: Option<Owned> = None;
        for owned in &self.blocks {
            let goes_on = |last: Owned| Owned { block: last.block + 1, ..last } == *owned;
            match list.last_mut() {
                Some(mapping) if last.is_some_and(goes_on) => mapping.length_blocks += 1,
                _ => list.push(first_of(owned)),
            }
            last = Some(*owned);
        }
        list.sort_by_key(|mapping| ReverseMap::position_of_record(&ReverseMapRecord::from(*mapping)));
        list
    }
}

fn first_of(owned: &Owned) -> Mapping {
    let [is_attribute_fork, is_extent_map_block, is_unwritten] = owned.flags;
    let mut mapping = Mapping {
        start: AgBlock::new(owned.block),
        length_blocks: 1,
        owner: Owner::from_raw(owned.owner),
        file_block: FileBlock::new(0),
        is_attribute_fork,
        is_extent_map_block,
        is_unwritten,
    };
    if mapping.has_file_blocks() {
        let file_block = owned.shift + i64::from(owned.block);
        mapping.file_block = FileBlock::new(file_block.cast_unsigned());
    }
    mapping
}

/// How many owners each block of a group has, and which are set aside for a copy-on-write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReferenceModel {
    counts: BTreeMap<u32, u32>,
    staged: BTreeSet<u32>,
}

impl ReferenceModel {
    /// Owners of a block: 1 unless it was set.
    pub fn count(&self, block: u32) -> u32 {
        self.counts.get(&block).copied().unwrap_or(1)
    }

    /// Sets the owners of a block.
    pub fn set_count(&mut self, block: u32, count: u32) {
        if count > 1 {
            self.counts.insert(block, count);
        } else {
            self.counts.remove(&block);
        }
    }

    /// Takes in what another model says, of other blocks.
    pub fn add(&mut self, other: &Self) {
        self.counts.extend(&other.counts);
        self.staged.extend(&other.staged);
    }

    /// One owner more.
    pub fn increase(&mut self, start: AgBlock, length_blocks: u32) {
        for block in start.get()..start.get() + length_blocks {
            self.set_count(block, self.count(block).saturating_add(1));
        }
    }

    /// One owner less; gives the blocks that have none any more. Counts at their limit stay.
    pub fn decrease(&mut self, start: AgBlock, length_blocks: u32) -> Vec<u32> {
        let mut unowned = Vec::new();
        for block in start.get()..start.get() + length_blocks {
            match self.count(block) {
                u32::MAX => {}
                1 => unowned.push(block),
                count => self.set_count(block, count - 1),
            }
        }
        unowned
    }

    /// Whether one of the blocks is set aside.
    pub fn is_any_staged(&self, start: AgBlock, length_blocks: u32) -> bool {
        self.staged.range(start.get()..start.get() + length_blocks).next().is_some()
    }

    /// Whether all of the blocks are set aside.
    pub fn are_staged(&self, start: AgBlock, length_blocks: u32) -> bool {
        (start.get()..start.get() + length_blocks).all(|block| self.staged.contains(&block))
    }

    /// Sets blocks aside.
    pub fn stage(&mut self, start: AgBlock, length_blocks: u32) {
        self.staged.extend(start.get()..start.get() + length_blocks);
    }

    /// Ends that.
    pub fn unstage(&mut self, start: AgBlock, length_blocks: u32) {
        self.staged.retain(|block| !(start.get()..start.get() + length_blocks).contains(block));
    }

    /// The first run of blocks with several owners within a range.
    pub fn find_shared(&self, start: AgBlock, length_blocks: u32) -> Option<(AgBlock, u32)> {
        let range = start.get()..start.get() + length_blocks;
        let first = range.clone().find(|block| self.count(*block) > 1)?;
        let end = (first..range.end).find(|block| self.count(*block) < 2).unwrap_or(range.end);
        Some((AgBlock::new(first), end - first))
    }

    /// The merged list, in the order of the tree.
    pub fn extents(&self) -> Vec<SharedExtent> {
        let shared = self.counts.iter().map(|(block, count)| (*block, *count, false));
        let staged = self.staged.iter().map(|block| (*block, 1, true));
        let mut list: Vec<SharedExtent> = Vec::new();
        for (block, count, is_cow_staging) in shared.chain(staged) {
            match list.last_mut() {
                Some(last)
                    if last.start.get() + last.length_blocks == block
                        && (last.count, last.is_cow_staging) == (count, is_cow_staging) =>
                {
                    last.length_blocks += 1;
                }
                _ => list.push(SharedExtent {
                    start: AgBlock::new(block),
                    length_blocks: 1,
                    count,
                    is_cow_staging,
                }),
            }
        }
        list
    }
}
