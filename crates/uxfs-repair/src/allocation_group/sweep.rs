//! Reads blocks of a group one after the other, whatever lies in them.

use uxfs_format::{
    geometry::Geometry,
    units::{AgBlock, AgNumber},
};
use uxfs_volume::volume::Volume;

/// Bytes that are read at once.
const PIECE_BYTES: u32 = 1 << 20;

/// Gives `visit` each block of these runs (first block, block behind the last) with its bytes. A block that cannot be read is zeros.
pub(crate) fn sweep(
    volume: &Volume,
    group: AgNumber,
    runs: &[(AgBlock, AgBlock)],
    visit: &mut dyn FnMut(AgBlock, &[u8]),
) {
    let geometry = volume.geometry();
    let piece_blocks = (PIECE_BYTES >> geometry.block_log).max(1);
    let mut bytes = vec![0; (piece_blocks as usize) << geometry.block_log];
    let pieces = runs.iter().flat_map(|(start, end)| {
        let starts = (start.get()..end.get()).step_by(piece_blocks as usize);
        starts.map(move |start| (start, piece_blocks.min(end.get().saturating_sub(start))))
    });
    for (start, count) in pieces {
        let length = (count as usize) << geometry.block_log;
        let Some(piece) = bytes.get_mut(..length) else { continue };
        if !read(volume, group, AgBlock::new(start), piece) {
            continue;
        }
        let blocks = piece.chunks_exact(geometry.block_size().max(1));
        for (block, bytes) in (start..).zip(blocks) {
            visit(AgBlock::new(block), bytes);
        }
    }
}

/// Reads blocks; where that fails, those that can be read, with zeros for the others.
fn read(volume: &Volume, group: AgNumber, start: AgBlock, bytes: &mut [u8]) -> bool {
    let geometry = volume.geometry();
    let Some(sector) = geometry.sector_of_group_block(group, start) else { return false };
    let (device, offset) = (volume.device(), Geometry::byte_of_sector(sector));
    if device.read(offset, bytes).is_ok() {
        return true;
    }
    let block_bytes = geometry.block_size().max(1);
    for (index, block) in (0_u64..).zip(bytes.chunks_exact_mut(block_bytes)) {
        if device.read(offset + index * block_bytes as u64, block).is_err() {
            block.fill(0);
        }
    }
    true
}
