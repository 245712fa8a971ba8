//! The inode chunks of a group, from every witness: the inode btrees, the reverse map, and the inodes themselves.
//!
//! | witness | what it proves |
//! |---|---|
//! | inode btree that could be read to its end | all chunks |
//! | part of an inode btree, or of the free inode btree | the chunks that it names |
//! | reverse map that could be read to its end | chunks where it says that inodes own the blocks |
//! | inode btree that a search finds where no header leads to one | its chunks, and that others were freed: see [`search`](super::search) |
//! | inodes with magic, number and uuid at a place | without a reverse map, a chunk, where a sound inode in use lies there and no sound free space btree calls the block free |
//!
//! Where a block holds several chunks, a proof of one proves all of them: Linux makes them together, and never frees them.
//!
//! Inodes of a chunk that was freed stay on disk until something else is written over them, and may look as if in use: so they
//! alone prove nothing.

use std::collections::{BTreeMap, BTreeSet};

use uxfs_format::{
    btree::{
        BtreeKind,
        inode_index::{InodeChunk, InodeIndex, InodeIndexRecord},
        reverse_map::Owner,
    },
    features::Incompatible,
    field_table::OnDisk,
    geometry::{Geometry, INODES_PER_CHUNK},
    inode::{InodeCore, core, verify_inode},
    units::{AgBlock, AgInode, AgNumber, Lsn},
};
use uxfs_volume::{btree::Tree, error::Result, volume::Volume};

use super::search::FoundIndex;
use crate::{
    allocation_group::sweep::sweep,
    btree::{search::Roots, visit_sound_blocks},
    reverse_map::read::visit_group,
};

/// Chunks of a group.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChunksFound {
    /// In order. What is free is as the index says, or, of a chunk that no index has, as its inodes say.
    pub chunks: Vec<InodeChunk>,
    /// Chunks that no inode btree names.
    pub without_index: u32,
    /// There are no others.
    pub is_sure: bool,
    /// Chunks that only their inodes show: a hole may be a lost cluster.
    pub doubtful: BTreeSet<AgInode>,
}

/// How far the btrees of a group are believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// As far as they are sound.
    Sound,
    /// The inode btrees contradict something else.
    Suspect,
    /// They are older than the inodes: chunks may have come since.
    Older,
}

/// Finds the chunks of a group.
pub(crate) fn gather(volume: &Volume, group: AgNumber, trust: Trust) -> ChunksFound {
    let (index, is_complete) = match volume.group(group).inode_index() {
        Ok(tree) => records(&tree, volume.geometry()),
        Err(_) => (Vec::new(), false),
    };
    if is_complete && trust == Trust::Sound {
        return ChunksFound { chunks: index, is_sure: true, ..ChunksFound::default() };
    }
    let free_index = match volume.group(group).free_inode_index() {
        Ok(Some(tree)) => records(&tree, volume.geometry()).0,
        _ => Vec::new(),
    };
    let mut all: BTreeMap<AgInode, InodeChunk> = BTreeMap::new();
    for chunk in index.into_iter().chain(free_index) {
        all.entry(chunk.start).or_insert(chunk);
    }
    let (owned, free) = match trust {
        Trust::Older => (None, Runs::new()),
        Trust::Sound | Trust::Suspect => (owned_by_inodes(volume, group), free_blocks(volume, group)),
    };
    let is_lost = trust != Trust::Older && owned.is_none() && volume.group(group).inode_index().is_err();
    let roots = is_lost.then(|| Roots::new(volume, group));
    let mut search = Search { volume, group, owned, free, roots };
    let seen = search.chunks();
    let lost_index = search.roots.and_then(|roots| FoundIndex::newest(roots, volume.geometry()));
    for chunk in lost_index.iter().flat_map(|index| &index.chunks) {
        if !overlaps(&all, chunk) {
            all.insert(chunk.start, *chunk);
        }
    }
    let indexed = all.len();
    let mut doubtful = BTreeSet::new();
    for (chunk, newest) in seen {
        let is_freed = lost_index.as_ref().is_some_and(|index| index.denies(chunk.start, newest));
        if !is_freed && !overlaps(&all, &chunk) {
            doubtful.extend(Some(chunk.start).filter(|_| search.owned.is_none() && chunk.hole_mask != 0));
            all.insert(chunk.start, chunk);
        }
    }
    add_made_together(&mut all, volume.geometry());
    let without_index = u32::try_from(all.len() - indexed).unwrap_or(u32::MAX);
    ChunksFound { chunks: all.into_values().collect(), without_index, is_sure: false, doubtful }
}

fn overlaps(all: &BTreeMap<AgInode, InodeChunk>, chunk: &InodeChunk) -> bool {
    let end = AgInode::new(chunk.start.get().saturating_add(INODES_PER_CHUNK));
    let before = all.range(..end).next_back();
    before.is_some_and(|(start, _)| start.get().saturating_add(INODES_PER_CHUNK) > chunk.start.get())
}

/// Adds the other chunks of blocks that hold several. Which of their inodes are in use follows from the inodes.
fn add_made_together(all: &mut BTreeMap<AgInode, InodeChunk>, geometry: &Geometry) {
    if !geometry.has_several_chunks_in_block() {
        return;
    }
    let starts: Vec<AgInode> = all.keys().copied().collect();
    for chunk in starts.into_iter().flat_map(|start| geometry.chunks_made_together(start)) {
        let chunk = InodeChunk::new(chunk);
        if !overlaps(all, &chunk) {
            all.insert(chunk.start, chunk);
        }
    }
}

/// The records of a tree that can be read, and whether these are all.
fn records<K: BtreeKind<Record = InodeIndexRecord>>(
    tree: &Tree<'_, K>,
    geometry: &Geometry,
) -> (Vec<InodeChunk>, bool) {
    let mut chunks = Vec::new();
    let is_complete = visit_sound_blocks(tree, &mut |view| {
        chunks.extend(view.records().iter().map(|record| as_chunk(record, geometry)));
    });
    (chunks, is_complete)
}

/// A chunk whose inodes that do not exist are marked as free.
pub(super) fn as_chunk(record: &InodeIndexRecord, geometry: &Geometry) -> InodeChunk {
    let chunk = record.get(geometry);
    InodeChunk { free: chunk.free | !chunk.existing(), ..chunk }
}

/// Runs of blocks, in order.
type Runs = Vec<(AgBlock, AgBlock)>;

/// Blocks that the reverse map gives to inodes; `None` where it cannot be read to its end, or there is none.
fn owned_by_inodes(volume: &Volume, group: AgNumber) -> Option<Runs> {
    let mut runs = Runs::new();
    let is_complete = visit_group(volume, group, &mut |mapping| {
        if mapping.owner == Owner::InodeChunks {
            runs.push((mapping.start, mapping.end()));
        }
    });
    is_complete.then_some(runs)
}

/// Free blocks, as far as they can be read.
fn free_blocks(volume: &Volume, group: AgNumber) -> Runs {
    let Ok(extents) = volume.group(group).free_extents() else { return Runs::new() };
    extents.map_while(Result::ok).map(|extent| (extent.start, extent.end())).collect()
}

/// Sorts runs, joins those that touch, and cuts off what lies behind the end.
fn in_order(mut runs: Runs, end_of_group: AgBlock) -> Runs {
    runs.sort_unstable();
    let mut joined = Runs::new();
    for (start, end) in runs {
        let end = end.min(end_of_group);
        match joined.last_mut() {
            Some((_, last)) if start <= *last => *last = end.max(*last),
            _ if start < end => joined.push((start, end)),
            _ => {}
        }
    }
    joined
}

/// A search for inodes in all blocks of a group.
struct Search<'s> {
    volume: &'s Volume,
    group: AgNumber,
    owned: Option<Runs>,
    free: Runs,
    /// Blocks on the way that may be roots of the inode btree, where no header leads to it.
    roots: Option<Roots<'s, InodeIndex>>,
}

/// One bit for each inode of a chunk.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// There is an inode.
    exists: u64,
    /// It is sound, and in use.
    in_use: u64,
    /// When the inode was written that is the newest.
    newest: Lsn,
}

impl Search<'_> {
    /// The chunks, each with when the newest of its inodes was written.
    fn chunks(&mut self) -> Vec<(InodeChunk, Lsn)> {
        let found = self.inodes();
        let geometry = self.volume.geometry();
        found
            .into_iter()
            .filter(|(_, seen)| self.owned.is_some() || seen.in_use != 0)
            .map(|(start, seen)| (chunk_of(start, seen, geometry), seen.newest))
            .collect()
    }

    /// What there is in each chunk.
    fn inodes(&mut self) -> BTreeMap<AgInode, Seen> {
        let geometry = self.volume.geometry();
        let length_blocks = geometry.group_length_blocks(self.group).unwrap_or(0);
        let mut found: BTreeMap<AgInode, Seen> = BTreeMap::new();
        let candidates = self.candidates(length_blocks);
        let mut roots = self.roots.take();
        sweep(self.volume, self.group, &candidates, &mut |block, bytes| {
            self.look_at(block, bytes, &mut found);
            if let Some(roots) = &mut roots {
                roots.look_at(block, bytes);
            }
        });
        self.roots = roots;
        self.add_owned(&mut found);
        found
    }

    /// Blocks that the reverse map gives to inodes hold some, whatever lies there now.
    fn add_owned(&self, found: &mut BTreeMap<AgInode, Seen>) {
        let geometry = self.volume.geometry();
        let Some(owned) = &self.owned else { return };
        let length_blocks = geometry.group_length_blocks(self.group).unwrap_or(0);
        let runs = in_order(owned.clone(), AgBlock::new(length_blocks));
        let blocks = runs.into_iter().flat_map(|(start, end)| start.get()..end.get());
        for block in blocks {
            let first = block << geometry.inodes_per_block_log;
            for number in (first..first.saturating_add(1 << geometry.inodes_per_block_log)).map(AgInode::new)
            {
                let start = self.chunk_start(number, found);
                let bit = 1_u64.checked_shl(number.get().saturating_sub(start.get())).unwrap_or(0);
                found.entry(start).or_default().exists |= bit;
            }
        }
    }

    /// Runs of blocks that may hold inodes, in order.
    fn candidates(&self, length_blocks: u32) -> Runs {
        let end_of_group = AgBlock::new(length_blocks);
        if let Some(owned) = &self.owned {
            return in_order(owned.clone(), end_of_group);
        }
        let mut at = AgBlock::new(0);
        let mut others = Runs::new();
        for (start, end) in in_order(self.free.clone(), end_of_group) {
            if at < start {
                others.push((at, start));
            }
            at = at.max(end);
        }
        if at < end_of_group {
            others.push((at, end_of_group));
        }
        others
    }

    fn look_at(&self, block: AgBlock, bytes: &[u8], found: &mut BTreeMap<AgInode, Seen>) {
        let geometry = self.volume.geometry();
        let first = block.get() << geometry.inodes_per_block_log;
        for (number, inode) in (first..).zip(bytes.chunks_exact(geometry.inode_size().max(1))) {
            let number = AgInode::new(number);
            let Some(core) = InodeCore::prefix_of(inode) else { continue };
            let inode_number = geometry.inode_number(self.group, number);
            let is_inode = core.magic.get() == core::MAGIC
                && core.number.get() == inode_number.get()
                && core.uuid == geometry.metadata_uuid;
            if !is_inode {
                continue;
            }
            let start = self.chunk_start(number, found);
            let bit = 1_u64.checked_shl(number.get().saturating_sub(start.get())).unwrap_or(0);
            let seen = found.entry(start).or_default();
            seen.exists |= bit;
            seen.newest = seen.newest.max(Lsn::new(core.lsn.get()));
            if !core.is_free()
                && core.link_count.get() > 0
                && verify_inode(inode, inode_number, geometry).is_ok()
            {
                seen.in_use |= bit;
            }
        }
    }

    /// The first inode of the chunk that has an inode.
    fn chunk_start(&self, number: AgInode, found: &BTreeMap<AgInode, Seen>) -> AgInode {
        // Chunks begin wherever the alignment lets them: the first one that was found begins one.
        match found.range(..=number).next_back() {
            Some((start, _)) if number.get() - start.get() < INODES_PER_CHUNK => *start,
            _ => self.volume.geometry().last_chunk_start(number),
        }
    }
}

/// A chunk whose holes and free inodes are what was seen.
fn chunk_of(start: AgInode, seen: Seen, geometry: &Geometry) -> InodeChunk {
    let is_sparse = geometry.features.incompatible.contains(Incompatible::SPARSE_INODES);
    let unit = geometry.inodes_per_sparse_unit();
    let mut chunk = InodeChunk { start, hole_mask: 0, count: 0, free_count: 0, free: u64::MAX };
    for bit in 0..16_u32 {
        let first = bit * 4 / unit * unit;
        let of_unit = (u64::MAX >> (64 - unit)) << first;
        if is_sparse && seen.exists & of_unit == 0 {
            chunk.hole_mask |= 1 << bit;
        }
    }
    chunk.free = !seen.in_use;
    chunk.count = chunk.existing().count_ones();
    chunk.free_count = (chunk.free & chunk.existing()).count_ones();
    chunk
}
