//! Whatever lies at a place, by its magic number.

use uxfs_format::{
    fault::{Location, Structure},
    field_table::OnDisk,
    geometry::Geometry,
    inode::symlink::{self, SymlinkHeader},
    quota::{self, QuotaRecord},
    seal::structure_of,
    units::{FsBlock, SECTOR_SIZE_BYTES, Sector},
};

use zerocopy::FromBytes;

use super::{Inspector, StructureOnDisk};
use crate::error::{OperationError, Result};

impl Inspector<'_> {
    /// The structures in a block of the file system: one, or several inodes, or the headers of an allocation group.
    ///
    /// # Errors
    /// There is no such block; nothing known lies in it; the device failed.
    pub fn block(self, block: FsBlock) -> Result<Vec<StructureOnDisk>> {
        let geometry = self.volume.geometry();
        let sector = geometry.sector_of_block(block).ok_or(OperationError::NotFound)?;
        self.structures_at(sector, geometry.block_size_bytes)
    }

    /// The structure that begins in a 512-byte sector of the device.
    ///
    /// # Errors
    /// As [`block`](Self::block).
    pub fn sector(self, sector: Sector) -> Result<Vec<StructureOnDisk>> {
        self.structures_at(sector, self.volume.geometry().sector_size_bytes)
    }

    fn structures_at(self, sector: Sector, length_bytes: u32) -> Result<Vec<StructureOnDisk>> {
        let geometry = self.volume.geometry();
        let mut all = self.quota_records_at(sector, length_bytes)?;
        if !all.is_empty() {
            return Ok(all);
        }
        // Group headers and inodes are smaller than blocks; everything else begins where its block does.
        let step = geometry.sector_size_bytes.min(geometry.inode_size_bytes);
        let mut offset = 0;
        while offset < length_bytes {
            let place = Sector::new(sector.get().saturating_add(u64::from(offset) / SECTOR_SIZE_BYTES));
            let found = self.structure_at(place)?;
            let taken = found.as_ref().map_or(step, |found| u32::try_from(found.bytes.len()).unwrap_or(step));
            all.extend(found);
            offset = offset.saturating_add(taken.max(step));
        }
        if all.is_empty() { Err(OperationError::NotFound.into()) } else { Ok(all) }
    }

    /// The records of a block of quota records, which lie closer than sectors. None where it is none.
    fn quota_records_at(self, sector: Sector, length_bytes: u32) -> Result<Vec<StructureOnDisk>> {
        let mut bytes = vec![0; length_bytes as usize];
        self.volume.device().read(Geometry::byte_of_sector(sector), &mut bytes)?;
        let structure = Structure::Quota;
        if self.structure_by_magic(&bytes) != Some(structure) {
            return Ok(Vec::new());
        }
        let records = (0..).zip(bytes.chunks_exact(QuotaRecord::SIZE_BYTES)).map(|(index, record)| {
            let offset_bytes = Some(index * QuotaRecord::SIZE_BYTES as u32);
            let location = Location { offset_bytes, ..Location::at_sector(sector) };
            let problem = self.problem(structure, record, location);
            StructureOnDisk { structure, location, bytes: record.to_vec(), problem }
        });
        Ok(records.collect())
    }

    /// The structure that begins at a sector, if a magic number there says so.
    fn structure_at(self, sector: Sector) -> Result<Option<StructureOnDisk>> {
        let geometry = self.volume.geometry();
        let mut head = vec![0; SECTOR_SIZE_BYTES as usize];
        self.volume.device().read(Geometry::byte_of_sector(sector), &mut head)?;
        let Some(structure) = self.structure_by_magic(&head) else { return Ok(None) };
        let place = geometry.block_of_sector(sector);
        let location = Location {
            group: place.map(|(group, ..)| group),
            group_block: place.map(|(_, block, _)| block),
            ..Location::at_sector(sector)
        };
        self.found(structure, location, &[(sector, self.size_of_structure(structure, &head))]).map(Some)
    }

    /// The size in bytes of a structure that begins with `head`. A piece of a symbolic link's target may have several blocks.
    fn size_of_structure(self, structure: Structure, head: &[u8]) -> u32 {
        let geometry = self.volume.geometry();
        match structure {
            Structure::Superblock
            | Structure::FreeSpaceHeader
            | Structure::InodeHeader
            | Structure::FreeList => geometry.sector_size_bytes,
            Structure::Inode => geometry.inode_size_bytes,
            Structure::DirectoryBlock
            | Structure::DirectoryData
            | Structure::DirectoryLeaf
            | Structure::DirectoryLeafNode
            | Structure::DirectoryNode
            | Structure::DirectoryFreeIndex => geometry.directory_block_size_bytes,
            Structure::Symlink => {
                let header = SymlinkHeader::ref_from_prefix(head).ok();
                let length_bytes = header.map_or(0, |(header, _)| header.length_bytes.get());
                let length_bytes = length_bytes.clamp(1, symlink::TARGET_END_BYTES);
                symlink::target_blocks(length_bytes, geometry).saturating_mul(geometry.block_size_bytes)
            }
            _ => geometry.block_size_bytes,
        }
    }

    /// The structure that begins with these bytes.
    pub(super) fn structure_by_magic(self, bytes: &[u8]) -> Option<Structure> {
        match structure_of(bytes, self.volume.geometry()) {
            // Here each inode is looked at by itself.
            Some(Structure::InodeCluster) => Some(Structure::Inode),
            None if bytes.starts_with(&quota::MAGIC.to_be_bytes()) => Some(Structure::Quota),
            found => found,
        }
    }
}
