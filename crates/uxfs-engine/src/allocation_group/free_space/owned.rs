//! Whether free extents are owned by anybody, before blocks of them are given away.
//!
//! Contents of files and values of attributes are written before the mapping that leads to them commits. So on a damaged
//! image, whose free space btrees offer blocks in use, ownership must be known when the blocks are chosen: from the reverse
//! map, or without one from what says of itself where it lies: inode chunks, the log, the free list, the roots of the
//! group's trees. Without a reverse map it is not known of extents of files and of other btree blocks.
//!
//! A whole free extent is compared, once: what is taken from it piece by piece is looked up no further.

use std::ops::Range;

use uxfs_format::{
    btree::{
        check::BtreeFault,
        free_space::{ByBlock, FreeExtent},
        inode_index::InodeIndex,
        reverse_map::{Mapping, Owner, ReverseMap, ReverseMapPosition},
    },
    geometry::INODES_PER_CHUNK,
    units::{AgBlock, AgInode},
};

use crate::allocation_group::{group_edit::GroupEdit, record_tree::RecordTree};
use uxfs_volume::error::Result;

/// Free extents that are remembered.
const MOST_KNOWN: usize = 4;

/// Free extents of a group that have no owner, as far as that can be known.
#[derive(Debug, Default, Clone, Copy)]
pub struct KnownFree {
    extents: [Range32; MOST_KNOWN],
    next: usize,
}

#[derive(Debug, Default, Clone, Copy)]
struct Range32 {
    start: u32,
    end: u32,
}

impl KnownFree {
    #[inline]
    pub(super) fn contains(&self, extent: FreeExtent) -> bool {
        let (start, end) = (extent.start.get(), extent.end().get());
        self.extents.iter().any(|known| known.start <= start && end <= known.end)
    }

    fn add(&mut self, extent: FreeExtent) {
        if let Some(place) = self.extents.get_mut(self.next % MOST_KNOWN) {
            *place = Range32 { start: extent.start.get(), end: extent.end().get() };
        }
        self.next = (self.next + 1) % MOST_KNOWN;
    }
}

impl GroupEdit<'_, '_> {
    /// Checks that no block of an extent that the free space btrees offer has an owner.
    ///
    /// # Errors
    /// Somebody does; damage; the device.
    #[cold]
    pub(super) fn require_unowned(&mut self, extent: FreeExtent) -> Result<()> {
        let owner = match self.volume.geometry().features.has_reverse_map() {
            true => self.owner_in_reverse_map(extent)?,
            false => self.owner_known_otherwise(extent)?,
        };
        if let Some(owner) = owner {
            return Err(self.damaged_extent::<ByBlock>(extent, BtreeFault::OwnedFreeSpace { owner }));
        }
        self.state.known_free.add(extent);
        Ok(())
    }

    fn owner_in_reverse_map(&mut self, extent: FreeExtent) -> Result<Option<Owner>> {
        let overlaps = |mapping: &Mapping| mapping.start < extent.end() && extent.start < mapping.end();
        if let Some(owner) = self.state.pending_reverse_map().find(overlaps) {
            return Ok(Some(owner));
        }
        let mut cursor = self.tree::<ReverseMap>();
        let first = ReverseMapPosition { start: extent.start, owner: 0, offset: 0 };
        let behind = cursor.at_or_after(first)?.map(|record| record.get());
        if let Some(mapping) = behind.filter(overlaps) {
            return Ok(Some(mapping.owner));
        }
        let covering = cursor.seek_covering(extent.start, &|_| true)?;
        Ok(covering.map(|record| record.get().owner))
    }

    /// Without a reverse map.
    fn owner_known_otherwise(&mut self, extent: FreeExtent) -> Result<Option<Owner>> {
        let geometry = self.volume.geometry();
        let range = extent.start.get()..extent.end().get();
        let overlaps = |other: Range<u32>| other.start < range.end && range.start < other.end;
        if let Some((group, start)) = geometry.log_start.and_then(|start| geometry.split_fs_block(start))
            && group == self.state.group()
            && overlaps(start.get()..start.get().saturating_add(geometry.log_blocks))
        {
            return Ok(Some(Owner::Log));
        }
        let headers = self.state.headers()?;
        if headers.own_blocks().any(|block| range.contains(&block)) {
            return Ok(Some(Owner::GroupBtrees));
        }
        let shift = geometry.inodes_per_block_log;
        let first = AgInode::new(range.start.checked_shl(shift).unwrap_or(u32::MAX));
        let last =
            AgInode::new((u64::from(range.end) << shift).saturating_sub(1).try_into().unwrap_or(u32::MAX));
        let mut cursor = self.tree::<InodeIndex>();
        let mut chunk = cursor.at_or_before(last)?.map(|record| record.get(geometry));
        // Of a sparse chunk the blocks that it does not have may be free.
        while let Some(found) = chunk.filter(|chunk| chunk.inode(INODES_PER_CHUNK - 1) >= first) {
            let blocks = found.blocks(geometry);
            let is_in =
                |(start, length): &(AgBlock, u32)| overlaps(start.get()..start.get().saturating_add(*length));
            if blocks.iter().any(is_in) {
                return Ok(Some(Owner::InodeChunks));
            }
            chunk = cursor.previous()?.map(|record| record.get(geometry));
        }
        Ok(None)
    }
}
