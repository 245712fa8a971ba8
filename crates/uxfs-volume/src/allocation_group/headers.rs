//! The verified headers of a group.

use uxfs_format::{
    allocation_group::{
        free_list::{FreeList, FreeListFault},
        free_space_header::FreeSpaceHeader,
        inode_header::InodeHeader,
    },
    fault::{Corruption, Fault, HeaderFault, Location, Structure},
    units::{AgBlock, AgNumber, Sector},
};

use crate::{
    error::{Error, OperationError, Result},
    volume::{MetadataBuffer, Volume},
};

/// Groups whose headers are read at once.
const PREFETCHED_GROUPS: u32 = 256;

/// The headers of one group.
#[derive(Debug, Clone)]
pub struct GroupHeaders {
    /// AGF.
    pub free_space: FreeSpaceHeader,
    /// AGI.
    pub inodes: InodeHeader,
    /// Blocks that the AGFL keeps for the group's own trees, oldest first.
    pub free_list: Vec<AgBlock>,
}

impl Volume {
    /// The free space header (AGF) of a group.
    ///
    /// # Errors
    /// [`OperationError::NoSuchGroup`]; damage; the device.
    pub fn free_space_header(&self, group: AgNumber) -> Result<FreeSpaceHeader> {
        let buffer = self.read_group_header(group, 1, Structure::FreeSpaceHeader)?;
        let parsed = FreeSpaceHeader::parse(&buffer);
        parsed.copied().map_err(|fault| damaged(group, Structure::FreeSpaceHeader, &buffer, fault.into()))
    }

    /// The inode header (AGI) of a group.
    ///
    /// # Errors
    /// [`OperationError::NoSuchGroup`]; damage; the device.
    pub fn inode_header(&self, group: AgNumber) -> Result<InodeHeader> {
        let buffer = self.read_group_header(group, 2, Structure::InodeHeader)?;
        let parsed = InodeHeader::parse(&buffer);
        parsed.copied().map_err(|fault| damaged(group, Structure::InodeHeader, &buffer, fault.into()))
    }

    /// The free list (AGFL) of a group: blocks kept for the group's own trees, oldest first. Where the numbers in the
    /// free space header disagree the list is empty, as it is for the kernel.
    ///
    /// # Errors
    /// [`OperationError::NoSuchGroup`]; damage; the device.
    pub fn free_list(&self, group: AgNumber) -> Result<Vec<AgBlock>> {
        let header = self.free_space_header(group)?;
        self.free_list_of(group, &header)
    }

    /// All headers of a group.
    ///
    /// # Errors
    /// [`OperationError::NoSuchGroup`]; damage; the device.
    pub fn group_headers(&self, group: AgNumber) -> Result<GroupHeaders> {
        let free_space = self.free_space_header(group)?;
        let inodes = self.inode_header(group)?;
        let free_list = self.free_list_of(group, &free_space)?;
        Ok(GroupHeaders { free_space, inodes, free_list })
    }

    /// The free list (AGFL) of a group whose free space header is known: see [`free_list`](Self::free_list).
    ///
    /// # Errors
    /// Damage; the device.
    pub fn free_list_of(&self, group: AgNumber, header: &FreeSpaceHeader) -> Result<Vec<AgBlock>> {
        let buffer = self.read_group_header(group, 3, Structure::FreeList)?;
        let damaged = |fault: Fault| damaged(group, Structure::FreeList, &buffer, fault);
        let list = FreeList::parse(&buffer).map_err(|fault: HeaderFault| damaged(fault.into()))?;
        let usable = self.geometry().group_header_blocks()
            ..self.geometry().group_length_blocks(group).unwrap_or_default();
        let mut blocks = Vec::new();
        for (slot, block) in list.active(header) {
            if !usable.contains(&block.get()) {
                return Err(damaged(FreeListFault::ActiveBlock { slot, block }.into()));
            }
            blocks.push(block);
        }
        Ok(blocks)
    }

    /// Reads one of the header sectors of a group: 0 the superblock, 1 AGF, 2 AGI, 3 AGFL.
    ///
    /// # Errors
    /// [`OperationError::NoSuchGroup`]; damage; the device.
    pub fn read_group_header(
        &self,
        group: AgNumber,
        index: u32,
        structure: Structure,
    ) -> Result<MetadataBuffer> {
        let sector = self.geometry().sector_of_group_header(group, index);
        let sector = sector.ok_or(OperationError::NoSuchGroup)?;
        self.read_metadata(structure, sector, self.geometry().sector_size_bytes)
    }

    /// All groups in order. Their headers come into the cache in as few requests as possible, many groups at a time.
    pub fn groups_with_headers(&self) -> impl Iterator<Item = AgNumber> {
        self.geometry().groups().inspect(|group| {
            if group.get().is_multiple_of(PREFETCHED_GROUPS) {
                self.prefetch_group_headers(*group);
            }
        })
    }

    /// Brings the headers of the groups from `first` on into the cache.
    fn prefetch_group_headers(&self, first: AgNumber) {
        let geometry = self.geometry();
        let kinds = [(1, Structure::FreeSpaceHeader), (2, Structure::InodeHeader), (3, Structure::FreeList)];
        let mut requests: Vec<(Structure, Sector, u32)> = Vec::new();
        let end = first.get().saturating_add(PREFETCHED_GROUPS).min(geometry.ag_count);
        for group in (first.get()..end).map(AgNumber::new) {
            for (index, structure) in kinds {
                let sector = geometry.sector_of_group_header(group, index);
                requests.extend(sector.map(|sector| (structure, sector, geometry.sector_size_bytes)));
            }
        }
        self.prefetch_metadata(&requests);
    }
}

fn damaged(group: AgNumber, structure: Structure, buffer: &MetadataBuffer, fault: Fault) -> Error {
    let location = Location { group: Some(group), ..Location::at_sector(buffer.sector()) };
    Corruption::new(structure, location, fault).into()
}
