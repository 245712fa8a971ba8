//! The owners of blocks, compared before a file's contents are written in place, before blocks become free, and before free
//! blocks are allocated.
//!
//! On a damaged image an extent of a file may lie over another file or over metadata. The group itself knows:
//!
//! - With a reverse map: every owner.
//! - Without one, and beside it where free space is compared: inode chunks, the log, the free list, the roots of the group's
//!   btrees, and free extents. Extents of other files and the other blocks of btrees are not known; only a scan of all inodes
//!   would tell.
//! - Where files can share extents: the reference counts.

use std::ops::Range;

use uxfs_format::{
    btree::{
        extent_map::ExtentMapFault,
        free_space::{ByBlock, FreeExtent},
        inode_index::{InodeIndex, InodeIndexFault},
        reverse_map::{Mapping, Owner, ReverseMap, ReverseMapFault, ReverseMapPosition},
    },
    fault::{Corruption, Fault, Location, Structure},
    geometry::INODES_PER_CHUNK,
    units::{AgBlock, AgInode, FsBlock},
};

use crate::allocation_group::{group_edit::GroupEdit, record_tree::RecordTree};
use uxfs_volume::error::{Error, Result};

/// The owners of blocks, as far as a group knows them.
pub struct BlockOwners<'g, 'b, 'v> {
    group: &'g mut GroupEdit<'b, 'v>,
}

impl<'b, 'v> GroupEdit<'b, 'v> {
    /// The owners of its blocks.
    pub fn owners(&mut self) -> BlockOwners<'_, 'b, 'v> {
        BlockOwners { group: self }
    }
}

impl BlockOwners<'_, '_, '_> {
    /// Checks that blocks which the extent map of a file's data leads to can be this file's alone. `mapping` is their expected
    /// reverse-map record; `may_share` says that the inode has the "reflink" flag.
    ///
    /// # Errors
    /// They are another owner's, or free; damage; the device.
    pub fn require_own(&mut self, mapping: &Mapping, may_share: bool) -> Result<()> {
        let (start, length_blocks) = (mapping.start, mapping.length_blocks);
        if !may_share && self.group.find_shared(start, length_blocks)?.is_some() {
            return Err(
                self.damaged_mapping(mapping, |start| ExtentMapFault::Shared { start, length_blocks })
            );
        }
        if self.group.volume.geometry().features.has_reverse_map() {
            self.require_covered(mapping)?;
            return self.require_no_other_owner(mapping);
        }
        let extent = FreeExtent { start, length_blocks };
        if let Some(owner) = self.owner_known_otherwise(extent)? {
            return Err(self.damaged_mapping(mapping, |start| ExtentMapFault::Owned {
                start,
                length_blocks,
                owner,
            }));
        }
        if self.is_any_free(extent)? {
            return Err(self.damaged_mapping(mapping, |start| ExtentMapFault::Free { start, length_blocks }));
        }
        Ok(())
    }

    /// The owner of any block of an extent that should have none; `None` where it has none, as far as the group knows.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn owner_of_any(&mut self, extent: FreeExtent) -> Result<Option<Owner>> {
        if self.group.volume.geometry().features.has_reverse_map()
            && let Some(owner) = self.owner_in_reverse_map(extent)?
        {
            return Ok(Some(owner));
        }
        // A reverse map may lie as well, together with the free space btrees.
        self.owner_known_otherwise(extent)
    }

    /// Checks that blocks of a chunk of inodes are no other owner's, and not free.
    ///
    /// # Errors
    /// They are; damage; the device.
    pub fn require_inodes(&mut self, start: AgBlock, length_blocks: u32) -> Result<()> {
        let mapping = Mapping::of_group(start, length_blocks, Owner::InodeChunks);
        if self.group.volume.geometry().features.has_reverse_map() {
            self.require_covered(&mapping)?;
            return self.require_no_other_owner(&mapping);
        }
        let is_free = self.is_any_free(FreeExtent { start, length_blocks })?;
        if is_free || self.group.find_shared(start, length_blocks)?.is_some() {
            let location = Location { group: Some(self.group.state.group()), ..Location::default() };
            let fault = InodeIndexFault::NotInodes { start, length_blocks };
            return Err(Corruption::new(Structure::InodeIndex, location, fault).into());
        }
        Ok(())
    }

    /// Checks that the file owns all blocks by the reverse map, pending records included.
    fn require_covered(&mut self, wanted: &Mapping) -> Result<()> {
        let covers = |record: &Mapping, block: AgBlock| {
            record.start <= block && block < record.end() && is_of_same_place(record, wanted)
        };
        let mut next = wanted.start;
        while next < wanted.end() {
            if let Some(waiting) = self.group.state.pending_reverse_map().first(|record| covers(record, next))
            {
                next = waiting.end();
                continue;
            }
            let mut cursor = self.group.tree::<ReverseMap>();
            let found =
                cursor.seek_covering(next, &|record| covers(record, next))?.map(|record| record.get());
            drop(cursor);
            let Some(found) = found else {
                let Mapping { start, length_blocks, owner, .. } = *wanted;
                let fault = ReverseMapFault::NotOwned { start, length_blocks, owner };
                return Err(self.damaged_owner(start, fault));
            };
            next = found.end();
        }
        Ok(())
    }

    fn require_no_other_owner(&mut self, wanted: &Mapping) -> Result<()> {
        let is_other = |record: &Mapping| {
            record.overlaps(wanted.start, wanted.end()) && !is_of_same_place(record, wanted)
        };
        let mut found = self.group.state.pending_reverse_map().find(is_other);
        let mut cursor = self.group.tree::<ReverseMap>();
        if found.is_none() {
            let other = cursor.seek_covering(wanted.start, &is_other)?;
            found = other.map(|record| record.get().owner);
        }
        if found.is_none() {
            // Records that begin within: a sound file has one, or few.
            let first = ReverseMapPosition { start: wanted.start, owner: 0, offset: 0 };
            let mut record = cursor.at_or_after(first)?.map(|record| record.get());
            while let Some(within) = record.filter(|record| record.start < wanted.end() && found.is_none()) {
                found = is_other(&within).then_some(within.owner);
                record = cursor.next()?.map(|record| record.get());
            }
        }
        drop(cursor);
        let Some(found) = found else { return Ok(()) };
        let Mapping { start, length_blocks, owner, .. } = *wanted;
        Err(self.damaged_owner(start, ReverseMapFault::AlreadyOwned { start, length_blocks, owner, found }))
    }

    fn owner_in_reverse_map(&mut self, extent: FreeExtent) -> Result<Option<Owner>> {
        let overlaps = |mapping: &Mapping| mapping.overlaps(extent.start, extent.end());
        if let Some(owner) = self.group.state.pending_reverse_map().find(overlaps) {
            return Ok(Some(owner));
        }
        let mut cursor = self.group.tree::<ReverseMap>();
        let first = ReverseMapPosition { start: extent.start, owner: 0, offset: 0 };
        let behind = cursor.at_or_after(first)?.map(|record| record.get());
        if let Some(mapping) = behind.filter(overlaps) {
            return Ok(Some(mapping.owner));
        }
        let covering = cursor.seek_covering(extent.start, &|_| true)?;
        Ok(covering.map(|record| record.get().owner))
    }

    /// The owner by other structures than the reverse map.
    fn owner_known_otherwise(&mut self, extent: FreeExtent) -> Result<Option<Owner>> {
        let geometry = self.group.volume.geometry();
        let range = extent.start.get()..extent.end().get();
        let overlaps = |other: Range<u32>| other.start < range.end && range.start < other.end;
        if let Some((group, start)) = geometry.log_start.and_then(|start| geometry.split_fs_block(start))
            && group == self.group.state.group()
            && overlaps(start.get()..start.get().saturating_add(geometry.log_blocks))
        {
            return Ok(Some(Owner::Log));
        }
        let headers = self.group.state.headers()?;
        if headers.own_blocks().any(|block| range.contains(&block)) {
            return Ok(Some(Owner::GroupBtrees));
        }
        // Blocks of the index that is being split cannot be read.
        if self.group.state.growing_tree == Some(Structure::InodeIndex) {
            return Ok(None);
        }
        let shift = geometry.inodes_per_block_log;
        let first = AgInode::new(range.start.checked_shl(shift).unwrap_or(u32::MAX));
        let last =
            AgInode::new((u64::from(range.end) << shift).saturating_sub(1).try_into().unwrap_or(u32::MAX));
        let mut cursor = self.group.tree::<InodeIndex>();
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

    /// Whether the free space btree has any block of an extent.
    fn is_any_free(&mut self, extent: FreeExtent) -> Result<bool> {
        let mut cursor = self.group.tree::<ByBlock>();
        let before = AgBlock::new(extent.end().get().saturating_sub(1));
        let last = cursor.seek_at_or_before(before)?.map(|record| record.get());
        Ok(last.is_some_and(|last| last.end() > extent.start))
    }

    #[cold]
    fn damaged_mapping(&self, mapping: &Mapping, fault: impl FnOnce(FsBlock) -> ExtentMapFault) -> Error {
        let group = self.group.state.group();
        let start = self.group.volume.geometry().fs_block(group, mapping.start).unwrap_or_default();
        let inode = match mapping.owner {
            Owner::Inode(inode) => Some(inode),
            _ => None,
        };
        let location = Location { inode, group: Some(group), ..Location::default() };
        Corruption::new(Structure::ExtentMap, location, fault(start)).into()
    }

    #[cold]
    fn damaged_owner(&self, start: AgBlock, fault: ReverseMapFault) -> Error {
        let location = Location {
            group: Some(self.group.state.group()),
            group_block: Some(start),
            ..Location::default()
        };
        Corruption::new(Structure::ReverseMap, location, Fault::from(fault)).into()
    }
}

/// Whether both map a block that they share to the same owner, and if it is a file, to the same file block of the same fork.
fn is_of_same_place(record: &Mapping, wanted: &Mapping) -> bool {
    // The file block of block 0 of the group.
    let origin = |mapping: &Mapping| mapping.file_block.get().wrapping_sub(mapping.start.get().into());
    record.owner == wanted.owner
        && record.is_attribute_fork == wanted.is_attribute_fork
        && record.is_extent_map_block == wanted.is_extent_map_block
        && (!wanted.has_file_blocks() || origin(record) == origin(wanted))
}
