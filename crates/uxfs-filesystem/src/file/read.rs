//! Reading a file that may be changed: by who has its inode locked, for reading or for changes.

use uxfs_block::{contents_io::assert_outside_transaction, device::ReadSegment};
use uxfs_format::{btree::extent_map::Extent, geometry::Geometry, units::FileBlock};

use super::{
    pieces::{Piece, PieceState, Pieces},
    require_regular,
};
use crate::filesystem::FileSystem;
use uxfs_engine::{
    inode::edit::EditInode,
    transaction::{Transaction, reservation::Operation},
};
use uxfs_volume::error::{OperationError, Result};

/// Pieces that one submission carries at most.
const BATCH_SEGMENTS: usize = 256;

/// A mapping as `FIEMAP` tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMapping {
    /// The extent, or the part of it that is as shared as the flag says.
    pub extent: Extent,
    /// Whether others have these blocks too.
    pub is_shared: bool,
}

impl FileSystem {
    /// Reads from a file into `buffer` and gives the number of bytes read, fewer than the buffer holds only at the end of the
    /// file. Holes and unwritten blocks are zeros.
    ///
    /// # Errors
    /// No regular file, or one of the realtime section; damage; the device.
    pub fn read_contents(&self, inode: &EditInode, offset_bytes: u64, buffer: &mut [u8]) -> Result<usize> {
        require_regular(inode)?;
        let left = inode.size_bytes().saturating_sub(offset_bytes);
        let length = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let Some(buffer) = buffer.get_mut(..length).filter(|buffer| !buffer.is_empty()) else { return Ok(0) };
        read_mapped(self, inode, offset_bytes, buffer)?;
        Ok(length)
    }

    /// The first byte at or behind `offset_bytes` that is data: `SEEK_DATA`. Unwritten blocks count as holes.
    ///
    /// # Errors
    /// There is none ([`NoSuchOffset`](OperationError::NoSuchOffset)); no regular file.
    pub fn seek_data(&self, inode: &EditInode, offset_bytes: u64) -> Result<u64> {
        let found = find_piece(self, inode, offset_bytes, |state| matches!(state, PieceState::Written(_)))?;
        found.ok_or_else(|| OperationError::NoSuchOffset.into())
    }

    /// The first byte at or behind `offset_bytes` that is in a hole: `SEEK_HOLE`. At the end of the file there is one.
    ///
    /// # Errors
    /// The offset lies behind the end ([`NoSuchOffset`](OperationError::NoSuchOffset)); no regular file.
    pub fn seek_hole(&self, inode: &EditInode, offset_bytes: u64) -> Result<u64> {
        let found = find_piece(self, inode, offset_bytes, |state| !matches!(state, PieceState::Written(_)))?;
        Ok(found.unwrap_or(inode.size_bytes()))
    }
}

impl FileSystem {
    /// Where a range of a file lies, at most `most` mappings of it, with what is shared told apart.
    ///
    /// # Errors
    /// No regular file; damage; the device.
    #[doc(alias = "FIEMAP")]
    pub fn file_mappings(
        &self,
        inode: &EditInode,
        offset_bytes: u64,
        length_bytes: u64,
        most: usize,
    ) -> Result<Vec<FileMapping>> {
        require_regular(inode)?;
        let block_bytes = u64::from(self.geometry().block_size_bytes);
        let start = FileBlock::new(offset_bytes / block_bytes);
        let end = FileBlock::new(offset_bytes.saturating_add(length_bytes).div_ceil(block_bytes));
        let mut found = Vec::new();
        for piece in Pieces::new(inode.data.extents(), start, end) {
            let mut rest = Some(piece);
            while let Some(piece) = rest.filter(|_| found.len() < most)
                && let Some(extent) = piece.extent()
            {
                let (alone, shared) = sharing_of(self, inode, &piece)?;
                let length_blocks = if alone > 0 { alone } else { shared.max(1) };
                found.push(FileMapping { extent: Extent { length_blocks, ..extent }, is_shared: alone == 0 });
                rest = piece.behind(length_blocks);
            }
            if found.len() >= most {
                break;
            }
        }
        Ok(found)
    }
}

/// How many blocks an extent begins with that have one owner and, if there are none, how many that have several.
fn sharing(tx: &mut Transaction<'_>, extent: &Extent) -> Result<(u64, u64)> {
    let place = tx.engine().geometry().split_fs_block(extent.start);
    let (group, start) = place.ok_or(OperationError::NoSuchGroup)?;
    let length_blocks = u32::try_from(extent.length_blocks).map_err(|_| OperationError::NoSuchGroup)?;
    let found = tx.group(group)?.find_shared(start, length_blocks)?;
    Ok(match found {
        None => (extent.length_blocks, 0),
        Some((first, shared)) if first == start => (0, shared.into()),
        Some((first, _)) => (first.get().saturating_sub(start.get()).into(), 0),
    })
}

/// Reads what lies at a place of a file, wherever its end is.
pub(super) fn read_mapped(
    file_system: &FileSystem,
    inode: &EditInode,
    offset_bytes: u64,
    buffer: &mut [u8],
) -> Result<()> {
    assert_outside_transaction("reads file contents");
    let geometry = file_system.geometry();
    let block_bytes = u64::from(geometry.block_size_bytes);
    let end = FileBlock::new((offset_bytes + buffer.len() as u64).div_ceil(block_bytes));
    let start = FileBlock::new(offset_bytes / block_bytes);
    // Of the first block only what comes from the offset on.
    let mut skipped = offset_bytes % block_bytes;
    let (mut rest, mut segments) = (buffer, Vec::new());
    for piece in Pieces::new(inode.data.extents(), start, end) {
        let length_bytes = piece.length_blocks * block_bytes - skipped;
        let length = usize::try_from(length_bytes).map_or(rest.len(), |length| length.min(rest.len()));
        let (part, after) = rest.split_at_mut(length);
        rest = after;
        match piece.state {
            PieceState::Hole | PieceState::Unwritten(_) => part.fill(0),
            PieceState::Written(start) => {
                let sector = geometry.sector_of_block(start).ok_or(OperationError::NoSuchGroup)?;
                let offset_bytes = Geometry::byte_of_sector(sector) + skipped;
                segments.push(ReadSegment { offset_bytes, buffer: part });
            }
        }
        skipped = 0;
        if segments.len() == BATCH_SEGMENTS {
            file_system.device().read_batch(&mut segments)?;
            segments.clear();
        }
    }
    match segments.as_mut_slice() {
        [] => Ok(()),
        [only] => Ok(file_system.device().read(only.offset_bytes, only.buffer)?),
        several => Ok(file_system.device().read_batch(several)?),
    }
}

fn find_piece(
    file_system: &FileSystem,
    inode: &EditInode,
    offset_bytes: u64,
    is_wanted: impl Fn(PieceState) -> bool,
) -> Result<Option<u64>> {
    require_regular(inode)?;
    let size_bytes = inode.size_bytes();
    if offset_bytes >= size_bytes {
        return Err(OperationError::NoSuchOffset.into());
    }
    let block_bytes = u64::from(file_system.geometry().block_size_bytes);
    let (start, end) = (offset_bytes / block_bytes, size_bytes.div_ceil(block_bytes));
    let pieces = Pieces::new(inode.data.extents(), FileBlock::new(start), FileBlock::new(end));
    let found = pieces.into_iter().find(|piece| is_wanted(piece.state));
    Ok(found.map(|piece| (piece.file_block.get() * block_bytes).max(offset_bytes)))
}

/// How many blocks a piece begins with that are this file's alone and, if there are none, how many that others have too.
pub(super) fn sharing_of(file_system: &FileSystem, inode: &EditInode, piece: &Piece) -> Result<(u64, u64)> {
    let Some(extent) = piece.extent().filter(|_| inode.may_share_extents()) else {
        return Ok((piece.length_blocks, 0));
    };
    let mut tx = Transaction::begin_for(file_system, Operation::Release)?;
    let sharing = sharing(&mut tx, &extent)?;
    tx.commit()?;
    Ok(sharing)
}
