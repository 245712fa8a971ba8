//! Where a file lies, and which of its blocks others share.

use uxfs_format::{btree::extent_map::Extent, inode::Fork, units::FileBlock};

use super::{
    pieces::{Piece, Pieces},
    require_regular,
};
use crate::filesystem::FileSystem;
use uxfs_engine::{
    inode::edit::EditInode,
    transaction::{Transaction, reservation::Operation},
};
use uxfs_volume::error::{OperationError, Result};

/// A mapping as `FIEMAP` tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMapping {
    /// The extent, or the part of it that is as shared as the flag says.
    pub extent: Extent,
    /// Whether others have these blocks too.
    pub is_shared: bool,
}

impl FileSystem {
    /// The mappings of a range of a file, at most `most` of them; shared extents are mappings of their own.
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
        for piece in Pieces::new(inode.extents(Fork::Data), start, end) {
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
