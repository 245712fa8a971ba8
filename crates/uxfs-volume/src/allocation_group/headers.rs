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

use super::reader::{GroupReader, GroupsReader};
use crate::{
    error::{Error, OperationError, Result},
    volume::MetadataBuffer,
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

impl GroupReader<'_> {
    /// The free space header (AGF) of a group.
    ///
    /// # Errors
    /// [`OperationError::NoSuchGroup`]; damage; the device.
    pub fn free_space_header(self) -> Result<FreeSpaceHeader> {
        let buffer = self.read_header(1, Structure::FreeSpaceHeader)?;
        let parsed = FreeSpaceHeader::parse(&buffer);
        parsed
            .copied()
            .map_err(|fault| damaged(self.group, Structure::FreeSpaceHeader, &buffer, fault.into()))
    }

    /// The inode header (AGI) of a group.
    ///
    /// # Errors
    /// [`OperationError::NoSuchGroup`]; damage; the device.
    pub fn inode_header(self) -> Result<InodeHeader> {
        let buffer = self.read_header(2, Structure::InodeHeader)?;
        let parsed = InodeHeader::parse(&buffer);
        parsed.copied().map_err(|fault| damaged(self.group, Structure::InodeHeader, &buffer, fault.into()))
    }

    /// The free list (AGFL) of a group: blocks kept for the group's own trees, oldest first. Where the numbers in the
    /// free space header disagree the list is empty, as it is for the kernel.
    ///
    /// # Errors
    /// [`OperationError::NoSuchGroup`]; damage; the device.
    pub fn free_list(self) -> Result<Vec<AgBlock>> {
        let header = self.free_space_header()?;
        self.free_list_of(&header)
    }

    /// All headers of a group.
    ///
    /// # Errors
    /// [`OperationError::NoSuchGroup`]; damage; the device.
    pub fn headers(self) -> Result<GroupHeaders> {
        let free_space = self.free_space_header()?;
        let inodes = self.inode_header()?;
        let free_list = self.free_list_of(&free_space)?;
        Ok(GroupHeaders { free_space, inodes, free_list })
    }

    /// The free list (AGFL) of a group whose free space header is known: see [`free_list`](Self::free_list).
    ///
    /// # Errors
    /// Damage; the device.
    pub fn free_list_of(self, header: &FreeSpaceHeader) -> Result<Vec<AgBlock>> {
        let buffer = self.read_header(3, Structure::FreeList)?;
        let damaged = |fault: Fault| damaged(self.group, Structure::FreeList, &buffer, fault);
        let list = FreeList::parse(&buffer).map_err(|fault: HeaderFault| damaged(fault.into()))?;
        let usable = self.volume.geometry().group_header_blocks()
            ..self.volume.geometry().group_length_blocks(self.group).unwrap_or_default();
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
    pub fn read_header(self, index: u32, structure: Structure) -> Result<MetadataBuffer> {
        let geometry = self.volume.geometry();
        let sector = geometry.sector_of_group_header(self.group, index);
        let sector = sector.ok_or(OperationError::NoSuchGroup)?;
        self.volume.metadata().read(structure, sector, geometry.sector_size_bytes)
    }
}

impl<'v> GroupsReader<'v> {
    /// All groups in order. Their headers come into the cache in as few requests as possible, many groups at a time.
    pub fn with_headers(self) -> impl Iterator<Item = AgNumber> + use<'v> {
        self.volume.geometry().groups().inspect(move |group| {
            if group.get().is_multiple_of(PREFETCHED_GROUPS) {
                self.prefetch_headers(*group);
            }
        })
    }

    /// Brings the headers of the groups from `first` on into the cache.
    fn prefetch_headers(self, first: AgNumber) {
        let geometry = self.volume.geometry();
        let kinds = [(1, Structure::FreeSpaceHeader), (2, Structure::InodeHeader), (3, Structure::FreeList)];
        let mut requests: Vec<(Structure, Sector, u32)> = Vec::new();
        let end = first.get().saturating_add(PREFETCHED_GROUPS).min(geometry.ag_count);
        for group in (first.get()..end).map(AgNumber::new) {
            for (index, structure) in kinds {
                let sector = geometry.sector_of_group_header(group, index);
                requests.extend(sector.map(|sector| (structure, sector, geometry.sector_size_bytes)));
            }
        }
        self.volume.metadata().prefetch(&requests);
    }
}

fn damaged(group: AgNumber, structure: Structure, buffer: &MetadataBuffer, fault: Fault) -> Error {
    let location = Location { group: Some(group), ..Location::at_sector(buffer.sector()) };
    Corruption::new(structure, location, fault).into()
}
