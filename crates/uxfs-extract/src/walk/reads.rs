//! File data from the image into a chunk.

use std::ops::Range;

use uxfs_block::device::{BlockDevice, ReadSegment};
use uxfs_volume::volume::Volume;
use uxfs_volume::{error::Result, inode::Inode};

use crate::{
    chunk::{Buffer, PendingRead},
    layout::FileRange,
    report::{Aspect, Problem, Severity},
};

/// Smallest piece that is tried alone when a larger read has failed.
const SALVAGE_BYTES: usize = 4096;

/// Plans the reads for a range of a file whose bytes will lie in `span`. What is a hole within it is made zero now.
///
/// # Errors
/// The extent map is damaged: then all is made zero.
pub fn plan(
    filesystem: &Volume,
    inode: &Inode,
    range: FileRange,
    span: Range<usize>,
    task: usize,
    bytes: &mut Buffer,
    reads: &mut Vec<PendingRead>,
) -> Result<()> {
    let place = |offset_bytes: u64| {
        span.start.saturating_add(offset_bytes.saturating_sub(range.offset_bytes) as usize)
    };
    let end = range.end_bytes();
    let mut position = range.offset_bytes;
    let ranges = filesystem.data_ranges_between(inode, position, end);
    for data in ranges.iter().flat_map(Clone::clone) {
        bytes.span_mut(place(position)..place(data.offset_bytes)).fill(0);
        reads.push(PendingRead {
            device_offset_bytes: data.device_offset_bytes,
            span: place(data.offset_bytes)..place(data.end_bytes()),
            file_offset_bytes: data.offset_bytes,
            task,
        });
        position = data.end_bytes();
    }
    bytes.span_mut(place(position)..place(end)).fill(0);
    ranges.map(|_| ())
}

/// Carries out all reads, which must ascend in the chunk. What cannot be read becomes zeros; `damaged` hears of each such
/// piece.
pub fn execute(
    device: &dyn BlockDevice,
    reads: &[PendingRead],
    bytes: &mut Buffer,
    mut damaged: impl FnMut(&PendingRead, Problem),
) {
    let mut segments = Vec::with_capacity(reads.len());
    let mut consumed = 0;
    let mut rest = bytes.span_mut(0..bytes.len());
    for read in reads {
        let Some((_, from_here)) = rest.split_at_mut_checked(read.span.start.saturating_sub(consumed)) else {
            break;
        };
        let Some((buffer, after)) = from_here.split_at_mut_checked(read.span.len()) else { break };
        segments.push(ReadSegment { offset_bytes: read.device_offset_bytes, buffer });
        consumed = read.span.end;
        rest = after;
    }
    if device.read_batch(&mut segments).is_ok() {
        return;
    }
    for (read, segment) in reads.iter().zip(&mut segments) {
        if let Some(lost) = salvage(device, segment) {
            let first = read.file_offset_bytes.saturating_add(lost.first_bytes);
            let reason = format!(
                "{} bytes replaced by zeros, the first at byte {first}: {}",
                lost.count_bytes, lost.reason
            );
            damaged(read, Problem::new(b"", Severity::Failed, Aspect::Contents, reason));
        }
    }
}

/// A part of a segment that could not be read.
struct Lost {
    count_bytes: usize,
    /// Where the first of them is.
    first_bytes: u64,
    reason: String,
}

/// Reads what can be read, a small piece at a time.
fn salvage(device: &dyn BlockDevice, segment: &mut ReadSegment<'_>) -> Option<Lost> {
    if device.read(segment.offset_bytes, segment.buffer).is_ok() {
        return None;
    }
    let mut lost: Option<Lost> = None;
    for (index, piece) in segment.buffer.chunks_mut(SALVAGE_BYTES).enumerate() {
        let first_bytes = (index * SALVAGE_BYTES) as u64;
        if let Err(error) = device.read(segment.offset_bytes.saturating_add(first_bytes), piece) {
            piece.fill(0);
            let lost =
                lost.get_or_insert_with(|| Lost { count_bytes: 0, first_bytes, reason: error.to_string() });
            lost.count_bytes += piece.len();
        }
    }
    lost
}

#[cfg(test)]
#[path = "reads_tests.rs"]
mod tests;
