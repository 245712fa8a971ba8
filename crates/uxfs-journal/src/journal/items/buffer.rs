//! Buffers.

use uxfs_block::cache::Piece;
use uxfs_format::{
    edit::DirtyMap,
    fault::Structure,
    geometry::Geometry,
    log::{
        buffer_item::{BufferContents, BufferFlags, BufferFormat, CHUNK_SIZE_BYTES, buffer_flags},
        item::ItemType,
    },
    seal::seal,
    units::SECTOR_SIZE_BYTES,
};
use zerocopy::IntoBytes;

use super::RegionSink;

/// The longest buffer that an item can name.
const MAX_BYTES: u32 = 64 << 10;
/// Words of its bitmap.
const MAX_MAP_WORDS: usize = (MAX_BYTES / CHUNK_SIZE_BYTES / 32) as usize;

/// The header of a BUF with its bitmap.
struct Header {
    format: BufferFormat,
    map: [u32; MAX_MAP_WORDS],
}

impl Header {
    fn new(piece: Piece, flags: u16) -> Self {
        let sectors = u64::from(piece.length_bytes) / SECTOR_SIZE_BYTES;
        let words = piece.length_bytes.div_ceil(CHUNK_SIZE_BYTES * 32).clamp(1, MAX_MAP_WORDS as u32);
        let format = BufferFormat {
            kind: ItemType::Buffer.raw().into(),
            region_count: 1.into(),
            flags: flags.into(),
            length_sectors: (sectors as u16).into(),
            sector: (piece.offset_bytes / SECTOR_SIZE_BYTES).cast_signed().into(),
            map_words: words.into(),
        };
        Self { format, map: [0; MAX_MAP_WORDS] }
    }

    fn mark(&mut self, chunk: u32) {
        if let Some(word) = self.map.get_mut((chunk / 32) as usize) {
            *word |= 1 << (chunk % 32);
        }
    }

    fn write(&self, sink: &mut impl RegionSink) {
        let words = self.format.map_words.get() as usize;
        let mut region = [0; 20 + 4 * MAX_MAP_WORDS];
        let (head, map) = region.split_at_mut(20);
        head.copy_from_slice(self.format.as_bytes());
        for (bytes, word) in map.chunks_exact_mut(4).zip(self.map) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        sink.region(region.get(..20 + 4 * words).unwrap_or_default());
    }
}

/// The changed runs of a buffer: one item for each of its pieces that has any.
pub fn log_buffer(
    contents: BufferContents,
    pieces: &[Piece],
    bytes: &[u8],
    changes: &DirtyMap,
    sink: &mut impl RegionSink,
) {
    let mut offset = 0_u32;
    for piece in pieces {
        let end = offset + piece.length_bytes;
        let in_piece = changes.ranges().filter_map(|(start, length)| {
            let (first, last) = (start.max(offset), (start + length).min(end));
            (first < last).then_some((first, last))
        });
        let mut header = Header::new(*piece, buffer_flags(BufferFlags::empty(), contents));
        let mut runs = 0_u16;
        for (first, last) in in_piece.clone() {
            runs += 1;
            (first - offset..last - offset)
                .step_by(CHUNK_SIZE_BYTES as usize)
                .for_each(|at| header.mark(at / CHUNK_SIZE_BYTES));
        }
        if runs > 0 {
            header.format.region_count = (runs + 1).into();
            header.write(sink);
            for (first, last) in in_piece {
                sink.content(bytes.get(first as usize..last as usize).unwrap_or_default());
            }
        }
        offset = end;
    }
}

/// As [`log_buffer`], for a buffer in several pieces. Replay has no whole to seal: so the checksum of the whole as it
/// is now is logged with every change, and is right when all of them have been replayed.
pub fn log_pieces(
    contents: BufferContents,
    pieces: &[Piece],
    bytes: &[u8],
    mut changes: DirtyMap,
    geometry: &Geometry,
    sink: &mut impl RegionSink,
) {
    let mut sealed = bytes.to_vec();
    seal(&mut sealed, None, geometry);
    // Every header begins with it.
    changes.mark(0, CHUNK_SIZE_BYTES);
    log_buffer(contents, pieces, &sealed, &changes, sink);
}

/// Says that what lay here has been freed: older changes of it must not be replayed. Of more than the log can name in one
/// item there are none: that was (a piece of) a value of an attribute, which is written back and not logged.
pub fn log_cancel(piece: Piece, sink: &mut impl RegionSink) {
    if piece.length_bytes > MAX_BYTES {
        return;
    }
    Header::new(piece, BufferFlags::CANCEL.bits()).write(sink);
}

/// Logs the next inode in the unlinked list (`di_next_unlinked`) of those inodes of a cluster whose first byte is in `inodes`.
pub fn log_next_unlinked(
    piece: Piece,
    bytes: &[u8],
    inodes: impl Iterator<Item = u32> + Clone,
    sink: &mut impl RegionSink,
) {
    let mut header = Header::new(piece, buffer_flags(BufferFlags::INODES, BufferContents::Inodes));
    let mut runs = 0_u16;
    for first in inodes.clone() {
        header.mark(first / CHUNK_SIZE_BYTES);
        runs += 1;
    }
    if runs == 0 {
        return;
    }
    header.format.region_count = (runs + 1).into();
    header.write(sink);
    for first in inodes {
        let first = first as usize;
        sink.content(bytes.get(first..first + CHUNK_SIZE_BYTES as usize).unwrap_or_default());
    }
}

/// Whether a buffer of this structure is written back before the checkpoint that refers to it, instead of being logged.
pub fn is_ordered(structure: Structure) -> bool {
    structure == Structure::AttributeRemoteValue
}
