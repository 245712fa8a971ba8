//! All inodes of the file system by their chunks, whatever the inode btrees say: which are in use, and which are damaged.

use uxfs_block::device::ReadSegment;
use uxfs_format::{
    btree::inode_index::InodeChunk,
    checksum,
    field_table::OnDisk,
    geometry::{Geometry, INODES_PER_CHUNK},
    inode::{InodeCore, InodeFault, core, verify_inode},
    units::{AgBlock, AgNumber, InodeNumber, Sector},
};
use uxfs_volume::{error::Result, inode::Inode, volume::Volume};

use crate::repair::stage::Stage;

/// What there is at the place of an inode.
#[derive(Debug)]
pub(crate) enum Found {
    /// Sound and in use.
    InUse(Inode),
    /// In use and sound but for its checksum.
    WithoutChecksum(Inode),
    /// Sound and free.
    Free,
    /// No inode.
    Damaged(InodeFault),
}

/// An inode of a chunk.
#[derive(Debug)]
pub(crate) struct FoundInode {
    pub number: InodeNumber,
    /// Index in the chunk.
    pub index: u32,
    pub found: Found,
}

/// Visits all inodes of some chunks that exist, chunk by chunk. The chunks are read at once; an inode that cannot be read is damaged.
pub(crate) fn visit_chunks<'c>(
    volume: &Volume,
    group: AgNumber,
    chunks: &'c [InodeChunk],
    visit: &mut dyn FnMut(&'c InodeChunk, FoundInode),
) {
    let geometry = volume.geometry();
    let inode_bytes = geometry.inode_size().max(1);
    let chunk_bytes = inode_bytes * INODES_PER_CHUNK as usize;
    let mut bytes = vec![0; chunk_bytes * chunks.len()];
    let places: Vec<Option<u64>> =
        chunks.iter().map(|chunk| byte_of(geometry, geometry.inode_number(group, chunk.start))).collect();
    let mut segments: Vec<ReadSegment<'_>> = Vec::with_capacity(chunks.len());
    for (place, buffer) in places.iter().zip(bytes.chunks_exact_mut(chunk_bytes)) {
        segments.extend(place.map(|offset_bytes| ReadSegment { offset_bytes, buffer }));
    }
    let is_read = places.iter().all(Option::is_some) && volume.device().read_batch(&mut segments).is_ok();
    for (chunk, inodes) in chunks.iter().zip(bytes.chunks_exact_mut(chunk_bytes)) {
        for (index, inode) in (0..).zip(inodes.chunks_exact_mut(inode_bytes)) {
            if !chunk.exists(index) {
                continue;
            }
            let number = geometry.inode_number(group, chunk.inode(index));
            if !is_read {
                read_one(volume, number, inode);
            }
            visit(chunk, FoundInode { number, index, found: judge(inode, number, geometry) });
        }
    }
}

/// Visits one inode. One that cannot be read is damaged.
pub(crate) fn visit_inode(volume: &Volume, group: AgNumber, chunk: &InodeChunk, index: u32) -> FoundInode {
    let geometry = volume.geometry();
    let mut bytes = vec![0; geometry.inode_size()];
    let number = geometry.inode_number(group, chunk.inode(index));
    read_one(volume, number, &mut bytes);
    FoundInode { number, index, found: judge(&mut bytes, number, geometry) }
}

/// Reads an inode; zeros where that fails.
fn read_one(volume: &Volume, number: InodeNumber, bytes: &mut [u8]) {
    let place = byte_of(volume.geometry(), number);
    if place.is_none_or(|offset| volume.device().read(offset, bytes).is_err()) {
        bytes.fill(0);
    }
}

fn judge(bytes: &mut [u8], number: InodeNumber, geometry: &Geometry) -> Found {
    let decode = |bytes: &[u8], core: &InodeCore| Inode::decode(bytes, core, geometry);
    let fault = match verify_inode(bytes, number, geometry) {
        Ok(core) if core.is_free() => return Found::Free,
        Ok(core) => match decode(bytes, core) {
            Some(inode) => return Found::InUse(inode),
            None => InodeFault::FreeThoughIndexed,
        },
        Err(fault) => fault,
    };
    checksum::seal(bytes, core::CHECKSUM_OFFSET_BYTES);
    match verify_inode(bytes, number, geometry) {
        Ok(core) if core.is_free() => Found::Free,
        Ok(core) => decode(bytes, core).map_or(Found::Damaged(fault), Found::WithoutChecksum),
        Err(_) => Found::Damaged(fault),
    }
}

fn place_of(geometry: &Geometry, number: InodeNumber) -> Option<(Sector, u64)> {
    let place = geometry.inode_place(number)?;
    let sector = geometry.sector_of_group_block(place.group, AgBlock::new(place.block.get()))?;
    Some((sector, place.offset_bytes.into()))
}

/// The byte of the device where an inode begins.
pub(crate) fn byte_of(geometry: &Geometry, number: InodeNumber) -> Option<u64> {
    let (sector, offset_bytes) = place_of(geometry, number)?;
    Some(Geometry::byte_of_sector(sector) + offset_bytes)
}

/// Puts a free inode where another, or a damaged one, lies.
pub(crate) fn make_free(stage: &Stage, number: InodeNumber) -> Result<()> {
    let geometry = stage.geometry();
    change_core(stage, number, |core, forks| {
        // Handles of the inode that was here must not fit the next one.
        let generation = core.generation.get().wrapping_add(1);
        *core = uxfs_engine::inode::create::unused_core(number, generation, geometry);
        forks.fill(0);
    })
}

/// Changes the core of an inode in the stage, and makes its checksum right.
pub(crate) fn change_core(
    stage: &Stage,
    number: InodeNumber,
    change: impl FnOnce(&mut InodeCore, &mut [u8]),
) -> Result<()> {
    let geometry = stage.geometry();
    let Some((sector, offset_bytes)) = place_of(geometry, number) else { return Ok(()) };
    // Inodes lie in whole sectors.
    let sector = Sector::new(sector.get() + offset_bytes / 512);
    let mut bytes = vec![0; geometry.inode_size()];
    // What cannot be read is rewritten.
    let _ = stage.read_at(sector, &mut bytes);
    let Some((core_bytes, forks)) = bytes.split_at_mut_checked(InodeCore::SIZE_BYTES) else { return Ok(()) };
    if let Some(core) = InodeCore::prefix_of_mut(core_bytes) {
        change(core, forks);
    }
    checksum::seal(&mut bytes, core::CHECKSUM_OFFSET_BYTES);
    stage.write_at(sector, &bytes)
}

/// The bytes of an inode as they lie in the stage; zeros where they cannot be read.
pub(crate) fn read_inode(stage: &Stage, number: InodeNumber) -> Result<Vec<u8>> {
    let geometry = stage.geometry();
    let mut bytes = vec![0; geometry.inode_size()];
    if let Some((sector, offset_bytes)) = place_of(geometry, number) {
        let _ = stage.read_at(Sector::new(sector.get() + offset_bytes / 512), &mut bytes);
    }
    Ok(bytes)
}

/// Writes a whole inode, with the right checksum.
pub(crate) fn put_inode(stage: &Stage, number: InodeNumber, bytes: &[u8]) -> Result<()> {
    change_core(stage, number, |core, forks| {
        if let Some(new) = InodeCore::prefix_of(bytes) {
            *core = *new;
        }
        if let Some(contents) = bytes.get(InodeCore::SIZE_BYTES..InodeCore::SIZE_BYTES + forks.len()) {
            forks.copy_from_slice(contents);
        }
    })
}
