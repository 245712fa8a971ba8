//! Where blocks of a fork lie on the device.

use std::ops::Deref;

use uxfs_format::{
    geometry::Geometry,
    inode::Fork,
    units::{FileBlock, Sector},
};

use super::list;
use crate::inode::edit::EditInode;
use uxfs_volume::error::{OperationError, Result};

/// The pieces that a run of blocks of a fork is made of on the device: first sector and length in bytes. Mostly it is
/// one. Neighbours are not joined, so that every lookup of a run gives the same pieces, and with them the same name
/// in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkPieces(Pieces);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pieces {
    One([(Sector, u32); 1]),
    Many(Vec<(Sector, u32)>),
}

impl Deref for ForkPieces {
    type Target = [(Sector, u32)];

    fn deref(&self) -> &[(Sector, u32)] {
        match &self.0 {
            Pieces::One(piece) => piece,
            Pieces::Many(pieces) => pieces,
        }
    }
}

/// Where one block of a fork lies; `None` in a hole.
///
/// # Errors
/// An extent outside the file system.
#[inline]
pub fn fork_sector(
    geometry: &Geometry,
    inode: &EditInode,
    fork: Fork,
    file_block: FileBlock,
) -> Result<Option<Sector>> {
    let extents = inode.extents(fork);
    let found = extents.get(list::index_at_or_after(extents, file_block));
    let Some(before) = found.and_then(|found| file_block.checked_distance_from(found.file_block)) else {
        return Ok(None);
    };
    let start = found.and_then(|found| found.start.checked_add(before));
    let sector = start.and_then(|start| geometry.sector_of_block(start));
    sector.map(Some).ok_or_else(|| OperationError::NoSuchGroup.into())
}

/// Where `length_blocks` blocks from `file_block` of a fork lie. `None` where not all of them are mapped.
///
/// # Errors
/// An extent outside the file system; more than fit one buffer.
pub fn fork_sectors(
    geometry: &Geometry,
    inode: &EditInode,
    fork: Fork,
    file_block: FileBlock,
    length_blocks: u32,
) -> Result<Option<ForkPieces>> {
    let extents = inode.extents(fork);
    let (mut next, end) = (file_block, file_block.get().saturating_add(length_blocks.into()));
    let (mut index, mut pieces) = (list::index_at_or_after(extents, file_block), None);
    while next.get() < end {
        let found = extents.get(index).and_then(|extent| list::part_of(&extent, next, FileBlock::new(end)));
        let Some(part) = found.filter(|part| part.file_block == next) else { return Ok(None) };
        let outside = OperationError::NoSuchGroup;
        let sector = geometry.sector_of_block(part.start).ok_or(outside)?;
        let length_bytes = u32::try_from(part.length_blocks << geometry.block_log).map_err(|_| outside)?;
        let piece = (sector, length_bytes);
        pieces = Some(match pieces {
            None => Pieces::One([piece]),
            Some(Pieces::One([first])) => Pieces::Many(vec![first, piece]),
            Some(Pieces::Many(mut pieces)) => {
                pieces.push(piece);
                Pieces::Many(pieces)
            }
        });
        (next, index) = (part.end(), index + 1);
    }
    Ok(pieces.map(ForkPieces))
}
