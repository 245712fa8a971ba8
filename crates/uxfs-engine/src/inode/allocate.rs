//! Finding a free inode, and making new ones.
//!
//! Directories spread over the groups in turn; what lies in a directory is put into the directory's group as long as that
//! has room. Within a group, free inodes are used before new chunks are made, so that chunks stay full.

use uxfs_format::{
    btree::{inode_index::InodeChunk, reverse_map::Owner},
    fault::Structure,
    geometry::{Geometry, INODES_PER_CHUNK},
    units::{AgBlock, AgInode, AgNumber, InodeNumber},
};

use super::create::unused_core;
use crate::engine::Engine;
use crate::inode::allocator::InodeAllocator;
use crate::{allocation_group::free_space::choose::GroupRequest, transaction::GroupEdit};
use uxfs_volume::error::{OperationError, Result};

/// Blocks that must be left in a group for the inode trees to grow by when inodes are made.
const SPARE_BLOCKS: u32 = 4;

/// How inodes are made in a file system.
#[doc(alias = "xfs_ino_geometry")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChunkShape {
    /// Inodes that are made at once: a chunk, or a block full where that is more.
    inodes: u32,
    /// Blocks that they take.
    blocks: u32,
    /// The alignment of their first block.
    alignment_blocks: u32,
    /// The smallest part of a chunk that may be made alone, and what its first block must be a multiple of; as
    /// `blocks` where chunks are whole.
    part_blocks: u32,
}

impl ChunkShape {
    fn of(engine: &Engine) -> Self {
        let geometry = engine.geometry();
        let blocks = geometry.blocks_per_inode_chunk();
        let part = engine.superblock().sparse_inode_alignment_blocks.get();
        let is_sparse = geometry.features.has_sparse_inodes() && part > 0 && part < blocks;
        let alignment = geometry.inode_alignment_blocks;
        Self {
            inodes: INODES_PER_CHUNK.max(geometry.inodes_per_block()),
            blocks,
            // Less than a cluster does not count: see the verifier of chunks.
            alignment_blocks: if alignment >= geometry.inode_cluster_blocks() { alignment.max(1) } else { 1 },
            part_blocks: if is_sparse { part } else { blocks },
        }
    }

    /// The least that is of use.
    fn part_request(&self) -> GroupRequest {
        GroupRequest {
            alignment_blocks: self.part_blocks,
            spare_blocks: SPARE_BLOCKS,
            ..GroupRequest::blocks(self.part_blocks)
        }
    }

    fn is_sparse(&self) -> bool {
        self.part_blocks < self.blocks
    }
}

/// The result of a search for an inode in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Taken(AgInode),
    Full,
    /// Another transaction has the group, and waiting for it could be for ever.
    Busy,
}

/// Inodes that were made in free blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NewInodes {
    start: AgBlock,
    length_blocks: u32,
}

impl InodeAllocator<'_, '_> {
    /// Takes a free inode: for a directory in the next group in turn, for anything else in the group of `parent`, and
    /// where there is no room in the groups behind. What lies on disk is changed when the inode is stored.
    ///
    /// # Errors
    /// No space for inodes; damage; the device.
    #[doc(alias = "xfs_dialloc")]
    pub fn allocate_inode(&mut self, parent: InodeNumber, is_directory: bool) -> Result<InodeNumber> {
        let engine = self.transaction.engine();
        let geometry = engine.geometry();
        let (parent_group, parent_inode) =
            geometry.split_inode_number(parent).ok_or(OperationError::NoSuchInode)?;
        let first = if is_directory { engine.next_directory_group() } else { parent_group };
        // Groups that others have are passed over as long as there is hope elsewhere.
        for is_last_round in [false, true] {
            let mut was_busy = false;
            for turn in 0..geometry.ag_count {
                let turn = if is_last_round { turn } else { (first.get() + turn) % geometry.ag_count };
                let group = AgNumber::new(turn);
                let near = if group == parent_group { Some(parent_inode) } else { None };
                match self.allocate_inode_in(group, near)? {
                    Attempt::Taken(inode) => return Ok(geometry.inode_number(group, inode)),
                    Attempt::Full => {}
                    Attempt::Busy => was_busy = true,
                }
            }
            if !was_busy {
                break;
            }
        }
        Err(OperationError::NoSpace.into())
    }

    fn allocate_inode_in(&mut self, group: AgNumber, near: Option<AgInode>) -> Result<Attempt> {
        let held = self.transaction.held_groups();
        let Some(mut edit) = self.transaction.try_group(group)? else { return Ok(Attempt::Busy) };
        let near = match near {
            Some(near) => near,
            None => edit.inode_index().newest_chunk()?.unwrap_or_default(),
        };
        if let Some(inode) = edit.inode_index().take_inode(near)? {
            return Ok(Attempt::Taken(inode));
        }
        let shape = ChunkShape::of(self.transaction.engine());
        if !self.may_make_inodes(&shape)
            || self.transaction.group(group)?.most_blocks(&shape.part_request())?.is_none()
        {
            self.transaction.give_back_untouched(held);
            return Ok(Attempt::Full);
        }
        if !self.make_inodes(group, &shape)? {
            return Ok(Attempt::Full);
        }
        let taken = self.transaction.group(group)?.inode_index().take_inode(near)?;
        Ok(taken.map_or(Attempt::Full, Attempt::Taken))
    }

    /// Whether inodes may take more of the space than they do: the superblock has a limit in per cent.
    fn may_make_inodes(&self, shape: &ChunkShape) -> bool {
        let engine = self.transaction.engine();
        let count = engine.inode_count().saturating_add_signed(self.transaction.counter_changes().inodes);
        engine.most_inodes().is_none_or(|most| count.saturating_add(shape.inodes.into()) <= most)
    }

    /// Makes a chunk of new inodes in a group, or a part of one. `false` where there is no room.
    #[doc(alias = "xfs_ialloc_ag_alloc")]
    fn make_inodes(&mut self, group: AgNumber, shape: &ChunkShape) -> Result<bool> {
        let geometry = self.transaction.engine().geometry();
        let mut edit = self.transaction.group(group)?;
        let Some(place) = edit.place_for_inodes(shape)? else { return Ok(false) };
        edit.add_owner(place.start, place.length_blocks, Owner::InodeChunks)?;
        self.write_inodes(group, place)?;
        let mut edit = self.transaction.group(group)?;
        if let Some(part) = place.part_of_chunk(shape, geometry) {
            edit.inode_index().add_chunk(part)?;
            return Ok(true);
        }
        let first = place.start.get() << geometry.inodes_per_block_log;
        // The first of several becomes the current one: the last that is added.
        for index in (0..shape.inodes).step_by(INODES_PER_CHUNK as usize).rev() {
            edit.inode_index().add_chunk(InodeChunk::new(AgInode::new(first + index)))?;
        }
        Ok(true)
    }

    /// Writes inodes that are not in use into the blocks of a chunk.
    #[doc(alias = "xfs_ialloc_inode_init")]
    fn write_inodes(&mut self, group: AgNumber, place: NewInodes) -> Result<()> {
        let engine = self.transaction.engine();
        let geometry = engine.geometry();
        let generation = engine.new_generation();
        let end = place.start.get() + place.length_blocks;
        let mut block = place.start;
        while block.get() < end {
            let cluster = geometry.inode_cluster_of(group, block).ok_or(OperationError::NoSpace)?;
            let (first, length_blocks) = cluster;
            let sector = geometry.sector_of_group_block(group, first).ok_or(OperationError::NoSpace)?;
            let length_bytes = length_blocks << geometry.block_log;
            let mut buffer =
                self.transaction.buffers().create(Structure::InodeCluster, sector, length_bytes)?;
            let mut edit = buffer.edit();
            let number =
                geometry.inode_number(group, AgInode::new(first.get() << geometry.inodes_per_block_log));
            let mut core = unused_core(number, generation, geometry);
            for index in 0..length_bytes >> geometry.inode_log {
                core.number.set(number.get() + u64::from(index));
                edit.put_value((index << geometry.inode_log) as usize, &core);
            }
            // Replay makes them anew from one item: see below.
            buffer.made_by_item();
            block = AgBlock::new(first.get() + length_blocks);
        }
        if let Some(ticket) = self.transaction.buffers().ticket() {
            ticket.inodes_created(group, place.start, place.length_blocks, generation);
        }
        Ok(())
    }
}

impl GroupEdit<'_, '_> {
    /// Blocks for new inodes: behind the newest chunk, or else anywhere, or else for a part of a chunk.
    fn place_for_inodes(&mut self, shape: &ChunkShape) -> Result<Option<NewInodes>> {
        let geometry = self.volume.geometry();
        let whole = GroupRequest { spare_blocks: SPARE_BLOCKS, ..GroupRequest::blocks(shape.blocks) };
        let behind = self.inode_index().newest_chunk()?.and_then(|newest| {
            let block = newest.get() >> geometry.inodes_per_block_log;
            block.checked_add(shape.blocks).filter(|block| block.is_multiple_of(shape.alignment_blocks))
        });
        if let Some(behind) = behind.map(AgBlock::new) {
            let request = GroupRequest { near: Some(behind), is_exact: true, ..whole };
            if let Some((start, length_blocks)) = self.allocate(&request)? {
                return Ok(Some(NewInodes { start, length_blocks }));
            }
        }
        let near = Some(AgBlock::new(self.state.headers()?.inodes.root.get()));
        let aligned = GroupRequest { near, alignment_blocks: shape.alignment_blocks, ..whole };
        if let Some((start, length_blocks)) = self.allocate(&aligned)? {
            return Ok(Some(NewInodes { start, length_blocks }));
        }
        if !shape.is_sparse() {
            return Ok(None);
        }
        let part = GroupRequest { near, ..shape.part_request() };
        let Some((start, length_blocks)) = self.allocate(&part)? else { return Ok(None) };
        let place = NewInodes { start, length_blocks };
        if place.is_in_possible_chunk(shape, self.state.headers()?.inodes.length_blocks.get()) {
            return Ok(Some(place));
        }
        self.free(start, length_blocks)?;
        Ok(None)
    }
}

impl NewInodes {
    /// First block of the chunk that it is in or a part of.
    fn chunk_start(&self, shape: &ChunkShape) -> u32 {
        self.start.get() - self.start.get() % shape.alignment_blocks
    }

    /// Whether all of the chunk would lie in the group, behind its headers.
    fn is_in_possible_chunk(&self, shape: &ChunkShape, group_blocks: u32) -> bool {
        let start = self.chunk_start(shape);
        start >= shape.alignment_blocks
            && start.checked_add(shape.blocks).is_some_and(|end| end <= group_blocks)
    }

    /// The record of a part of a sparse chunk; `None` for a whole one.
    #[doc(alias = "xfs_align_sparse_ino")]
    fn part_of_chunk(&self, shape: &ChunkShape, geometry: &Geometry) -> Option<InodeChunk> {
        if self.length_blocks >= shape.blocks {
            return None;
        }
        let start = self.chunk_start(shape);
        let inodes = |blocks: u32| blocks << geometry.inodes_per_block_log;
        InodeChunk::sparse(
            AgInode::new(inodes(start)),
            inodes(self.start.get() - start),
            inodes(self.length_blocks),
        )
    }
}
