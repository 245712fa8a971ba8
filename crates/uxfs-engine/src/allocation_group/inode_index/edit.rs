//! Inodes of a group taken and given back: the index of chunks, the index of chunks with a free inode, and the counts.
//!
//! The chunks that were worked on last, the *current* ones, are kept in the group's state: files are made one after the
//! other and sixty-four of them change the same two records. What the trees say of a current chunk's inodes may therefore
//! be behind until [`store_current_chunks`](InodeIndexEdit::store_current_chunks). That it is there at all, and whether it is
//! among those with a free inode, the trees say at any time: so bringing them up to date replaces records and never needs
//! space.

use uxfs_format::{
    btree::{
        BtreeKind,
        inode_index::{FreeInodeIndex, InodeChunk, InodeIndex, InodeIndexFault, InodeIndexRecord},
    },
    fault::{Corruption, Location, Structure},
    units::AgInode,
};
use zerocopy::big_endian::U32;

use crate::allocation_group::{group_edit::GroupEdit, inode_index::current::CurrentChunk, trees::GroupTree};
use uxfs_volume::error::{Error, OperationError, Result};

/// Inodes in more than one chunk of a block: such chunks stay when they become empty.
const REMOVABLE_INODES_PER_BLOCK: u32 = 64;

/// The inode index of a group that a transaction holds, and the inodes that it gives out.
#[derive(Debug)]
pub struct InodeIndexEdit<'g, 't, 'fs> {
    group: &'g mut GroupEdit<'t, 'fs>,
}

impl<'t, 'fs> GroupEdit<'t, 'fs> {
    /// To change the inode index.
    #[inline]
    pub fn inode_index(&mut self) -> InodeIndexEdit<'_, 't, 'fs> {
        InodeIndexEdit { group: self }
    }
}

impl InodeIndexEdit<'_, '_, '_> {
    /// Takes a free inode of the group: of the chunk worked on last if it has one, or else of the chunk nearest to
    /// `near`. `None` where the group has no free inode, or that chunk none that could be stored: then a new chunk helps.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn take_inode(&mut self, near: AgInode) -> Result<Option<AgInode>> {
        if self.group.state.headers()?.inodes.free_count.get() == 0 {
            return Ok(None);
        }
        let newest = self.group.state.current_chunks().newest();
        let mut chunk = match newest.filter(|chunk| chunk.free_count > 0) {
            Some(chunk) => *chunk,
            None => self.nearest_free_chunk(near)?,
        };
        let unreadable = self.group.require_unused(&chunk)?;
        let usable = InodeChunk { free: chunk.free & !unreadable, ..chunk };
        let Some(index) = usable.first_free().filter(|index| chunk.take(*index)) else {
            return match chunk.first_free() {
                Some(_) => Ok(None),
                None => Err(self.damaged(InodeIndexFault::NoneFree { start: chunk.start })),
            };
        };
        if chunk.free_count == 0 {
            self.remove_free_chunk(&chunk)?;
        }
        self.put_current_chunk(chunk, true)?;
        self.count_inodes(0, -1)?;
        Ok(Some(chunk.inode(index)))
    }

    /// Gives an inode back. If no inode of its chunk is in use any more, and the chunk has blocks of its own, the chunk
    /// is gone, and given: its blocks are to be freed.
    ///
    /// # Errors
    /// The inode is not in use; damage; the device; no space for the index.
    pub fn give_back_inode(&mut self, inode: AgInode) -> Result<Option<InodeChunk>> {
        let mut chunk = self.chunk_of(inode)?.ok_or(OperationError::NoSuchInode)?;
        let index = chunk.index_of(inode).ok_or(OperationError::NoSuchInode)?;
        let was_full = chunk.free_count == 0;
        if !chunk.give_back(index) {
            return Err(OperationError::NoSuchInode.into());
        }
        let geometry = self.group.volume.geometry();
        if chunk.is_unused() && geometry.inodes_per_block() <= REMOVABLE_INODES_PER_BLOCK {
            self.group.require_empty_chunk(&chunk)?;
            self.group.state.current_chunks_mut().remove(chunk.start);
            self.delete_record::<InodeIndex>(chunk.start)?;
            if !was_full {
                self.remove_free_chunk(&chunk)?;
            }
            let count = i64::from(chunk.count);
            self.count_inodes(-count, 1 - count)?;
            return Ok(Some(chunk));
        }
        if was_full {
            self.add_free_chunk(&chunk)?;
        }
        self.put_current_chunk(chunk, true)?;
        self.count_inodes(0, 1)?;
        Ok(None)
    }

    /// Adds a new chunk, or a part of one, to the indexes. Another part of the same sparse chunk may exist already.
    ///
    /// # Errors
    /// Some of the inodes exist already; damage; the device; no space for the index.
    pub fn add_chunk(&mut self, new: InodeChunk) -> Result<()> {
        let existing = self.chunk_of(new.start)?;
        let whole = match existing {
            None => {
                self.insert_record::<InodeIndex>(&new)?;
                self.add_free_chunk(&new)?;
                new
            }
            Some(part) => {
                let overlap = InodeIndexFault::Overlap { start: part.start };
                let whole = part.joined(&new).ok_or_else(|| self.damaged(overlap))?;
                if part.free_count == 0 {
                    self.add_free_chunk(&whole)?;
                }
                whole
            }
        };
        let is_behind = existing.is_some();
        self.put_current_chunk(whole, is_behind)?;
        self.group.state.inodes_mut()?.newest_inode = U32::new(whole.start.get());
        self.count_inodes(new.count.into(), new.free_count.into())
    }

    /// Where the newest chunk of the group begins.
    pub fn newest_chunk(&self) -> Result<Option<AgInode>> {
        let inode = AgInode::new(self.group.state.headers()?.inodes.newest_inode.get());
        Ok((!inode.is_null()).then_some(inode))
    }

    /// The part of a sparse chunk that exists already, or all of a chunk.
    pub fn chunk_of(&mut self, inode: AgInode) -> Result<Option<InodeChunk>> {
        if let Some(chunk) = self.group.state.current_chunks().of_inode(inode) {
            return Ok(Some(*chunk));
        }
        let found = self.record_at_or_before::<InodeIndex>(inode)?;
        Ok(found.filter(|chunk| chunk.index_of(inode).is_some()))
    }

    /// Brings the records of the current chunks up to date.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn store_current_chunks(&mut self) -> Result<()> {
        while self.group.state.current_chunks().are_dirty()
            && let Some(chunk) = self.group.state.current_chunks_mut().take_dirty()
        {
            self.store_chunk(&chunk)?;
        }
        Ok(())
    }

    fn store_chunk(&mut self, chunk: &InodeChunk) -> Result<()> {
        self.update_record::<InodeIndex>(chunk)?;
        if chunk.free_count > 0 && self.has_free_index() {
            self.update_record::<FreeInodeIndex>(chunk)?;
        }
        Ok(())
    }

    /// Makes a chunk the newest of the current ones. The one that has not been worked on for longest goes into the trees.
    fn put_current_chunk(&mut self, chunk: InodeChunk, is_dirty: bool) -> Result<()> {
        let at_most = self.group.needs.log.current_chunks();
        match self.group.state.current_chunks_mut().put(CurrentChunk { chunk, is_dirty }, at_most) {
            Some(CurrentChunk { chunk: oldest, is_dirty: true }) => self.store_chunk(&oldest),
            _ => Ok(()),
        }
    }

    /// The chunk with a free inode that is nearest to an inode. The header says that there is one.
    #[doc(alias = "xfs_dialloc_ag_finobt_near")]
    fn nearest_free_chunk(&mut self, near: AgInode) -> Result<InodeChunk> {
        // What the trees say must be true for the search.
        self.store_current_chunks()?;
        if !self.has_free_index() {
            return self.next_free_chunk(near);
        }
        let before = self.record_at_or_before::<FreeInodeIndex>(near)?;
        let after = self.record_from::<FreeInodeIndex>(near, |_| true)?;
        let distance = |chunk: &InodeChunk| chunk.start.get().abs_diff(near.get());
        match (before, after) {
            (Some(before), Some(after)) => {
                Ok(if distance(&before) <= distance(&after) { before } else { after })
            }
            (Some(chunk), None) | (None, Some(chunk)) => Ok(chunk),
            (None, None) => Err(self.none_free()?),
        }
    }

    /// Without an index of free inodes: the chunk that holds an inode, or else the next one with a free inode, round
    /// the group.
    #[doc(alias = "xfs_dialloc_ag_inobt")]
    fn next_free_chunk(&mut self, near: AgInode) -> Result<InodeChunk> {
        let own = self.record_at_or_before::<InodeIndex>(near)?;
        let mut found = own.filter(|chunk| chunk.free_count > 0);
        for start in [near, AgInode::new(0)] {
            if found.is_none() {
                found = self.record_from::<InodeIndex>(start, |chunk| chunk.free_count > 0)?;
            }
        }
        match found {
            Some(chunk) => Ok(chunk),
            None => Err(self.none_free()?),
        }
    }

    fn none_free(&self) -> Result<Error> {
        let free_count = self.group.state.headers()?.inodes.free_count.get();
        Ok(self.damaged(InodeIndexFault::NoneFreeInGroup { free_count }))
    }

    fn damaged(&self, fault: InodeIndexFault) -> Error {
        let location = Location { group: Some(self.group.state.group()), ..Location::default() };
        Corruption::new(Structure::InodeIndex, location, fault).into()
    }

    fn has_free_index(&self) -> bool {
        self.group.volume.geometry().features.has_free_inode_btree()
    }

    fn add_free_chunk(&mut self, chunk: &InodeChunk) -> Result<()> {
        if self.has_free_index() { self.insert_record::<FreeInodeIndex>(chunk) } else { Ok(()) }
    }

    fn remove_free_chunk(&mut self, chunk: &InodeChunk) -> Result<()> {
        if self.has_free_index() { self.delete_record::<FreeInodeIndex>(chunk.start) } else { Ok(()) }
    }

    /// Counts inodes that have come, and free ones, in the group's header and for the superblock.
    fn count_inodes(&mut self, inodes: i64, free_inodes: i64) -> Result<()> {
        let header = self.group.state.inodes_mut()?;
        let add = |field: &mut U32, change: i64| {
            let value = i64::from(field.get()).saturating_add(change);
            *field = U32::new(u32::try_from(value).unwrap_or(0));
        };
        add(&mut header.count, inodes);
        add(&mut header.free_count, free_inodes);
        self.group.counters.inodes += inodes;
        self.group.counters.free_inodes += free_inodes;
        Ok(())
    }

    fn record_at_or_before<K: ChunkTree>(&mut self, inode: AgInode) -> Result<Option<InodeChunk>> {
        let geometry = self.group.volume.geometry();
        Ok(self.group.tree::<K>().seek_at_or_before(inode)?.map(|record| record.get(geometry)))
    }

    /// The first chunk from an inode on that is as wanted.
    fn record_from<K: ChunkTree>(
        &mut self,
        inode: AgInode,
        is_wanted: impl Fn(&InodeChunk) -> bool,
    ) -> Result<Option<InodeChunk>> {
        let geometry = self.group.volume.geometry();
        let mut cursor = self.group.tree::<K>();
        let mut record = cursor.seek_at_or_after(inode)?;
        while let Some(chunk) = record.map(|record| record.get(geometry)) {
            if is_wanted(&chunk) {
                return Ok(Some(chunk));
            }
            record = cursor.next()?;
        }
        Ok(None)
    }

    fn insert_record<K: ChunkTree>(&mut self, chunk: &InodeChunk) -> Result<()> {
        let record = chunk.pack(self.group.volume.geometry());
        self.group.tree::<K>().insert(&record)
    }

    fn update_record<K: ChunkTree>(&mut self, chunk: &InodeChunk) -> Result<()> {
        let record = chunk.pack(self.group.volume.geometry());
        let mut cursor = self.group.tree::<K>();
        // Where there is none, the cursor says so when it is to change it.
        cursor.seek_exact(chunk.start)?;
        cursor.update(&record)
    }

    fn delete_record<K: ChunkTree>(&mut self, start: AgInode) -> Result<()> {
        let mut cursor = self.group.tree::<K>();
        cursor.seek_exact(start)?;
        cursor.delete()
    }
}

/// One of the two trees of chunks.
trait ChunkTree: GroupTree + BtreeKind<Record = InodeIndexRecord, Position = AgInode> {}

impl ChunkTree for InodeIndex {}
impl ChunkTree for FreeInodeIndex {}
