//! Structures as they lie on disk, damaged or not: what `uxfs inspect` shows.
//!
//! Everything is read past the cache and given with what its verifier says, so that a person can look at damage.
//! [`describe`](uxfs_format::describe) lists the fields of a structure.
//!
//! | module | holds |
//! |---|---|
//! | here | headers of groups, inodes, blocks of btrees |
//! | [`forks`] | blocks of directories and attributes |
//! | [`magic`] | whatever lies at a place, by its magic number |

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    allocation_group::{free_space_header::FreeSpaceHeader, inode_header::InodeHeader},
    fault::{Corruption, Location, Structure},
    field_table::OnDisk,
    geometry::Geometry,
    superblock::{Copy, Superblock, SuperblockError},
    units::{AgBlock, AgNumber, FsBlock, InodeNumber, SECTOR_SIZE_BYTES, Sector},
    verify::{self, VerifyContext},
};

use crate::{
    error::{Error, OperationError, Result},
    superblock::read_superblock_sector,
    volume::Volume,
};

pub mod forks;
pub mod magic;

/// A structure as it lies on disk.
#[derive(Debug)]
pub struct StructureOnDisk {
    /// The structure, or the expected one.
    pub structure: Structure,
    /// Where it lies.
    pub location: Location,
    /// All of it.
    pub bytes: Vec<u8>,
    /// The error of its verifier.
    pub problem: Option<Error>,
}

/// Reads the superblock of group 0 without mounting, for images whose superblock is damaged.
///
/// # Errors
/// The device failed.
pub fn primary_superblock(device: &dyn BlockDevice) -> Result<StructureOnDisk> {
    let mut bytes = read_superblock_sector(device, 0)?;
    // A sector size that cannot be is taken for the usual one.
    let size = match Superblock::parse(&bytes) {
        Ok((_, sector)) => sector.len(),
        Err(_) => SECTOR_SIZE_BYTES as usize,
    };
    bytes.truncate(size);
    let location = Location { group: Some(AgNumber::new(0)), ..Location::at_sector(Sector::new(0)) };
    let problem = superblock_problem(&bytes, Copy::Primary, location);
    Ok(StructureOnDisk { structure: Structure::Superblock, location, bytes, problem })
}

fn superblock_problem(bytes: &[u8], copy: Copy, location: Location) -> Option<Error> {
    let verified = Superblock::parse(bytes).and_then(|(superblock, sector)| superblock.verify(sector, copy));
    let corruption = |fault| Error::from(Corruption::new(Structure::Superblock, location, fault));
    match verified.err()? {
        SuperblockError::Header(fault) => Some(corruption(uxfs_format::fault::Fault::from(fault))),
        SuperblockError::Fault(fault) => Some(corruption(fault.into())),
        SuperblockError::Unsupported(unsupported) => Some(unsupported.into()),
    }
}

/// Reads structures of a volume as they lie on disk: a view that borrows it.
#[derive(Debug, Clone, Copy)]
pub struct Inspector<'v> {
    volume: &'v Volume,
}

impl Volume {
    /// To read structures as they lie on disk, damaged or not.
    #[inline]
    pub fn inspect(&self) -> Inspector<'_> {
        Inspector { volume: self }
    }
}

impl Inspector<'_> {
    /// A header of a group: superblock, AGF, AGI or AGFL.
    ///
    /// # Errors
    /// There is no such group; the device failed.
    pub fn header(self, structure: Structure, group: AgNumber) -> Result<StructureOnDisk> {
        let index = match structure {
            Structure::Superblock => 0,
            Structure::FreeSpaceHeader => 1,
            Structure::InodeHeader => 2,
            _ => 3,
        };
        let sector =
            self.volume.geometry().sector_of_group_header(group, index).ok_or(OperationError::NoSuchGroup)?;
        let location = Location { group: Some(group), ..Location::at_sector(sector) };
        self.found(structure, location, &[(sector, self.volume.geometry().sector_size_bytes)])
    }

    /// An inode, in use or not.
    ///
    /// # Errors
    /// The number can name none; the device failed.
    pub fn inode(self, number: InodeNumber) -> Result<StructureOnDisk> {
        let bytes = self.volume.inode_bytes(number)?.into_vec();
        let geometry = self.volume.geometry();
        let place = geometry.inode_place(number).ok_or(OperationError::NoSuchInode)?;
        let block =
            geometry.sector_of_group_block(place.group, place.block).ok_or(OperationError::NoSuchInode)?;
        let sector =
            Sector::new(block.get().saturating_add(u64::from(place.offset_bytes) / SECTOR_SIZE_BYTES));
        let location = Location {
            sector: Some(sector),
            group: Some(place.group),
            group_block: Some(place.block),
            ..Location::of_inode(number)
        };
        let problem = self.problem(Structure::Inode, &bytes, location);
        Ok(StructureOnDisk { structure: Structure::Inode, location, bytes, problem })
    }

    /// A block of a btree of a group: the root unless a block is named.
    ///
    /// # Errors
    /// There is no such group or block; the device failed.
    pub fn tree_block(
        self,
        structure: Structure,
        group: AgNumber,
        block: Option<AgBlock>,
    ) -> Result<StructureOnDisk> {
        let block = match block {
            Some(block) => block,
            None => self.tree_root(structure, group)?,
        };
        let sector =
            self.volume.geometry().sector_of_group_block(group, block).ok_or(OperationError::NotFound)?;
        let location =
            Location { group: Some(group), group_block: Some(block), ..Location::at_sector(sector) };
        self.found(structure, location, &[(sector, self.volume.geometry().block_size_bytes)])
    }

    /// Where the header of a group, sound or not, says that the root of a tree lies.
    fn tree_root(self, structure: Structure, group: AgNumber) -> Result<AgBlock> {
        let is_of_inodes = matches!(structure, Structure::InodeIndex | Structure::FreeInodeIndex);
        let header = if is_of_inodes { Structure::InodeHeader } else { Structure::FreeSpaceHeader };
        let bytes = self.header(header, group)?.bytes;
        let root = if is_of_inodes {
            let header = InodeHeader::prefix_of(&bytes).ok_or(OperationError::NotFound)?;
            if structure == Structure::InodeIndex { header.root } else { header.free_root }
        } else {
            let header = FreeSpaceHeader::prefix_of(&bytes).ok_or(OperationError::NotFound)?;
            match structure {
                Structure::FreeSpaceByBlock => header.by_block_root,
                Structure::FreeSpaceByLength => header.by_length_root,
                Structure::ReverseMap => header.reverse_map_root,
                _ => header.reference_count_root,
            }
        };
        Ok(AgBlock::new(root.get()))
    }

    /// A block of the btree of an inode's extent map.
    ///
    /// # Errors
    /// There is no such block; the device failed.
    pub fn extent_map_block(self, number: InodeNumber, block: FsBlock) -> Result<StructureOnDisk> {
        let sector = self.volume.geometry().sector_of_block(block).ok_or(OperationError::NotFound)?;
        let location = Location { sector: Some(sector), ..Location::of_inode(number) };
        self.found(Structure::ExtentMap, location, &[(sector, self.volume.geometry().block_size_bytes)])
    }

    /// Reads pieces as one structure and asks its verifier.
    fn found(
        self,
        structure: Structure,
        location: Location,
        pieces: &[(Sector, u32)],
    ) -> Result<StructureOnDisk> {
        let mut bytes = Vec::new();
        for (sector, length_bytes) in pieces {
            let mut piece = vec![0; *length_bytes as usize];
            self.volume.device().read(Geometry::byte_of_sector(*sector), &mut piece)?;
            bytes.append(&mut piece);
        }
        let problem = self.problem(structure, &bytes, location);
        Ok(StructureOnDisk { structure, location, bytes, problem })
    }

    fn problem(self, structure: Structure, bytes: &[u8], location: Location) -> Option<Error> {
        if structure == Structure::Superblock {
            let is_primary = location.group.is_some_and(|group| group.get() == 0);
            let copy = if is_primary { Copy::Primary } else { Copy::Secondary };
            return superblock_problem(bytes, copy, location);
        }
        let context = VerifyContext::new(self.volume.geometry(), location.sector.unwrap_or(Sector::NULL));
        let fault = verify::verify(structure, bytes, &context).err()?;
        Some(Corruption::new(structure, location, fault).into())
    }
}
