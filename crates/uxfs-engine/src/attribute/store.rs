//! The blocks of an attribute fork.

use uxfs_block::cache::EditBuffer;
use uxfs_format::{
    attribute::{
        MAX_VALUE_BYTES,
        remote::{self, RemoteBlock},
    },
    fault::{HeaderFault, Structure},
    field_table::OnDisk,
    geometry::Geometry,
    inode::Fork,
    name_tree::{TreeKind, fault::NameTreeFault, header::BlockHeader, header_edit::BlockIdentity},
    units::{FileBlock, InodeNumber, Sector},
};
use uxfs_volume::extent_map::ExtentMap;

use super::{
    hint::AttributeHint,
    tree::{AttributeTree, ValueStore},
};
use crate::extent_map::sectors::{fork_sector, fork_sectors};
use crate::name_tree::ForkStore;
use crate::{
    extent_map::{map::Mapping, sectors::ForkPieces},
    inode::edit::EditInode,
    transaction::Transaction,
};
use uxfs_volume::error::{Error, OperationError, Result};

const VALUE: Structure = Structure::AttributeRemoteValue;
/// File blocks of attribute forks are 32 bits wide.
const BLOCKS_END: u64 = 1 << 32;
/// Holes are looked for in forks of up to so many extents. Others grow at their end.
const MAX_EXTENTS_SEARCHED: usize = 32;

/// The attribute fork of an inode, with what changing it takes.
#[derive(Debug)]
pub(super) struct AttributeFork<'a, 'fs> {
    transaction: &'a mut Transaction<'fs>,
    inode: &'a mut EditInode,
}

impl<'a, 'fs> AttributeFork<'a, 'fs> {
    pub(super) fn new(transaction: &'a mut Transaction<'fs>, inode: &'a mut EditInode) -> Self {
        Self { transaction, inode }
    }

    /// Where blocks of the fork lie.
    fn pieces(&self, structure: Structure, block: FileBlock, length_blocks: u32) -> Result<ForkPieces> {
        let pieces = fork_sectors(
            self.transaction.engine().geometry(),
            self.inode,
            Fork::Attribute,
            block,
            length_blocks,
        )?;
        pieces.ok_or_else(|| self.corruption(structure, block, NameTreeFault::MissingBlock { block }))
    }

    fn sector(&self, structure: Structure, block: FileBlock) -> Result<Sector> {
        let sector = fork_sector(self.transaction.engine().geometry(), self.inode, Fork::Attribute, block)?;
        sector.ok_or_else(|| self.corruption(structure, block, NameTreeFault::MissingBlock { block }))
    }

    fn map(&mut self, block: FileBlock, length_blocks: u32) -> Result<()> {
        let mapping = Mapping::default();
        let length_blocks = length_blocks.into();
        self.transaction.extent_maps().map_blocks(
            self.inode,
            Fork::Attribute,
            block,
            length_blocks,
            mapping,
        )?;
        Ok(())
    }

    fn free_blocks(&mut self, structure: Structure, block: FileBlock, length_blocks: u32) -> Result<()> {
        let pieces = self.pieces(structure, block, length_blocks)?;
        for piece in pieces.iter() {
            let buffers = self.transaction.buffers();
            if structure == VALUE {
                // Each piece of a value is a buffer.
                buffers.forget(*piece);
            } else {
                buffers.invalidate(std::slice::from_ref(piece));
            }
        }
        self.transaction.extent_maps().unmap_blocks(
            self.inode,
            Fork::Attribute,
            block,
            length_blocks.into(),
        )?;
        Ok(())
    }

    /// Forgets the buffers of a value. What is half made may have no blocks.
    fn forget_value(&mut self, first_block: FileBlock, length_bytes: u32) -> Result<()> {
        let count = remote::block_count(self.geometry(), length_bytes.min(MAX_VALUE_BYTES));
        let pieces = fork_sectors(
            self.transaction.engine().geometry(),
            self.inode,
            Fork::Attribute,
            first_block,
            count,
        )?;
        for piece in pieces.iter().flat_map(|pieces| pieces.iter()) {
            self.transaction.buffers().forget(*piece);
        }
        Ok(())
    }

    /// Gives all blocks of the fork back, in a time that grows with their number and not with that of the attributes.
    pub(super) fn free_all(&mut self) -> Result<()> {
        AttributeTree::new(self).each_value(Self::forget_value)?;
        self.cut(FileBlock::new(0))
    }

    /// Whether all blocks that lead to attributes are there and sound.
    pub(super) fn is_whole(&mut self) -> Result<bool> {
        match AttributeTree::new(self).each_value(|_, _, _| Ok(())) {
            Ok(()) => Ok(true),
            Err(Error::Corrupt(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Leaves an empty leaf as the first block. The other blocks stay, for [`cut`](Self::cut).
    pub(super) fn forget_all(&mut self) -> Result<()> {
        AttributeTree::new(self).each_value(Self::forget_value)?;
        AttributeTree::new(self).clear_root()
    }

    /// Gives the blocks from `start` on back, without a look at what they hold.
    pub(super) fn cut(&mut self, start: FileBlock) -> Result<()> {
        self.inode.attribute_hint.forget();
        let geometry = self.geometry();
        let extents = self.inode.extents(Fork::Attribute);
        let first = extents.index_at_or_after(start);
        let count = extents.len();
        for index in first..count {
            let Some(extent) = self.inode.extents(Fork::Attribute).get(index) else { break };
            for block in start.get().saturating_sub(extent.file_block.get())..extent.length_blocks {
                let start = extent.start.checked_add(block);
                let Some(sector) = start.and_then(|start| geometry.sector_of_block(start)) else { break };
                self.transaction.buffers().invalidate(&[(sector, geometry.block_size_bytes)]);
            }
        }
        self.transaction.extent_maps().unmap_blocks(self.inode, Fork::Attribute, start, BLOCKS_END)?;
        Ok(())
    }

    /// Where `length_blocks` blocks can be mapped: the first hole of a small fork, the end of a large one. A fork that
    /// has come to its end once looks for holes again.
    fn hole(&self, length_blocks: u32) -> Result<FileBlock> {
        let extents = self.extents();
        let (end, most) = (extents.end(), TreeKind::attribute_end(self.geometry()));
        let fits = |from: FileBlock, to: u64| from.get().saturating_add(length_blocks.into()) <= to;
        if extents.len() <= MAX_EXTENTS_SEARCHED || !fits(end, most) {
            let mut place = FileBlock::new(0);
            for extent in extents {
                if fits(place, extent.file_block.get().min(most)) {
                    return Ok(place);
                }
                place = extent.end();
            }
        }
        if fits(end, most) { Ok(end) } else { Err(OperationError::NoSpace.into()) }
    }
}

impl<'fs> ForkStore<'fs> for AttributeFork<'_, 'fs> {
    type Buffer = EditBuffer;

    fn geometry(&self) -> &'fs Geometry {
        self.transaction.engine().geometry()
    }

    fn kind(&self) -> TreeKind {
        TreeKind::Attribute
    }

    fn owner(&self) -> InodeNumber {
        self.inode.number
    }

    fn extents(&self) -> &ExtentMap {
        self.inode.extents(Fork::Attribute)
    }

    fn edit(&mut self, structure: Structure, block: FileBlock) -> Result<EditBuffer> {
        let sector = self.sector(structure, block)?;
        let length_bytes = self.geometry().block_size_bytes;
        let buffer = self.transaction.buffers().edit(structure, sector, length_bytes)?;
        let found = BlockHeader::prefix_of(&buffer).map_or(0, |header| header.owner.get());
        let expected = self.inode.number.get();
        if found != expected {
            return Err(self.corruption(structure, block, HeaderFault::WrongOwner { found, expected }));
        }
        Ok(buffer)
    }

    fn sector_of(&self, block: FileBlock) -> Option<Sector> {
        self.sector(self.index_structure(), block).ok()
    }

    fn create(&mut self, structure: Structure, block: FileBlock) -> Result<EditBuffer> {
        self.inode.attribute_hint.forget();
        self.map(block, 1)?;
        let sector = self.sector(structure, block)?;
        let length_bytes = self.geometry().block_size_bytes;
        Ok(self.transaction.buffers().create(structure, sector, length_bytes)?)
    }

    fn free(&mut self, block: FileBlock) -> Result<()> {
        self.inode.attribute_hint.forget();
        let structure = self.index_structure();
        self.free_blocks(structure, block, 1)
    }

    fn convert(&mut self, buffer: &mut EditBuffer, structure: Structure) {
        self.transaction.buffers().convert(buffer, structure);
    }

    fn first_hole(&self, _: FileBlock) -> FileBlock {
        // Creating the block refuses a place that cannot be.
        self.hole(1).unwrap_or(FileBlock::NULL)
    }
}

impl<'fs> ValueStore<'fs> for AttributeFork<'_, 'fs> {
    fn write_value(&mut self, value: &[u8]) -> Result<FileBlock> {
        let geometry = self.geometry();
        // Values are 64 KiB long at most.
        let count = remote::block_count(geometry, value.len() as u32);
        let first = self.hole(count)?;
        self.map(first, count)?;
        let mut parts = (0_u32..).zip(value.chunks(remote::part_size_bytes(geometry) as usize));
        let (owner, uuid) = (self.inode.number, geometry.metadata_uuid);
        for (sector, length_bytes) in self.pieces(VALUE, first, count)?.iter() {
            let mut buffer = self.transaction.buffers().create(VALUE, *sector, *length_bytes)?;
            let mut edit = buffer.edit();
            let mut sector = *sector;
            let blocks = edit.all().chunks_exact_mut(geometry.block_size());
            for (block, (index, part)) in blocks.zip(parts.by_ref()) {
                let identity = BlockIdentity { sector, owner, uuid };
                let offset_bytes = index * remote::part_size_bytes(geometry);
                remote::write_block(block, &identity, offset_bytes, part);
                let next = sector.checked_add(geometry.sectors_per_block().into());
                sector = next.unwrap_or(sector);
            }
        }
        Ok(first)
    }

    fn read_value(&mut self, first_block: FileBlock, length_bytes: u32) -> Result<Vec<u8>> {
        let (geometry, owner) = (self.geometry(), self.inode.number);
        let count = remote::block_count(geometry, length_bytes);
        let mut value = Vec::with_capacity(length_bytes as usize);
        for (sector, piece_bytes) in self.pieces(VALUE, first_block, count)?.iter() {
            let buffer = self.transaction.buffers().edit(VALUE, *sector, *piece_bytes)?;
            for block in buffer.chunks(geometry.block_size()) {
                let offset = value.len() as u32;
                let part = RemoteBlock::parse(block, geometry).and_then(|block| {
                    block.verify_place(owner, offset, length_bytes.saturating_sub(offset), geometry)?;
                    Ok(block.part)
                });
                let part = part.map_err(|fault| self.corruption(VALUE, first_block, fault))?;
                value.extend_from_slice(part);
            }
        }
        Ok(value)
    }

    fn free_value(&mut self, first_block: FileBlock, length_bytes: u32) -> Result<()> {
        let count = remote::block_count(self.geometry(), length_bytes);
        self.free_blocks(VALUE, first_block, count)
    }

    fn hint(&mut self) -> &mut AttributeHint {
        &mut self.inode.attribute_hint
    }
}
