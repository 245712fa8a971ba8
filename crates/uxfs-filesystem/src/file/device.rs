//! Contents on the device, whatever alignment it wants.

use uxfs_block::{
    aligned_buffer::AlignedBuffer,
    contents_io::assert_outside_transaction,
    device::{Alignment, DeviceError, DeviceOperation, WriteSegment},
};
use uxfs_format::{geometry::Geometry, units::FsBlock};

use uxfs_volume::{
    error::{OperationError, Result},
    volume::Volume,
};

/// As many as one block can have.
pub(super) static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Bytes that are put together at once for a device that takes only aligned memory.
const PIECE_BYTES: u64 = 1 << 20;

/// Writes contents of files to the device of a volume.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContentsWriter<'v> {
    volume: &'v Volume,
}

impl<'v> ContentsWriter<'v> {
    pub fn new(volume: &'v Volume) -> Self {
        Self { volume }
    }

    /// Writes contents from `skipped_bytes` behind the beginning of a block on.
    pub fn write_in_place(self, start: FsBlock, skipped_bytes: u64, bytes: &[u8]) -> Result<()> {
        self.write_parts(start, skipped_bytes, [&[], bytes, &[]])
    }

    /// Writes whole blocks: what comes before the contents, the contents, what comes behind them.
    pub fn write_blocks(self, start: FsBlock, parts: [&[u8]; 3]) -> Result<()> {
        self.write_parts(start, 0, parts)
    }

    fn write_parts(self, start: FsBlock, skipped_bytes: u64, parts: [&[u8]; 3]) -> Result<()> {
        assert_outside_transaction("writes file contents");
        let sector = self.volume.geometry().sector_of_block(start).ok_or(OperationError::NoSuchGroup)?;
        let mut offset_bytes = Geometry::byte_of_sector(sector).saturating_add(skipped_bytes);
        let device = self.volume.device();
        let alignment = device.alignment();
        if alignment != Alignment::NONE && !are_aligned(offset_bytes, parts, alignment) {
            return self.write_through_buffer(offset_bytes, parts, alignment);
        }
        let segments = parts.map(|bytes| {
            let segment = WriteSegment { offset_bytes, bytes };
            offset_bytes = offset_bytes.saturating_add(bytes.len() as u64);
            segment
        });
        match segments.each_ref().map(|segment| !segment.bytes.is_empty()) {
            [false, false, false] => Ok(()),
            [false, true, false] => Ok(device.write(segments[1].offset_bytes, segments[1].bytes)?),
            [head, _, tail] => {
                let range = usize::from(!head)..segments.len() - usize::from(!tail);
                Ok(device.write_batch(segments.get(range).unwrap_or_default())?)
            }
        }
    }

    /// Puts the bytes together in aligned memory, with what the device has around them.
    #[cold]
    fn write_through_buffer(self, offset_bytes: u64, parts: [&[u8]; 3], alignment: Alignment) -> Result<()> {
        let device = self.volume.device();
        let unit = u64::from(alignment.offset_bytes.max(1));
        let length_bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let end_bytes = offset_bytes + length_bytes;
        let last_bytes = end_bytes.next_multiple_of(unit);
        let mut at = offset_bytes - offset_bytes % unit;
        while at < last_bytes {
            let piece_end = (at + PIECE_BYTES.next_multiple_of(unit)).min(last_bytes);
            let length = (piece_end - at) as usize;
            let mut buffer = AlignedBuffer::page_aligned(length).map_err(|source| DeviceError {
                operation: DeviceOperation::Write,
                offset_bytes: at,
                length_bytes: length as u64,
                source,
            })?;
            if at < offset_bytes || piece_end > end_bytes {
                device.read(at, &mut buffer)?;
            }
            let mut part_start = offset_bytes;
            for part in parts {
                copy_overlap(&mut buffer, at, part, part_start);
                part_start += part.len() as u64;
            }
            device.write(at, &buffer)?;
            at = piece_end;
        }
        Ok(())
    }
}

fn are_aligned(offset_bytes: u64, parts: [&[u8]; 3], alignment: Alignment) -> bool {
    let (unit, memory) = (alignment.offset_bytes.max(1) as usize, alignment.memory_bytes.max(1) as usize);
    let is_aligned = |part: &&[u8]| {
        part.is_empty() || (part.len().is_multiple_of(unit) && part.as_ptr().addr().is_multiple_of(memory))
    };
    offset_bytes.is_multiple_of(unit as u64) && parts.iter().all(is_aligned)
}

/// Copies what two ranges have in common.
fn copy_overlap(target: &mut [u8], target_start: u64, source: &[u8], source_start: u64) {
    let start = target_start.max(source_start);
    let end = (target_start + target.len() as u64).min(source_start + source.len() as u64);
    if start >= end {
        return;
    }
    let target = target.get_mut((start - target_start) as usize..(end - target_start) as usize);
    let source = source.get((start - source_start) as usize..(end - source_start) as usize);
    if let (Some(target), Some(source)) = (target, source) {
        target.copy_from_slice(source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ranges_have_in_common_is_copied() {
        let mut target = [9; 6];
        copy_overlap(&mut target, 10, &[1, 2, 3, 4], 8);
        assert_eq!(target, [3, 4, 9, 9, 9, 9]);
        copy_overlap(&mut target, 10, &[7, 7], 14);
        copy_overlap(&mut target, 10, &[5], 16);
        copy_overlap(&mut target, 10, &[], 12);
        assert_eq!(target, [3, 4, 9, 9, 7, 7]);
    }
}
