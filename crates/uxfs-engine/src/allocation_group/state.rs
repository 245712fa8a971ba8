//! The headers of a group in memory, while the file system is mounted for changes.
//!
//! Trees and counts change far more often than headers need to be written; the headers live here, and their sectors
//! are brought up to date when a logged transaction commits or when the file system is closed.

use std::sync::Arc;

use parking_lot::{ArcMutexGuard, Mutex, RawMutex};
use uxfs_block::lock_order::{LockKey, Ordered};
use uxfs_format::{
    allocation_group::{
        free_list::{FreeList, HEADER_SIZE_BYTES},
        free_space_header::FreeSpaceHeader,
        inode_header::InodeHeader,
    },
    fault::Structure,
    geometry::Geometry,
    units::AgNumber,
};
use uxfs_journal::transaction::TransactionBuffers;
use zerocopy::{IntoBytes, big_endian::U32};

use super::{
    before_unlinked::BeforeUnlinked,
    free_space::{Purpose, free_list::FreeListNeeds, owned::KnownFree, reservation::Reservation},
    inode_index::current::{ComparedChunk, CurrentChunks},
    reverse_map::PendingReverseMap,
    trees::CursorHints,
};
use uxfs_volume::{
    error::{OperationError, Result},
    volume::Volume,
};

/// How often a thread looks at a held group before it sleeps. Most groups are released within a microsecond, a few after
/// some ten; a sleeping thread wakes after fifty.
const MOST_LOOKS: u32 = 100;

/// A group that is locked.
pub type GroupGuard = Ordered<ArcMutexGuard<RawMutex, GroupState>>;

/// One group, behind its lock.
#[doc(alias = "xfs_perag")]
#[derive(Debug)]
pub struct GroupState {
    group: AgNumber,
    headers: Option<Box<Headers>>,
    /// The inode chunks that were worked on last.
    current_chunks: CurrentChunks,
    /// The chunk whose inodes were compared with its record last: only this group's changes can have made them differ.
    pub compared_chunk: Option<ComparedChunk>,
    /// The positions of unlinked inodes in their lists: a hint, compared with the list before it is followed.
    pub before_unlinked: BeforeUnlinked,
    /// Pending reverse-map records.
    pending_reverse_map: PendingReverseMap,
    /// Log space reserved for these.
    pub reserved_reverse_map_bytes: u64,
    /// Free extents that are known to have no owner.
    pub known_free: KnownFree,
    /// The tree for which a block is being allocated. The change holds its blocks, so that it cannot look up owners.
    pub growing_tree: Option<Structure>,
    /// Whether the next checkpoint switch knows that it has changed.
    pub is_listed: bool,
    /// Whether the transaction that holds it has changed anything of it.
    pub has_changed: bool,
    /// Blocks of the per-AG reservation when they were last counted.
    ag_reservation_blocks: u32,
}

/// The group's header sectors in memory.
#[derive(Debug)]
pub struct Headers {
    /// AGF.
    pub free_space: FreeSpaceHeader,
    /// AGI.
    pub inodes: InodeHeader,
    /// AGFL: all slots of the ring. Which are active the AGF says.
    pub free_list: Vec<U32>,
    /// Whether AGF or AGFL differ from their sectors.
    pub is_free_space_dirty: bool,
    /// Whether the AGI differs from its sector.
    pub is_inodes_dirty: bool,
    /// Blocks kept for the growth of trees.
    pub reservation: Reservation,
    /// The length that the free list must have.
    pub needs: FreeListNeeds,
    hints: CursorHints,
}

/// Whether groups keep blocks for the growth of their own trees.
pub(crate) fn keeps_blocks_for_trees(geometry: &Geometry) -> bool {
    let features = &geometry.features;
    features.has_reflink() || features.has_free_inode_btree() || features.has_reverse_map()
}

impl GroupState {
    /// Of a group whose headers have not been read.
    pub fn new(group: AgNumber) -> Self {
        let pending_reverse_map = PendingReverseMap::default();
        Self {
            group,
            headers: None,
            current_chunks: CurrentChunks::default(),
            compared_chunk: None,
            before_unlinked: BeforeUnlinked::default(),
            pending_reverse_map,
            reserved_reverse_map_bytes: 0,
            known_free: KnownFree::default(),
            growing_tree: None,
            is_listed: false,
            has_changed: false,
            ag_reservation_blocks: 0,
        }
    }

    /// Waits for the group: looks again and again for a while before it sleeps.
    #[inline]
    pub fn lock(group: &Arc<Mutex<Self>>, number: AgNumber) -> GroupGuard {
        let wait = || group.try_lock_arc().unwrap_or_else(|| Self::lock_held(group));
        Ordered::wait(LockKey::Group(number.get()), wait)
    }

    /// The group, unless another thread has it.
    #[inline]
    pub fn try_lock(group: &Arc<Mutex<Self>>, number: AgNumber) -> Option<GroupGuard> {
        Some(Ordered::taken(LockKey::Group(number.get()), group.try_lock_arc()?))
    }

    #[cold]
    fn lock_held(group: &Arc<Mutex<Self>>) -> ArcMutexGuard<RawMutex, Self> {
        for _ in 0..MOST_LOOKS {
            (0..4).for_each(|_| std::hint::spin_loop());
            // A look leaves the cache line to the thread that holds the lock.
            if !group.is_locked()
                && let Some(state) = group.try_lock_arc()
            {
                return state;
            }
        }
        group.lock_arc()
    }

    /// The group's number.
    pub fn group(&self) -> AgNumber {
        self.group
    }

    /// Whether the headers have been read.
    pub fn is_loaded(&self) -> bool {
        self.headers.is_some()
    }

    /// Whether anything of it is only in memory.
    pub fn needs_settling(&self) -> bool {
        let are_dirty = |headers: &Headers| headers.is_free_space_dirty || headers.is_inodes_dirty;
        self.headers.as_deref().is_some_and(are_dirty)
            || self.current_chunks.are_dirty()
            || !self.pending_reverse_map.is_empty()
    }

    /// How many blocks more than at the last call are free for the superblock but not for files: kept for the group's
    /// trees, or in those that lie in free space. Linux keeps the root of the reverse map, too, which takes none of it.
    pub fn change_of_ag_reservation_blocks(&mut self) -> i64 {
        let kept = |headers: &Headers| {
            let root = u32::from(headers.reservation.reverse_map_blocks > 0);
            let trees = headers.free_space.btree_blocks.get();
            headers.reservation.left(headers, Purpose::Data).saturating_add(trees).saturating_add(root)
        };
        let now = self.headers.as_deref().map_or(0, kept);
        i64::from(now) - i64::from(std::mem::replace(&mut self.ag_reservation_blocks, now))
    }

    /// Blocks that it keeps for its trees, or has in those that lie in free space, as last counted.
    pub(crate) fn ag_reservation_blocks(&self) -> u32 {
        self.ag_reservation_blocks
    }

    /// Whether the AGI leads to unlinked inodes.
    pub(crate) fn has_unlinked(&self) -> bool {
        self.headers.as_deref().is_some_and(|headers| headers.inodes.has_unlinked())
    }

    /// Reads the headers. Blocks that are hidden in the group were counted at mount, where that is done.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn load(&mut self, volume: &Volume) -> Result<()> {
        let group = volume.group(self.group);
        let free_space = group.free_space_header()?;
        let inodes = group.inode_header()?;
        // Verifies that the active slots name usable blocks.
        group.free_list_of(&free_space)?;
        let buffer = group.read_header(3, Structure::FreeList)?;
        let slots = FreeList::parse(&buffer).map(|list| list.slots().to_vec()).unwrap_or_default();
        let geometry = volume.geometry();
        let mut headers = Box::new(Headers {
            free_space,
            inodes,
            free_list: slots.into_iter().map(|slot| slot.block).collect(),
            is_free_space_dirty: false,
            is_inodes_dirty: false,
            reservation: Reservation::new(geometry, self.group),
            needs: FreeListNeeds::new(geometry),
            hints: CursorHints::default(),
        });
        headers.reservation = headers.reservation.fitted(&headers);
        self.headers = Some(headers);
        if keeps_blocks_for_trees(geometry) {
            self.change_of_ag_reservation_blocks();
        }
        Ok(())
    }

    /// The headers; a transaction loads them before it hands the group out.
    ///
    /// # Errors
    /// They have not been read.
    pub fn headers(&self) -> Result<&Headers> {
        self.headers.as_deref().ok_or_else(|| OperationError::NoSuchGroup.into())
    }

    /// The headers, to be changed by a caller that marks those that differ from their sectors.
    pub(super) fn headers_mut(&mut self) -> Result<&mut Headers> {
        self.has_changed = true;
        self.headers.as_deref_mut().ok_or_else(|| OperationError::NoSuchGroup.into())
    }

    /// The inode chunks that were worked on last.
    #[inline]
    pub(crate) fn current_chunks(&self) -> &CurrentChunks {
        &self.current_chunks
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn current_chunks_mut(&mut self) -> &mut CurrentChunks {
        self.has_changed = true;
        &mut self.current_chunks
    }

    /// Pending reverse-map records.
    #[inline]
    pub(crate) fn pending_reverse_map(&self) -> &PendingReverseMap {
        &self.pending_reverse_map
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn pending_reverse_map_mut(&mut self) -> &mut PendingReverseMap {
        self.has_changed = true;
        &mut self.pending_reverse_map
    }

    /// Hints of the cursors.
    pub(super) fn hints_mut(&mut self) -> Option<&mut CursorHints> {
        self.headers.as_deref_mut().map(|headers| &mut headers.hints)
    }

    /// The AGF, to be changed.
    ///
    /// # Errors
    /// The headers have not been read.
    pub fn free_space_mut(&mut self) -> Result<&mut FreeSpaceHeader> {
        self.has_changed = true;
        let headers = self.headers.as_deref_mut().ok_or(OperationError::NoSuchGroup)?;
        headers.is_free_space_dirty = true;
        Ok(&mut headers.free_space)
    }

    /// The AGI, to be changed.
    ///
    /// # Errors
    /// The headers have not been read.
    pub fn inodes_mut(&mut self) -> Result<&mut InodeHeader> {
        self.has_changed = true;
        let headers = self.headers.as_deref_mut().ok_or(OperationError::NoSuchGroup)?;
        headers.is_inodes_dirty = true;
        Ok(&mut headers.inodes)
    }

    /// The AGFL's slots and the AGF that says which are active, to be changed.
    ///
    /// # Errors
    /// The headers have not been read.
    pub fn free_list_mut(&mut self) -> Result<(&mut [U32], &mut FreeSpaceHeader)> {
        self.has_changed = true;
        let headers = self.headers.as_deref_mut().ok_or(OperationError::NoSuchGroup)?;
        headers.is_free_space_dirty = true;
        Ok((&mut headers.free_list, &mut headers.free_space))
    }

    /// Brings the group's header sectors up to date. Owners that wait must have been noted before.
    ///
    /// # Errors
    /// The device; damage found when a sector is read again.
    pub fn store(&mut self, buffers: &mut TransactionBuffers<'_>) -> Result<()> {
        let Some(headers) = self.headers.as_deref_mut() else { return Ok(()) };
        let geometry = buffers.geometry();
        let length_bytes = geometry.sector_size_bytes;
        let sector =
            |index| geometry.sector_of_group_header(self.group, index).ok_or(OperationError::NoSuchGroup);
        if headers.is_free_space_dirty {
            let mut buffer = buffers.edit(Structure::FreeSpaceHeader, sector(1)?, length_bytes)?;
            buffer.edit().update(0, headers.free_space.as_bytes());
            let mut buffer = buffers.edit(Structure::FreeList, sector(3)?, length_bytes)?;
            buffer.edit().update(HEADER_SIZE_BYTES as usize, headers.free_list.as_bytes());
            headers.is_free_space_dirty = false;
        }
        if headers.is_inodes_dirty {
            let mut buffer = buffers.edit(Structure::InodeHeader, sector(2)?, length_bytes)?;
            buffer.edit().update(0, headers.inodes.as_bytes());
            headers.is_inodes_dirty = false;
        }
        Ok(())
    }
}

impl Headers {
    /// Blocks on the free list, and the roots of the group's trees.
    pub(super) fn own_blocks(&self) -> impl Iterator<Item = u32> + '_ {
        let (space, inodes) = (&self.free_space, &self.inodes);
        let roots = [
            &space.by_block_root,
            &space.by_length_root,
            &space.reverse_map_root,
            &space.reference_count_root,
            &inodes.root,
            &inodes.free_root,
        ];
        // A tree that the file system does not have begins at block 0, which is never free.
        roots.into_iter().map(|root| root.get()).chain(self.listed_blocks())
    }

    fn listed_blocks(&self) -> impl Iterator<Item = u32> + '_ {
        let first = self.free_space.free_list_first.get() as usize;
        let count = self.free_space.free_list_count.get() as usize;
        self.free_list.iter().cycle().skip(first).take(count.min(self.free_list.len())).map(|slot| slot.get())
    }
}
