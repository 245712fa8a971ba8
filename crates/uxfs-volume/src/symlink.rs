//! Targets of symbolic links.

use uxfs_format::{
    btree::extent_map::Extent,
    fault::{Corruption, Fault, Location, Structure},
    inode::{
        Fork,
        symlink::{self, SymlinkFault},
    },
    units::{FileBlock, Sector},
};

use crate::{
    error::{Error, OperationError, Result},
    inode::{FileType, Inode},
    volume::Volume,
};

impl Volume {
    /// The target of a symbolic link: 1 to 1023 bytes, none of them zero. They are as the link's maker wrote them and
    /// may lead anywhere.
    ///
    /// # Errors
    /// [`OperationError::WrongFileType`] for other files; damage; the device.
    pub fn read_symlink(&self, inode: &Inode) -> Result<Vec<u8>> {
        if inode.file_type() != Some(FileType::SymbolicLink) {
            return Err(OperationError::WrongFileType.into());
        }
        let damaged = |fault: SymlinkFault| {
            Corruption::new(Structure::SymlinkLocal, Location::of_inode(inode.number), fault)
        };
        let length_bytes = symlink::verify_target_length(inode.size_bytes()).map_err(damaged)?;
        let target = match inode.local_fork(Fork::Data) {
            Some(target) => target.to_vec(),
            None => RemoteTarget { volume: self, inode, length_bytes }.read()?,
        };
        symlink::verify_target(&target).map_err(damaged)?;
        Ok(target)
    }
}

/// A target that lies in blocks of its own.
struct RemoteTarget<'a> {
    volume: &'a Volume,
    inode: &'a Inode,
    length_bytes: u32,
}

impl RemoteTarget<'_> {
    fn read(&self) -> Result<Vec<u8>> {
        let length_bytes = self.length_bytes;
        let extents = self.volume.extent_map(self.inode, Fork::Data)?;
        let blocks = u64::from(symlink::target_blocks(length_bytes, self.volume.geometry()));
        let mut target = Vec::with_capacity(length_bytes as usize);
        let mut next = FileBlock::new(0);
        for extent in extents.from(next) {
            if extent.file_block != next || next.get() >= blocks {
                break;
            }
            let piece_blocks = extent.length_blocks.min(blocks - next.get());
            self.read_piece(&extent, piece_blocks, &mut target)?;
            next = FileBlock::new(next.get() + piece_blocks);
        }
        let held_bytes = target.len() as u32;
        if held_bytes < length_bytes {
            let fault = SymlinkFault::MissingExtent { held_bytes, length_bytes };
            return Err(corruption(self.inode, None, fault));
        }
        Ok(target)
    }

    /// Appends the piece of the target in the first blocks of an extent.
    fn read_piece(&self, extent: &Extent, piece_blocks: u64, target: &mut Vec<u8>) -> Result<()> {
        let Self { volume, inode, length_bytes } = *self;
        let geometry = volume.geometry();
        let missing = SymlinkFault::MissingExtent { held_bytes: target.len() as u32, length_bytes };
        let sector =
            geometry.sector_of_block(extent.start).ok_or_else(|| corruption(inode, None, missing))?;
        // At most the blocks of a target: two.
        let size_bytes = (piece_blocks << geometry.block_log) as u32;
        let buffer = volume.metadata().read(Structure::Symlink, sector, size_bytes)?;
        let offset_bytes = target.len() as u32;
        let piece = symlink::piece_of(&buffer, inode.number, offset_bytes, length_bytes - offset_bytes)
            .map_err(|fault| corruption(inode, Some((extent, sector)), fault))?;
        target.extend_from_slice(piece);
        Ok(())
    }
}

fn corruption(inode: &Inode, piece: Option<(&Extent, Sector)>, fault: impl Into<Fault>) -> Error {
    let (file_block, sector) = (piece.map(|(extent, _)| extent.file_block), piece.map(|(_, sector)| sector));
    let location = Location { file_block, sector, ..Location::of_inode(inode.number) };
    Corruption::new(Structure::Symlink, location, fault).into()
}
