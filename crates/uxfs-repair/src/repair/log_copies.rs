//! Damaged blocks of files that the log still has: directory blocks, attribute leaves, extent map blocks, targets of symbolic links.
//!
//! A copy is put back where it fits: right structure, right place, right owner, sound. The log must have every byte of it that is in
//! use, or the block that results from the disk's bytes and the log's must have the checksum that lies on the disk.

use std::ops::Range;

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    fault::Structure,
    geometry::Geometry,
    inode::Fork,
    seal::{seal, structure_of},
    units::{InodeNumber, Sector},
    verify::{VerifyContext, verify},
};
use uxfs_journal::copies::{CHUNK_BYTES, LogCopies, Wanted};
use uxfs_volume::{error::Result, volume::Volume};

use super::{action::Action, identity::owner_of, stage::Stage};

const SYMLINK_HEADER_BYTES: usize = 56;
/// Of an attribute leaf: header, place of the number of entries and of the first byte that names or values take, an entry.
const LEAF_HEADER_BYTES: usize = 80;
const LEAF_COUNT_BYTES: usize = 56;
const LEAF_FIRST_USED_BYTES: usize = 60;
const LEAF_ENTRY_BYTES: usize = 8;
/// The same of an interior block of a tree of names.
const NODE_HEADER_BYTES: usize = 64;
const NODE_COUNT_BYTES: usize = 56;
const NODE_ENTRY_BYTES: usize = 8;

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
        let mut there = vec![0; bytes.len()];
        if stage.read_at(block.sector, &mut there).is_ok() && there == bytes {
            // What is wrong with it is in another block.
            continue;
        }
        stage.write_at(block.sector, &bytes)?;
        let DamagedBlock { inode, sector, structure } = *block;
        actions.push(Action::BlockFromLog { structure, inode, sector });
        is_any = true;
    }
    Ok(is_any)
}

/// Whether a structure is a part of a directory.
pub(super) fn is_of_directory(structure: Structure) -> bool {
    use Structure as S;
    matches!(
        structure,
        S::DirectoryShortform
            | S::DirectoryBlock
            | S::DirectoryData
            | S::DirectoryAnyData
            | S::DirectoryLeaf
            | S::DirectoryLeafNode
            | S::DirectoryNode
            | S::DirectoryAnyIndex
            | S::DirectoryFreeIndex
    )
}

pub(super) fn length_bytes(structure: Structure, geometry: &Geometry) -> usize {
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
    if !known.contains(&true) {
        return None;
    }
    let context = VerifyContext::new(geometry, block.sector);
    let is_right = |bytes: &[u8]| {
        let found = structure_of(bytes, geometry);
        let found = found.filter(|found| is_of_directory(*found) == is_of_directory(block.structure));
        let found = found.filter(|found| owner_of(*found, bytes) == Some(block.inode.get()));
        found.is_some_and(|found| verify(found, bytes, &context).is_ok())
    };
    if is_right(&bytes) {
        return Some(bytes);
    }
    let mut logged = vec![0; bytes.len()];
    copies.read(block.sector.get(), &mut logged);
    let used = used_ranges(structure_of(&logged, geometry)?, &logged);
    if !used.into_iter().all(|range| is_known(&known, range)) {
        return None;
    }
    seal(&mut logged, None, geometry)?;
    is_right(&logged).then_some(logged)
}

fn is_known(known: &[bool], range: Range<usize>) -> bool {
    let chunks = range.start / CHUNK_BYTES..range.end.div_ceil(CHUNK_BYTES);
    range.is_empty() || known.get(chunks).is_some_and(|known| known.iter().all(|known| *known))
}

/// The bytes of a block that mean something.
fn used_ranges(structure: Structure, bytes: &[u8]) -> [Range<usize>; 2] {
    let half = |offset: usize| {
        let bytes = bytes.get(offset..).and_then(|rest| rest.first_chunk());
        bytes.map_or(usize::MAX, |bytes| usize::from(u16::from_be_bytes(*bytes)))
    };
    match structure {
        Structure::Symlink => {
            let length = bytes.get(8..).and_then(|rest| rest.first_chunk());
            let length = length.map_or(u32::MAX, |length| u32::from_be_bytes(*length)) as usize;
            [0..SYMLINK_HEADER_BYTES.saturating_add(length), 0..0]
        }
        Structure::AttributeLeaf => {
            let entries = half(LEAF_COUNT_BYTES).saturating_mul(LEAF_ENTRY_BYTES);
            let first_used = half(LEAF_FIRST_USED_BYTES);
            [0..LEAF_HEADER_BYTES.saturating_add(entries), first_used.min(bytes.len())..bytes.len()]
        }
        Structure::DirectoryNode | Structure::AttributeNode => {
            let entries = half(NODE_COUNT_BYTES).saturating_mul(NODE_ENTRY_BYTES);
            [0..NODE_HEADER_BYTES.saturating_add(entries), 0..0]
        }
        _ => [0..bytes.len(), 0..0],
    }
}

/// Blocks of directories may lie in several extents: these are not put together here.
pub(super) fn is_in_one_piece(volume: &Volume, block: &DamagedBlock, length_bytes: usize) -> bool {
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
