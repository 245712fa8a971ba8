//! All metadata of a group anew, from its inode chunks and the extents of its files: headers, free list, and every btree.
//!
//! Invariants:
//! 1. Blocks for the new btrees come from what neither a structure nor a file has, so that nothing is written over but what is free and
//!    the old btrees, which nothing refers to any more. Where more becomes known later and the group is rebuilt again, the device's bytes
//!    come back to the blocks of the first btrees: see [`Stage::begin_trees`].
//! 2. A group in which two have a block that they may not share is not rebuilt: that must be decided before.

use uxfs_format::{
    allocation_group::{
        free_list::{self, FreeListHeader, FreeListSlot},
        free_space_header::{self, FreeSpaceHeader},
        inode_header::{self, InodeHeader},
    },
    btree::{
        BtreeKind,
        free_space::{ByBlock, ByLength},
        inode_index::{FreeInodeIndex, InodeChunk, InodeIndex},
        reference_count::ReferenceCount,
        reverse_map::{Mapping, Owner, ReverseMap, ReverseMapRecord},
    },
    checksum,
    features::RoCompatible,
    field_table::OnDisk,
    geometry::Geometry,
    units::{AgBlock, AgInode, AgNumber},
};
use uxfs_volume::error::{Error, OperationError, Result};
use zerocopy::{FromZeros, big_endian::U32};

use crate::{
    btree::build::{Built, Shape, build},
    free_space::rebuild::Free,
    reference_count::rebuild::Shared,
    repair::stage::Stage,
    reverse_map,
};

/// All that a group holds but its own metadata.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupContents {
    /// In order.
    pub chunks: Vec<InodeChunk>,
    /// Extents of files, and the blocks of their btrees.
    pub files: Vec<Mapping>,
    /// Heads of the lists of unlinked inodes, by bucket.
    pub unlinked: Vec<(u32, AgInode)>,
}

/// Counts of a rebuilt group, for the superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct GroupCounts {
    pub inodes: u64,
    pub free_inodes: u64,
    pub free_blocks: u64,
}

/// The blocks of each btree and of the free list.
#[derive(Debug, Default)]
struct Layout {
    by_block: Vec<AgBlock>,
    by_length: Vec<AgBlock>,
    reverse_map: Vec<AgBlock>,
    reference_count: Vec<AgBlock>,
    inode_index: Vec<AgBlock>,
    free_inode_index: Vec<AgBlock>,
    free_list: Vec<AgBlock>,
}

/// How many blocks each needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Needs {
    by_block: usize,
    by_length: usize,
    reverse_map: usize,
    reference_count: usize,
    inode_index: usize,
    free_inode_index: usize,
    free_list: usize,
}

impl Needs {
    fn trees(&self) -> usize {
        self.by_block
            + self.by_length
            + self.reverse_map
            + self.reference_count
            + self.inode_index
            + self.free_inode_index
    }
}

/// Tries to lay a group out: one more block can need one more record, which can need one more block.
const MOST_TRIES: u32 = 16;

/// Blocks that two have, which may not share them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub group: AgNumber,
    pub start: AgBlock,
    pub length_blocks: u32,
}

/// Writes all metadata of a group to the stage.
///
/// # Errors
/// No space for the btrees; the device. Blocks that two have are the inner error.
pub(crate) fn rebuild(
    stage: &Stage,
    group: AgNumber,
    contents: GroupContents,
) -> Result<std::result::Result<GroupCounts, Vec<Conflict>>> {
    let geometry = stage.geometry();
    let GroupContents { chunks, files: mut mappings, unlinked } = contents;
    mappings.extend(fixed_mappings(geometry, group, &chunks));
    let shared = Shared::of(&mappings, geometry.features.has_reflink());
    if !shared.conflicts.is_empty() {
        let conflict = |blocks: &std::ops::Range<u32>| Conflict {
            group,
            start: AgBlock::new(blocks.start),
            length_blocks: blocks.end.saturating_sub(blocks.start),
        };
        return Ok(Err(shared.conflicts.iter().map(conflict).collect()));
    }
    let length_blocks = geometry.group_length_blocks(group).unwrap_or(0);
    let free = Free::without(&shared.in_use, length_blocks);
    let plan = Plan { stage, group, chunks, unlinked, mappings, shared, free };
    plan.write().map(Ok)
}

/// The mappings of headers, log and inode chunks.
pub(crate) fn fixed_mappings(geometry: &Geometry, group: AgNumber, chunks: &[InodeChunk]) -> Vec<Mapping> {
    let headers = geometry.group_header_blocks();
    let mut mappings = vec![Mapping::of_group(AgBlock::new(0), headers, Owner::GroupHeaders)];
    let log = geometry.log_start.and_then(|start| geometry.split_fs_block(start));
    if let Some((_, start)) = log.filter(|(of_log, _)| *of_log == group) {
        mappings.push(Mapping::of_group(start, geometry.log_blocks, Owner::Log));
    }
    // Two chunks may share a block.
    let mut next = AgBlock::new(0);
    for (start, length_blocks) in chunks.iter().flat_map(|chunk| chunk.blocks(geometry)) {
        let end = AgBlock::new(start.get().saturating_add(length_blocks));
        let start = start.max(next);
        if start < end {
            let length_blocks = end.get().saturating_sub(start.get());
            mappings.push(Mapping::of_group(start, length_blocks, Owner::InodeChunks));
            next = end;
        }
    }
    mappings
}

struct Plan<'r> {
    stage: &'r Stage,
    group: AgNumber,
    chunks: Vec<InodeChunk>,
    unlinked: Vec<(u32, AgInode)>,
    /// All but those of the new btrees.
    mappings: Vec<Mapping>,
    shared: Shared,
    /// As it is without the new btrees.
    free: Free,
}

/// A layout, and what follows from it.
struct LaidOut {
    layout: Layout,
    free: Free,
    reverse_map: Vec<ReverseMapRecord>,
}

impl Plan<'_> {
    fn write(&self) -> Result<GroupCounts> {
        let LaidOut { layout, free, reverse_map } = self.lay_out()?;
        self.stage.begin_trees(self.group, layout.trees())?;
        let (stage, group, features) = (self.stage, self.group, &self.stage.geometry().features);
        let (by_block, by_length) = free.records();
        let trees = Trees {
            by_block: build::<ByBlock>(stage, group, &by_block, &layout.by_block)?,
            by_length: build::<ByLength>(stage, group, &by_length, &layout.by_length)?,
            reverse_map: features
                .has_reverse_map()
                .then(|| build::<ReverseMap>(stage, group, &reverse_map, &layout.reverse_map))
                .transpose()?,
            reference_count: features
                .has_reflink()
                .then(|| {
                    build::<ReferenceCount>(stage, group, &self.shared.records(), &layout.reference_count)
                })
                .transpose()?,
            inode_index: {
                let records: Vec<_> = self.chunks.iter().map(|chunk| self.pack(chunk)).collect();
                build::<InodeIndex>(stage, group, &records, &layout.inode_index)?
            },
            free_inode_index: features
                .has_free_inode_btree()
                .then(|| {
                    let records: Vec<_> = self.chunks_with_free().map(|chunk| self.pack(chunk)).collect();
                    build::<FreeInodeIndex>(stage, group, &records, &layout.free_inode_index)
                })
                .transpose()?,
        };
        self.write_free_space_header(&trees, &layout, &free)?;
        self.write_inode_header(&trees)?;
        self.write_free_list(&layout)?;
        let below_roots = trees.free_space_blocks_below_roots();
        Ok(GroupCounts {
            inodes: self.chunks.iter().map(|chunk| u64::from(chunk.count)).sum(),
            free_inodes: self.chunks.iter().map(|chunk| u64::from(chunk.free_count)).sum(),
            free_blocks: u64::from(free.blocks()) + layout.free_list.len() as u64 + u64::from(below_roots),
        })
    }

    fn pack(&self, chunk: &InodeChunk) -> uxfs_format::btree::inode_index::InodeIndexRecord {
        chunk.pack(self.stage.geometry())
    }

    fn chunks_with_free(&self) -> impl Iterator<Item = &InodeChunk> {
        self.chunks.iter().filter(|chunk| chunk.free_count > 0)
    }

    /// A group that is too full for a whole free list, as one that the log fills, gets one without blocks.
    fn lay_out(&self) -> Result<LaidOut> {
        match self.lay_out_with(true) {
            Err(Error::Operation(OperationError::NoSpace)) => self.lay_out_with(false),
            laid_out => laid_out,
        }
    }

    /// Takes blocks until all that follows from having taken them fits.
    fn lay_out_with(&self, has_free_list: bool) -> Result<LaidOut> {
        let needs_of = |free: &Free, records: usize| {
            let needs = self.needs(free, records);
            if has_free_list { needs } else { Needs { free_list: 0, ..needs } }
        };
        // Chunks side by side are one record.
        let records = self.reverse_map_records(&Layout::of(&[], &Needs::default())).len();
        let mut count = needs_of(&self.free, records).total();
        for _ in 0..MOST_TRIES {
            let mut free = self.free.clone();
            let taken = free.take(count).ok_or(OperationError::NoSpace)?;
            let estimate = needs_of(&free, records);
            let layout = Layout::of(&taken, &estimate);
            let reverse_map = self.reverse_map_records(&layout);
            let needs = needs_of(&free, reverse_map.len());
            // What is more than needed goes to the free list.
            let surplus = count
                .checked_sub(needs.trees())
                .filter(|surplus| (needs.free_list..=self.free_list_slots()).contains(surplus));
            if surplus.is_some() && Layout::of(&taken, &needs).has_sizes_of(&layout) {
                return Ok(LaidOut { layout, free, reverse_map });
            }
            if surplus.is_some() {
                let layout = Layout::of(&taken, &needs);
                let reverse_map = self.reverse_map_records(&layout);
                if needs_of(&free, reverse_map.len()) == needs {
                    return Ok(LaidOut { layout, free, reverse_map });
                }
            }
            let is_too_much = count > needs.trees() + self.free_list_slots();
            count = if is_too_much { needs.total() } else { needs.total().max(count + 1) };
        }
        Err(OperationError::NoSpace.into())
    }

    fn free_list_slots(&self) -> usize {
        // The ring is left a slot short of full.
        free_list::slots(self.stage.geometry().sector_size_bytes).saturating_sub(1) as usize
    }

    fn needs(&self, free: &Free, reverse_map_records: usize) -> Needs {
        let geometry = self.stage.geometry();
        let features = &geometry.features;
        let by_block = Shape::of::<ByBlock>(free.len(), geometry);
        let by_length = Shape::of::<ByLength>(free.len(), geometry);
        let reverse_map =
            features.has_reverse_map().then(|| Shape::of::<ReverseMap>(reverse_map_records, geometry));
        let reference_count =
            features.has_reflink().then(|| Shape::of::<ReferenceCount>(self.shared.extents.len(), geometry));
        let inode_index = Shape::of::<InodeIndex>(self.chunks.len(), geometry);
        let free_inode_index = features
            .has_free_inode_btree()
            .then(|| Shape::of::<FreeInodeIndex>(self.chunks_with_free().count(), geometry));
        let of_levels = |levels: u32, most: u32| (2 * levels.saturating_add(1).min(most)).saturating_sub(2);
        let free_list = of_levels(by_block.levels(), ByBlock::max_levels(geometry))
            + of_levels(by_length.levels(), ByLength::max_levels(geometry))
            + reverse_map
                .as_ref()
                .map_or(0, |shape| of_levels(shape.levels(), ReverseMap::max_levels(geometry)));
        let blocks = |shape: Option<Shape>| shape.map_or(0, |shape| shape.blocks());
        Needs {
            by_block: by_block.blocks(),
            by_length: by_length.blocks(),
            reverse_map: blocks(reverse_map),
            reference_count: blocks(reference_count),
            inode_index: inode_index.blocks(),
            free_inode_index: blocks(free_inode_index),
            free_list: free_list as usize,
        }
    }

    fn reverse_map_records(&self, layout: &Layout) -> Vec<ReverseMapRecord> {
        if !self.stage.geometry().features.has_reverse_map() {
            return Vec::new();
        }
        let mut mappings = self.mappings.clone();
        let of_group = [&layout.by_block, &layout.by_length, &layout.reverse_map, &layout.free_list];
        let of_inodes = [&layout.inode_index, &layout.free_inode_index];
        let owned = of_group.map(|blocks| (blocks, Owner::GroupBtrees)).into_iter();
        let owned = owned.chain(of_inodes.map(|blocks| (blocks, Owner::InodeBtrees)));
        let owned = owned.chain([(&layout.reference_count, Owner::ReferenceCountBtree)]);
        for (blocks, owner) in owned {
            mappings.extend(blocks.iter().map(|block| Mapping::of_group(*block, 1, owner)));
        }
        reverse_map::rebuild::records(mappings)
    }
}

impl Needs {
    fn total(&self) -> usize {
        self.trees() + self.free_list
    }
}

impl Layout {
    /// The blocks of all btrees.
    fn trees(&self) -> Vec<AgBlock> {
        let trees = [
            &self.by_block,
            &self.by_length,
            &self.reverse_map,
            &self.reference_count,
            &self.inode_index,
            &self.free_inode_index,
        ];
        trees.into_iter().flatten().copied().collect()
    }

    /// Divides blocks; what is left over is the free list.
    fn of(taken: &[AgBlock], needs: &Needs) -> Self {
        let mut rest = taken;
        let mut part = |count: usize| {
            let (own, behind) = rest.split_at_checked(count).unwrap_or((rest, &[]));
            rest = behind;
            own.to_vec()
        };
        Self {
            by_block: part(needs.by_block),
            by_length: part(needs.by_length),
            inode_index: part(needs.inode_index),
            free_inode_index: part(needs.free_inode_index),
            reverse_map: part(needs.reverse_map),
            reference_count: part(needs.reference_count),
            free_list: part(usize::MAX),
        }
    }

    fn has_sizes_of(&self, other: &Self) -> bool {
        let sizes = |layout: &Self| {
            [
                layout.by_block.len(),
                layout.by_length.len(),
                layout.inode_index.len(),
                layout.free_inode_index.len(),
                layout.reverse_map.len(),
                layout.reference_count.len(),
            ]
        };
        sizes(self) == sizes(other)
    }
}

/// The btrees of a group.
struct Trees {
    by_block: Built,
    by_length: Built,
    reverse_map: Option<Built>,
    reference_count: Option<Built>,
    inode_index: Built,
    free_inode_index: Option<Built>,
}

impl Trees {
    fn free_space_blocks_below_roots(&self) -> u32 {
        let trees = [Some(self.by_block), Some(self.by_length), self.reverse_map];
        trees.into_iter().flatten().map(|tree| tree.blocks.saturating_sub(1)).fold(0, u32::saturating_add)
    }
}

impl Plan<'_> {
    fn write_free_space_header(&self, trees: &Trees, layout: &Layout, free: &Free) -> Result<()> {
        let geometry = self.stage.geometry();
        let list_count = u32::try_from(layout.free_list.len()).unwrap_or(u32::MAX);
        let mut header = FreeSpaceHeader::new_zeroed();
        header.magic.set(free_space_header::MAGIC);
        header.version.set(free_space_header::VERSION);
        header.group.set(self.group.get());
        header.length_blocks.set(geometry.group_length_blocks(self.group).unwrap_or(0));
        header.by_block_root.set(trees.by_block.root.get());
        header.by_block_levels.set(trees.by_block.levels);
        header.by_length_root.set(trees.by_length.root.get());
        header.by_length_levels.set(trees.by_length.levels);
        if let Some(tree) = &trees.reverse_map {
            header.reverse_map_root.set(tree.root.get());
            header.reverse_map_levels.set(tree.levels);
            header.reverse_map_blocks.set(tree.blocks);
        }
        if let Some(tree) = &trees.reference_count {
            header.reference_count_root.set(tree.root.get());
            header.reference_count_levels.set(tree.levels);
            header.reference_count_blocks.set(tree.blocks);
        }
        // The ring begins with slot 1, where the first block put into an empty one goes.
        header.free_list_first.set(1);
        header.free_list_last.set(list_count);
        header.free_list_count.set(list_count);
        header.free_blocks.set(free.blocks());
        header.longest_blocks.set(free.longest_blocks());
        header.btree_blocks.set(trees.free_space_blocks_below_roots());
        header.uuid = geometry.metadata_uuid;
        self.write_header(1, free_space_header::CHECKSUM_OFFSET_BYTES, |sector| put(sector, 0, &header))
    }

    fn write_inode_header(&self, trees: &Trees) -> Result<()> {
        let geometry = self.stage.geometry();
        let chunks = &self.chunks;
        let null = U32::new(u32::MAX);
        let mut header = InodeHeader::new_zeroed();
        header.magic.set(inode_header::MAGIC);
        header.version.set(inode_header::VERSION);
        header.group.set(self.group.get());
        header.length_blocks.set(geometry.group_length_blocks(self.group).unwrap_or(0));
        header.count.set(chunks.iter().map(|chunk| chunk.count).fold(0, u32::saturating_add));
        header.free_count.set(chunks.iter().map(|chunk| chunk.free_count).fold(0, u32::saturating_add));
        header.root.set(trees.inode_index.root.get());
        header.levels.set(trees.inode_index.levels);
        header.newest_inode = chunks.last().map_or(null, |chunk| U32::new(chunk.start.get()));
        header.directory_inode = null;
        header.unlinked = [null; 64];
        for (bucket, inode) in &self.unlinked {
            if let Some(head) = header.unlinked.get_mut(*bucket as usize) {
                head.set(inode.get());
            }
        }
        header.uuid = geometry.metadata_uuid;
        if let Some(tree) = &trees.free_inode_index {
            header.free_root.set(tree.root.get());
            header.free_levels.set(tree.levels);
        }
        if geometry.features.ro_compatible.contains(RoCompatible::INODE_BTREE_COUNTS) {
            header.blocks.set(trees.inode_index.blocks);
            header.free_blocks.set(trees.free_inode_index.map_or(0, |tree| tree.blocks));
        }
        self.write_header(2, inode_header::CHECKSUM_OFFSET_BYTES, |sector| put(sector, 0, &header))
    }

    fn write_free_list(&self, layout: &Layout) -> Result<()> {
        let mut header = FreeListHeader::new_zeroed();
        header.magic.set(free_list::MAGIC);
        header.group.set(self.group.get());
        header.uuid = self.stage.geometry().metadata_uuid;
        self.write_header(3, free_list::CHECKSUM_OFFSET_BYTES, |sector| {
            let slots = FreeListHeader::SIZE_BYTES;
            sector.get_mut(slots..).into_iter().for_each(|slots| slots.fill(0xff));
            put(sector, 0, &header);
            for (index, block) in layout.free_list.iter().enumerate() {
                let slot = FreeListSlot { block: U32::new(block.get()) };
                put(sector, slots + (index + 1) * FreeListSlot::SIZE_BYTES, &slot);
            }
        })
    }

    /// Writes the header in this sector of the group.
    fn write_header(
        &self,
        index: u32,
        checksum_offset_bytes: u32,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        let geometry = self.stage.geometry();
        let sector = geometry.sector_of_group_header(self.group, index).ok_or(OperationError::NoSuchGroup)?;
        let mut bytes = vec![0; geometry.sector_size_bytes as usize];
        fill(&mut bytes);
        checksum::seal(&mut bytes, checksum_offset_bytes);
        self.stage.write_at(sector, &bytes)
    }
}

fn put<T: OnDisk>(bytes: &mut [u8], offset_bytes: usize, structure: &T) {
    let place = bytes.get_mut(offset_bytes..offset_bytes.saturating_add(T::SIZE_BYTES));
    if let Some(place) = place {
        place.copy_from_slice(structure.disk_bytes());
    }
}

#[cfg(test)]
#[path = "rebuild_tests.rs"]
mod tests;
