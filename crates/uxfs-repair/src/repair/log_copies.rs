//! Damaged blocks of files that the log still has: directory blocks, attribute leaves, extent map blocks, targets of symbolic links.
//!
//! A copy of which the log has every byte is put back where it fits: right structure, right place, right owner, sound. Where the log
//! has a part, the block that results must have the checksum that lies on the disk.

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    fault::Structure,
    geometry::Geometry,
    inode::Fork,
    seal::{seal, structure_of},
    units::{InodeNumber, Sector},
    verify::{VerifyContext, verify},
};
use uxfs_journal::copies::{Known, LogCopies, Wanted};
use uxfs_volume::{error::Result, volume::Volume};

use super::{action::Action, stage::Stage};

/// A block of a file that is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DamagedBlock {
    pub inode: InodeNumber,
    pub sector: Sector,
    pub structure: Structure,
}

/// Puts blocks back as the log has them. Gives whether there were any.
///
/// # Errors
/// The device; temporary files. A log that cannot be read has no copies.
pub(super) fn restore(
    volume: &Volume,
    stage: &Stage,
    log: &dyn BlockDevice,
    blocks: &[DamagedBlock],
    actions: &mut Vec<Action>,
) -> Result<bool> {
    let mut wanted = Wanted::default();
    for block in blocks {
        wanted.add_block(block.sector.get(), length_bytes(block.structure, stage.geometry()) as u64 / 512);
    }
    if wanted.is_empty() {
        return Ok(false);
    }
    let Ok(copies) = LogCopies::gather(log, stage.geometry(), &wanted) else { return Ok(false) };
    let mut is_any = false;
    for block in blocks {
        let Some(bytes) = block_of(volume, stage, &copies, block) else { continue };
        stage.write_at(block.sector, &bytes)?;
        let DamagedBlock { inode, sector, structure } = *block;
        actions.push(Action::BlockFromLog { structure, inode, sector });
        is_any = true;
    }
    Ok(is_any)
}

fn is_of_directory(structure: Structure) -> bool {
    use Structure as S;
    matches!(
        structure,
        S::DirectoryBlock
            | S::DirectoryData
            | S::DirectoryAnyData
            | S::DirectoryLeaf
            | S::DirectoryLeafNode
            | S::DirectoryNode
            | S::DirectoryAnyIndex
            | S::DirectoryFreeIndex
    )
}

fn length_bytes(structure: Structure, geometry: &Geometry) -> usize {
    if is_of_directory(structure) {
        geometry.directory_block_size_bytes as usize
    } else {
        geometry.block_size()
    }
}

/// The bytes of a block that the log knows.
fn block_of(volume: &Volume, stage: &Stage, copies: &LogCopies, block: &DamagedBlock) -> Option<Vec<u8>> {
    let geometry = stage.geometry();
    let mut bytes = vec![0; length_bytes(block.structure, geometry)];
    if bytes.len() > geometry.block_size() && !is_in_one_piece(volume, block, bytes.len()) {
        return None;
    }
    // What cannot be read is zero.
    let _ = stage.read_at(block.sector, &mut bytes);
    let known = copies.read(block.sector.get(), &mut bytes);
    if known == Known::Nothing {
        return None;
    }
    let found = structure_of(&bytes, geometry)?;
    let is_like = is_of_directory(found) == is_of_directory(block.structure);
    if !is_like || owner_of(found, &bytes) != Some(block.inode.get()) {
        return None;
    }
    if known == Known::All {
        seal(&mut bytes, None, geometry)?;
    }
    verify(found, &bytes, &VerifyContext::new(geometry, block.sector)).ok()?;
    Some(bytes)
}

/// Blocks of directories may lie in several extents: these are not put together here.
fn is_in_one_piece(volume: &Volume, block: &DamagedBlock, length_bytes: usize) -> bool {
    let geometry = volume.geometry();
    let Ok(inode) = volume.inode(block.inode) else { return false };
    let Ok(map) = volume.extent_map(&inode, Fork::Data) else { return false };
    let blocks = (length_bytes / geometry.block_size().max(1)) as u64;
    map.iter().any(|extent| {
        let first = geometry.sector_of_block(extent.start);
        let skipped = first.and_then(|first| block.sector.get().checked_sub(first.get()));
        let skipped = skipped.map(|sectors| sectors / u64::from(geometry.sectors_per_block()));
        skipped.is_some_and(|skipped| skipped.saturating_add(blocks) <= extent.length_blocks)
    })
}

/// The inode that the header of a block names.
fn owner_of(structure: Structure, bytes: &[u8]) -> Option<u64> {
    use Structure as S;
    let offset = match structure {
        S::ExtentMap => 56,
        S::DirectoryBlock | S::DirectoryData | S::DirectoryFreeIndex => 40,
        S::DirectoryLeaf | S::DirectoryLeafNode | S::DirectoryNode | S::AttributeLeaf | S::AttributeNode => {
            48
        }
        S::Symlink | S::AttributeRemoteValue => 32,
        _ => return None,
    };
    bytes.get(offset..)?.first_chunk().map(|owner| u64::from_be_bytes(*owner))
}
