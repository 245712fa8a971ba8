//! Blocks of directories and attribute forks, and the tree of name hashes that both have.
//!
//! The verifier has checked each block by itself. A walk checks the relations between blocks: the owner of a block, falling
//! levels, rising hashes, siblings that agree; and it visits no more blocks than there are.

pub mod leaf_walk;
mod leaves_ahead;

use uxfs_format::{
    directory::header::DirectoryBlockHeader,
    fault::{Corruption, Fault, HeaderFault, Location, Structure},
    field_table::OnDisk,
    geometry::Geometry,
    inode::Fork,
    name_tree::{TreeKind, fault::NameTreeFault, header::BlockHeader},
    units::{FileBlock, InodeNumber, Sector},
};

use crate::{
    error::{Error, Result},
    extent_map::ExtentMap,
    inode::Inode,
    volume::{MetadataBuffer, Volume},
};

/// The blocks of a directory's data fork or of an attribute fork.
#[derive(Debug)]
pub struct ForkBlocks<'fs> {
    /// The volume they are read from.
    pub volume: &'fs Volume,
    /// Where they lie.
    pub map: &'fs ExtentMap,
    /// Whether a directory's or of attributes.
    pub kind: TreeKind,
    inode: InodeNumber,
}

impl<'fs> ForkBlocks<'fs> {
    /// The blocks of an inode's data fork or attribute fork, as the kind of tree says.
    ///
    /// # Errors
    /// Damage of the fork or its extent btree; the device.
    pub fn new(volume: &'fs Volume, inode: &'fs Inode, kind: TreeKind) -> Result<Self> {
        let fork = match kind {
            TreeKind::Directory => Fork::Data,
            TreeKind::Attribute => Fork::Attribute,
        };
        let map = volume.extent_map(inode, fork)?;
        Ok(Self { volume, map, kind, inode: inode.number })
    }

    /// The geometry of the file system.
    pub fn geometry(&self) -> &'fs Geometry {
        self.volume.geometry()
    }

    /// Whether a block of the fork has a place on the device.
    pub(crate) fn is_mapped(&self, block: FileBlock) -> bool {
        self.map.lookup(block).is_some()
    }

    /// Blocks that a walk may visit. Extents of a damaged image can claim more than the file system has.
    pub fn most_blocks(&self) -> u64 {
        self.map.blocks().min(self.geometry().data_blocks)
    }

    /// Damage in the block at `block` of the fork.
    pub fn corruption(
        &self,
        structure: Structure,
        block: FileBlock,
        sector: Option<Sector>,
        fault: impl Into<Fault>,
    ) -> Error {
        let location = Location { sector, file_block: Some(block), ..Location::of_inode(self.inode) };
        Corruption::new(structure, location, fault).into()
    }

    /// Reads and verifies a tree block, and compares its owner.
    pub fn read_tree_block(&self, block: FileBlock) -> Result<MetadataBuffer> {
        let structure = self.index_structure();
        let buffer = self.read(structure, block, self.kind.block_size_bytes(self.geometry()))?;
        let owner = BlockHeader::prefix_of(&buffer).map(|header| header.owner.get());
        self.check_owner(structure, block, buffer, owner)
    }

    /// Reads and verifies a data or free index block of a directory, and compares its owner.
    pub fn read_directory_block(&self, structure: Structure, block: FileBlock) -> Result<MetadataBuffer> {
        let buffer = self.read(structure, block, self.geometry().directory_block_size_bytes)?;
        let owner = DirectoryBlockHeader::prefix_of(&buffer).map(|header| header.owner.get());
        self.check_owner(structure, block, buffer, owner)
    }

    /// Brings tree blocks into the cache that will be read soon, as far as each lies in one piece.
    fn prefetch(&self, blocks: &[FileBlock]) {
        let length_bytes = self.kind.block_size_bytes(self.geometry());
        let place = |block: &FileBlock| {
            Some((self.index_structure(), self.one_piece(*block, length_bytes)?, length_bytes))
        };
        let requests: Vec<_> = blocks.iter().filter_map(place).collect();
        if requests.len() > 1 {
            self.volume.metadata().prefetch(&requests);
        }
    }

    /// The structure of an interior block or leaf of this tree.
    pub fn index_structure(&self) -> Structure {
        match self.kind {
            TreeKind::Directory => Structure::DirectoryAnyIndex,
            TreeKind::Attribute => Structure::AttributeAnyIndex,
        }
    }

    fn check_owner(
        &self,
        structure: Structure,
        block: FileBlock,
        buffer: MetadataBuffer,
        owner: Option<u64>,
    ) -> Result<MetadataBuffer> {
        let (found, expected) = (owner.unwrap_or(0), self.inode.get());
        if found == expected {
            return Ok(buffer);
        }
        let fault = HeaderFault::WrongOwner { found, expected };
        Err(self.corruption(structure, block, Some(buffer.sector()), fault))
    }

    /// Reads `length_bytes` from `block` of the fork, which may lie in several extents, as one buffer.
    fn read(&self, structure: Structure, block: FileBlock, length_bytes: u32) -> Result<MetadataBuffer> {
        if let Some(sector) = self.one_piece(block, length_bytes) {
            return self.read_piece(structure, block, sector, length_bytes);
        }
        let pieces = self.pieces(structure, block, length_bytes)?;
        let read = match pieces.as_slice() {
            [(sector, length_bytes)] => self.volume.metadata().read(structure, *sector, *length_bytes),
            pieces => self.volume.metadata().read_pieces(structure, pieces),
        };
        read.map_err(|error| self.locate(error, block))
    }

    /// Where bytes lie that are all in one extent: the usual case.
    #[inline]
    fn one_piece(&self, block: FileBlock, length_bytes: u32) -> Option<Sector> {
        let geometry = self.geometry();
        let extent = self.map.lookup(block).filter(|extent| !extent.is_unwritten)?;
        let before = block.checked_distance_from(extent.file_block)?;
        let blocks = u64::from(length_bytes >> geometry.block_log);
        if extent.length_blocks.saturating_sub(before) < blocks {
            return None;
        }
        geometry.sector_of_block(extent.start.checked_add(before)?)
    }

    /// Reads and verifies bytes that lie in one piece and begin with block `block` of the fork.
    pub fn read_piece(
        &self,
        structure: Structure,
        block: FileBlock,
        sector: Sector,
        length_bytes: u32,
    ) -> Result<MetadataBuffer> {
        self.volume
            .metadata()
            .read(structure, sector, length_bytes)
            .map_err(|error| self.locate(error, block))
    }

    /// Where `length_bytes` from `block` lie on the device.
    pub fn pieces(
        &self,
        structure: Structure,
        block: FileBlock,
        length_bytes: u32,
    ) -> Result<Vec<(Sector, u32)>> {
        let geometry = self.geometry();
        let missing = |block| self.corruption(structure, block, None, NameTreeFault::MissingBlock { block });
        let mut pieces: Vec<(Sector, u32)> = Vec::with_capacity(1);
        let (mut next, mut rest_blocks) = (block, u64::from(length_bytes >> geometry.block_log));
        while rest_blocks > 0 {
            let extent = self.map.lookup(next).ok_or_else(|| missing(next))?;
            if extent.is_unwritten {
                let fault = NameTreeFault::UnwrittenBlock { block: next };
                return Err(self.corruption(structure, next, None, fault));
            }
            let before = next.checked_distance_from(extent.file_block).ok_or_else(|| missing(next))?;
            let count = extent.length_blocks.saturating_sub(before).min(rest_blocks).max(1);
            let start = extent.start.checked_add(before).ok_or_else(|| missing(next))?;
            let sector = geometry.sector_of_block(start).ok_or_else(|| missing(next))?;
            // At most 64 KiB are asked for.
            pieces.push((sector, (count as u32) << geometry.block_log));
            next = next.checked_add(count).ok_or_else(|| missing(next))?;
            rest_blocks -= count;
        }
        Ok(pieces)
    }

    /// Adds to an error of a read which block of which inode it was.
    fn locate(&self, error: Error, block: FileBlock) -> Error {
        match error {
            Error::Corrupt(mut corruption) => {
                corruption.location.inode = Some(self.inode);
                corruption.location.file_block = Some(block);
                Error::Corrupt(corruption)
            }
            other => other,
        }
    }
}
