//! Blocks of directories and attributes, whatever state they are in.

use uxfs_format::{
    fault::{Location, Structure},
    inode::{FileType, Fork},
    units::{FileBlock, InodeNumber},
};

use super::{Inspector, StructureOnDisk};
use crate::error::{OperationError, Result};

impl Inspector<'_> {
    /// Gives the blocks of a directory (data fork) or of attributes to `show`, in the order of the fork: all, or the
    /// `wanted` ones. Where the fork lies inside the inode, it gives the inode.
    ///
    /// # Errors
    /// The inode or its extent map is damaged; it is no directory; there is no such block; the device or `show` failed.
    pub fn fork<E: From<crate::error::Error>>(
        self,
        number: InodeNumber,
        fork: Fork,
        wanted: &[FileBlock],
        mut show: impl FnMut(StructureOnDisk) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let inode = self.volume.inode(number)?;
        let is_directory = fork == Fork::Data;
        if is_directory && inode.file_type() != Some(FileType::Directory) {
            return Err(crate::error::Error::from(OperationError::NotADirectory).into());
        }
        if !inode.has_extents(fork) {
            if !wanted.is_empty() {
                return Err(crate::error::Error::from(OperationError::NotFound).into());
            }
            return show(self.inode(number)?);
        }
        let step = if is_directory { self.volume.geometry().blocks_per_directory_block() } else { 1 };
        let map = self.volume.extent_map(&inode, fork)?;
        for block in wanted {
            show(self.fork_block(number, fork, map, *block, step)?)?;
        }
        if !wanted.is_empty() {
            return Ok(());
        }
        let mut next = FileBlock::new(0);
        while let Some(extent) = map.next_at_or_after(next) {
            let first = extent.file_block.max(next);
            show(self.fork_block(number, fork, map, first, step)?)?;
            match first.checked_add(step.into()) {
                Some(after) => next = after,
                None => break,
            }
        }
        Ok(())
    }

    /// The block of `step` file-system blocks at `first`.
    fn fork_block(
        self,
        number: InodeNumber,
        fork: Fork,
        map: &crate::extent_map::ExtentMap,
        first: FileBlock,
        step: u32,
    ) -> Result<StructureOnDisk> {
        let geometry = self.volume.geometry();
        let mut pieces = Vec::new();
        for index in 0..u64::from(step) {
            let sector = first.checked_add(index).and_then(|file_block| {
                let extent = map.lookup(file_block)?;
                let within = file_block.checked_distance_from(extent.file_block)?;
                geometry.sector_of_block(extent.start.checked_add(within)?)
            });
            pieces.push((sector.ok_or(OperationError::NotFound)?, geometry.block_size_bytes));
        }
        let sector = pieces.first().map(|(sector, _)| *sector);
        let location = Location { sector, file_block: Some(first), ..Location::of_inode(number) };
        let any = match fork {
            Fork::Data => Structure::DirectoryAnyData,
            Fork::Attribute => Structure::AttributeAnyIndex,
        };
        let mut found = self.found(any, location, &pieces)?;
        if let Some(structure) = self.structure_of_fork_block(fork, &found.bytes) {
            found.problem = self.problem(structure, &found.bytes, location);
            found.structure = structure;
        }
        Ok(found)
    }

    /// The structure of a block of a fork, by its magic number.
    fn structure_of_fork_block(self, fork: Fork, bytes: &[u8]) -> Option<Structure> {
        let structure = self.structure_by_magic(bytes)?;
        let is_node = matches!(structure, Structure::DirectoryNode | Structure::AttributeNode);
        match fork {
            Fork::Data if is_node => Some(Structure::DirectoryNode),
            Fork::Attribute if is_node => Some(Structure::AttributeNode),
            _ => Some(structure),
        }
    }
}
