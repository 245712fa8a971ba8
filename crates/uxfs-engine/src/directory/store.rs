//! The blocks of a directory's inode, as a transaction changes them.

use uxfs_block::cache::EditBuffer;
use uxfs_format::{
    directory::header::DirectoryBlockHeader,
    fault::{HeaderFault, Structure},
    field_table::OnDisk,
    geometry::Geometry,
    inode::Fork,
    name_tree::{TreeKind, fault::NameTreeFault, header::BlockHeader},
    units::{FileBlock, InodeNumber, Sector},
};
use uxfs_volume::extent_map::ExtentMap;

use super::DirectoryStore;
use crate::extent_map::sectors::fork_sectors;
use crate::name_tree::ForkStore;
use crate::{
    extent_map::{map::Mapping, sectors::ForkPieces},
    inode::edit::{EditInode, InodeFork},
    transaction::Transaction,
};
use uxfs_volume::error::{Error, Result};

/// A directory's inode, with what changing it takes.
pub(super) struct DirectoryFork<'t, 'fs> {
    transaction: &'t mut Transaction<'fs>,
    inode: &'t mut EditInode,
}

impl<'t, 'fs> DirectoryFork<'t, 'fs> {
    pub(super) fn new(transaction: &'t mut Transaction<'fs>, inode: &'t mut EditInode) -> Self {
        Self { transaction, inode }
    }

    /// Where a block lies that is one file system block: the usual case, and the hot one.
    #[inline]
    fn whole_block(&self, block: FileBlock) -> Option<(Sector, u32)> {
        let geometry = self.geometry();
        if geometry.directory_block_log != 0 {
            return None;
        }
        let extent = self.extents().lookup(block)?;
        let distance = block.checked_distance_from(extent.file_block)?;
        if distance >= extent.length_blocks || extent.is_unwritten {
            return None;
        }
        let sector = geometry.sector_of_block(extent.start.checked_add(distance)?)?;
        Some((sector, geometry.block_size_bytes))
    }

    fn pieces(&self, structure: Structure, block: FileBlock) -> Result<ForkPieces> {
        let length_blocks = u32::try_from(self.blocks_per_block()).unwrap_or(u32::MAX);
        let end = block.get().saturating_add(length_blocks.into());
        let mut extents = self.extents().from(block).take_while(|extent| extent.file_block.get() < end);
        if extents.any(|extent| extent.is_unwritten) {
            return Err(self.corruption(structure, block, NameTreeFault::UnwrittenBlock { block }));
        }
        let pieces =
            fork_sectors(self.transaction.engine().geometry(), self.inode, Fork::Data, block, length_blocks)?;
        pieces.ok_or_else(|| self.corruption(structure, block, NameTreeFault::MissingBlock { block }))
    }

    /// Adds to an error which block of which inode it was.
    fn locate(&self, error: Error, block: FileBlock) -> Error {
        match error {
            Error::Corrupt(mut corruption) => {
                corruption.location.inode = Some(self.inode.number);
                corruption.location.file_block = Some(block);
                Error::Corrupt(corruption)
            }
            other => other,
        }
    }
}

impl<'fs> ForkStore<'fs> for DirectoryFork<'_, 'fs> {
    type Buffer = EditBuffer;

    fn geometry(&self) -> &'fs Geometry {
        self.transaction.engine().geometry()
    }

    fn kind(&self) -> TreeKind {
        TreeKind::Directory
    }

    fn owner(&self) -> InodeNumber {
        self.inode.number
    }

    fn extents(&self) -> &ExtentMap {
        self.inode.extents(Fork::Data)
    }

    fn edit(&mut self, structure: Structure, block: FileBlock) -> Result<EditBuffer> {
        let buffer = match self.whole_block(block) {
            Some((sector, length_bytes)) => self.transaction.buffers().edit(structure, sector, length_bytes),
            None => {
                let pieces = self.pieces(structure, block)?;
                self.transaction.buffers().edit_pieces(structure, &pieces)
            }
        };
        let buffer = buffer.map_err(|error| self.locate(error.into(), block))?;
        let (found, expected) = (owner_of(structure, &buffer), self.inode.number.get());
        if found == expected {
            return Ok(buffer);
        }
        Err(self.corruption(structure, block, HeaderFault::WrongOwner { found, expected }))
    }

    fn sector_of(&self, block: FileBlock) -> Option<Sector> {
        if let Some((sector, _)) = self.whole_block(block) {
            return Some(sector);
        }
        let pieces =
            fork_sectors(self.transaction.engine().geometry(), self.inode, Fork::Data, block, 1).ok()??;
        pieces.first().map(|(sector, _)| *sector)
    }

    fn create(&mut self, structure: Structure, block: FileBlock) -> Result<EditBuffer> {
        self.reserve(block, 1)?;
        self.create_reserved(structure, block)
    }

    fn free(&mut self, block: FileBlock) -> Result<()> {
        let pieces = self.pieces(self.index_structure(), block)?;
        // Before the blocks can belong to anyone else.
        self.transaction.buffers().invalidate(&pieces);
        let length_blocks = self.blocks_per_block();
        self.transaction.extent_maps().unmap_blocks(self.inode, Fork::Data, block, length_blocks)?;
        Ok(())
    }

    fn convert(&mut self, buffer: &mut EditBuffer, structure: Structure) {
        self.transaction.buffers().convert(buffer, structure);
    }
}

impl<'fs> DirectoryStore<'fs> for DirectoryFork<'_, 'fs> {
    fn reserve(&mut self, block: FileBlock, count: u64) -> Result<()> {
        let length_blocks = count.saturating_mul(self.blocks_per_block());
        self.transaction.extent_maps().map_blocks(
            self.inode,
            Fork::Data,
            block,
            length_blocks,
            Mapping::default(),
        )?;
        Ok(())
    }

    fn create_reserved(&mut self, structure: Structure, block: FileBlock) -> Result<EditBuffer> {
        let pieces = self.pieces(structure, block)?;
        let buffer = self.transaction.buffers().create_pieces(structure, &pieces);
        buffer.map_err(|error| self.locate(error.into(), block))
    }

    fn local(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.inode.data {
            InodeFork::Local(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn set_local(&mut self, bytes: Option<Vec<u8>>) {
        self.inode.data = bytes.map_or_else(InodeFork::empty, InodeFork::Local);
    }

    fn room_bytes(&self) -> u32 {
        self.inode.fork_room_bytes(Fork::Data, self.geometry())
    }

    fn size_bytes(&self) -> u64 {
        self.inode.size_bytes()
    }

    fn set_size_bytes(&mut self, size_bytes: u64) {
        self.inode.set_size_bytes(size_bytes);
    }
}

fn owner_of(structure: Structure, bytes: &[u8]) -> u64 {
    let is_data = matches!(
        structure,
        Structure::DirectoryBlock
            | Structure::DirectoryData
            | Structure::DirectoryAnyData
            | Structure::DirectoryFreeIndex
    );
    let owner = if is_data {
        DirectoryBlockHeader::prefix_of(bytes).map(|header| header.owner.get())
    } else {
        BlockHeader::prefix_of(bytes).map(|header| header.owner.get())
    };
    owner.unwrap_or(0)
}
