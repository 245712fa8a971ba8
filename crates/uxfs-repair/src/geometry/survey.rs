//! One pass over a device whose geometry is not known.

use std::ops::Range;

use uxfs_block::device::BlockDevice;
use uxfs_format::units::SECTOR_SIZE_BYTES;

use super::look::{Structure, look};

const SECTOR_BYTES: usize = SECTOR_SIZE_BYTES as usize;
/// Bytes that are looked at in one step.
const PIECE_BYTES: usize = 1 << 20;
/// A structure that begins in a piece may reach so far behind it.
const LONGEST_BYTES: usize = 1 << 16;
/// Where a piece cannot be read, so many bytes are tried at once.
const PART_BYTES: usize = 1 << 16;
/// Of a device with more bytes every second, third, … piece is read.
pub(super) const MOST_BYTES: u64 = 16 << 30;
/// Structures with wrong checksums in a piece: computing checksums of all possible sizes takes time.
const MOST_WRONG: u32 = 256;

/// What a sector is.
pub(super) enum Looked {
    /// Nothing that is known.
    Nothing,
    /// Its checksum is wrong for every size.
    Wrong,
    /// A structure of so many bytes.
    Bytes(usize),
}

/// Shows every sound structure that begins in a range.
pub(crate) fn survey(device: &dyn BlockDevice, range: Range<u64>, found: &mut dyn FnMut(&Structure<'_>)) {
    let end = range.end.min(device.size_bytes());
    let stride = end.saturating_sub(range.start).div_ceil(MOST_BYTES).max(1);
    let mut bytes = vec![0; PIECE_BYTES + LONGEST_BYTES];
    let zeros = vec![0; bytes.len()];
    let step = (PIECE_BYTES as u64).saturating_mul(stride);
    let mut start = range.start / SECTOR_SIZE_BYTES * SECTOR_SIZE_BYTES;
    while start < end {
        let left = usize::try_from(device.size_bytes() - start).unwrap_or(usize::MAX);
        let piece = bytes.get_mut(..left.min(PIECE_BYTES + LONGEST_BYTES)).unwrap_or_default();
        read(device, start, piece);
        if zeros.get(..piece.len()) != Some(&*piece) {
            look_at_piece(start, piece, end, found);
        }
        start = start.saturating_add(step);
    }
}

/// Reads what can be read; the rest is zeros.
fn read(device: &dyn BlockDevice, start: u64, piece: &mut [u8]) {
    if device.read(start, piece).is_ok() {
        return;
    }
    for (index, part) in piece.chunks_mut(PART_BYTES).enumerate() {
        if device.read(start + (index * PART_BYTES) as u64, part).is_err() {
            part.fill(0);
        }
    }
}

fn look_at_piece(start: u64, piece: &[u8], end: u64, found: &mut dyn FnMut(&Structure<'_>)) {
    let mut wrong = 0;
    let mut offset = 0;
    while offset < PIECE_BYTES.min(piece.len()) && start + (offset as u64) < end {
        let bytes = piece.get(offset..).unwrap_or_default();
        let bytes = bytes.get(..LONGEST_BYTES.min(bytes.len())).unwrap_or_default();
        offset += match look(start + offset as u64, bytes, wrong < MOST_WRONG, found) {
            Looked::Bytes(length) => length.max(SECTOR_BYTES),
            Looked::Wrong => {
                wrong += 1;
                SECTOR_BYTES
            }
            Looked::Nothing => SECTOR_BYTES,
        };
    }
}
