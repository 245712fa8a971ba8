//! Both inode btrees of a group against each other, and against the inodes that they call free.

use uxfs_format::{
    btree::{
        BtreeKind,
        inode_index::{InodeChunk, InodeIndexFault, InodeIndexRecord},
        reverse_map::Owner,
    },
    fault::{Corruption, Location, Structure},
    geometry::Geometry,
    units::{AgBlock, AgInode, AgNumber},
};
use uxfs_volume::btree::Tree;

use crate::{
    btree::{TreeOwner, records_without_equal, walk},
    check::Context,
    finding::Finding,
    inode::free,
    observed::{
        groups::{GroupState, GroupSums},
        inodes::InodeTable,
    },
    sum::{Keys, Sum},
};

/// Blocks of the two btrees; `None` for one that could not be read to its end, or does not exist.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct InodeIndexBlocks {
    pub index: Option<u64>,
    pub free_index: Option<u64>,
}

/// Adds the chunks of a group to `inodes`, and their blocks and those of the btrees to the group's sums.
pub(crate) fn check(
    context: &Context<'_>,
    group: AgNumber,
    inodes: &mut InodeTable,
    state: &mut GroupState,
) -> InodeIndexBlocks {
    let mut blocks = InodeIndexBlocks::default();
    let Some(index) = context.read(context.volume.group(group).inode_index()) else {
        inodes.miss_index(group);
        state.is_complete = false;
        return blocks;
    };
    let mut chunks = Chunks {
        context,
        group,
        state,
        inodes,
        next_block: AgBlock::new(0),
        free: Sum::default(),
        together: MadeTogether::default(),
    };
    let found = walk_tree(context, group, &index, &mut |chunk| chunks.add(chunk));
    let (mut free, together) = (chunks.free, std::mem::take(&mut chunks.together));
    blocks.index = found.take(state);
    // An unreadable record is not a missing one.
    if blocks.index.is_some() {
        for first in together.missing(context.volume.geometry()) {
            context.sink.add(Finding::InodeChunkMissing { group, first });
        }
    }
    if !context.volume.geometry().features.has_free_inode_btree() {
        return blocks;
    }
    let Some(free_index) = context.read(context.volume.group(group).free_inode_index()).flatten() else {
        state.is_complete = false;
        return blocks;
    };
    let found =
        walk_tree(context, group, &free_index, &mut |chunk| free.subtract(of_chunk(&context.keys, chunk)));
    blocks.free_index = found.take(state);
    if blocks.index.is_some() && blocks.free_index.is_some() && !free.is_zero() {
        let geometry = context.volume.geometry();
        let is_equal =
            |first: &InodeIndexRecord, second: &InodeIndexRecord| first.get(geometry) == second.get(geometry);
        let report = |chunk, only_in| context.sink.add(Finding::InodeChunk { group, chunk, only_in });
        records_without_equal(context, &index, &free_index, is_equal, |record| {
            // The free inode index leaves out full chunks.
            let chunk = record.get(geometry);
            if chunk.free_count > 0 {
                report(chunk, Structure::InodeIndex);
            }
        });
        records_without_equal(context, &free_index, &index, is_equal, |record| {
            report(record.get(geometry), Structure::FreeInodeIndex);
        });
    }
    blocks
}

struct TreeFound {
    sums: GroupSums,
    blocks: Option<u64>,
}

impl TreeFound {
    fn take(self, state: &mut GroupState) -> Option<u64> {
        state.sums.merge(&self.sums);
        state.is_complete &= self.blocks.is_some();
        self.blocks
    }
}

fn walk_tree<K>(
    context: &Context<'_>,
    group: AgNumber,
    tree: &Tree<'_, K>,
    on_chunk: &mut dyn FnMut(&InodeChunk),
) -> TreeFound
where
    K: BtreeKind<
            Record = InodeIndexRecord,
            Header = <uxfs_format::btree::inode_index::InodeIndex as BtreeKind>::Header,
        >,
{
    let geometry = context.volume.geometry();
    let mut sums = GroupSums::default();
    let found = walk(
        context,
        tree,
        TreeOwner::Group(group),
        &mut |block| sums.add_own(context, group, (block, 1), Owner::InodeBtrees),
        &mut |records| records.iter().for_each(|record| on_chunk(&record.get(geometry))),
    );
    TreeFound { sums, blocks: found.is_complete.then_some(found.blocks) }
}

fn of_chunk(keys: &Keys, chunk: &InodeChunk) -> Sum {
    keys.of((chunk.start, chunk.hole_mask, chunk.count, chunk.free_count, chunk.free))
}

/// Takes in the chunks of a group in their order.
struct Chunks<'w, 'c> {
    context: &'w Context<'c>,
    group: AgNumber,
    state: &'w mut GroupState,
    inodes: &'w mut InodeTable,
    /// Behind the chunks so far: two chunks may share a block.
    next_block: AgBlock,
    /// Chunks with free inodes.
    free: Sum,
    together: MadeTogether,
}

/// Chunks of a group where blocks hold several: all of a block have records, or none.
#[derive(Debug, Default)]
struct MadeTogether {
    last: Option<AgInode>,
    missing: Vec<AgInode>,
}

impl MadeTogether {
    /// Takes in the chunk that begins with this inode. Chunks come in order.
    fn add(&mut self, geometry: &Geometry, start: AgInode) {
        if !geometry.has_several_chunks_in_block() {
            return;
        }
        let last = self.last.replace(start);
        for chunk in behind(geometry, last).chain(geometry.chunks_made_together(start)) {
            let is_between = chunk < start && last.is_none_or(|last| chunk > last);
            // Both are of one block where nothing lies between.
            if is_between && self.missing.last().is_none_or(|known| chunk > *known) {
                self.missing.push(chunk);
            }
        }
    }

    /// First inodes of the chunks without a record.
    fn missing(mut self, geometry: &Geometry) -> Vec<AgInode> {
        self.missing.extend(behind(geometry, self.last));
        self.missing
    }
}

/// The chunks of a block behind one of them.
fn behind(geometry: &Geometry, last: Option<AgInode>) -> impl Iterator<Item = AgInode> {
    let is_asked_for = geometry.has_several_chunks_in_block();
    last.filter(|_| is_asked_for)
        .into_iter()
        .flat_map(|last| geometry.chunks_made_together(last).filter(move |chunk| *chunk > last))
}

impl Chunks<'_, '_> {
    fn add(&mut self, chunk: &InodeChunk) {
        let context = self.context;
        self.inodes.add(chunk);
        self.together.add(context.volume.geometry(), chunk.start);
        self.state.inodes += u64::from(chunk.count);
        self.state.free_inodes += u64::from(chunk.free_count);
        self.add_blocks(chunk);
        if chunk.free | chunk.existing() != u64::MAX {
            self.holes_in_use(chunk);
        }
        if chunk.free_count > 0 {
            self.free.add(of_chunk(&context.keys, chunk));
            free::check(context, self.group, chunk);
        }
    }

    /// Linux does not look at the bits of inodes that do not exist; they are set.
    fn holes_in_use(&self, chunk: &InodeChunk) {
        let InodeChunk { start, free, hole_mask, .. } = *chunk;
        let location = Location { group: Some(self.group), ..Location::default() };
        let fault = InodeIndexFault::HolesInUse { start, free, hole_mask };
        let corruption = Corruption::new(Structure::InodeIndex, location, fault);
        self.context.sink.add(Finding::Damaged { corruption: Box::new(corruption) });
    }

    /// The blocks of a chunk that hold existing inodes.
    fn add_blocks(&mut self, chunk: &InodeChunk) {
        let inodes_per_block_log = self.context.volume.geometry().inodes_per_block_log;
        for index in (0..64).filter(|index| chunk.exists(*index)) {
            let block = chunk.inode(index).get() >> inodes_per_block_log;
            if block >= self.next_block.get() {
                let blocks = (AgBlock::new(block), 1);
                self.state.sums.add_own(self.context, self.group, blocks, Owner::InodeChunks);
                self.next_block = AgBlock::new(block.saturating_add(1));
            }
        }
    }
}
