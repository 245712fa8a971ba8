//! Batches that are read past the cache, planned as the cache plans its own.
//!
//! The scan of all inodes and the replay of a log read many ranges at once into memory of their own. What lies between the
//! ranges is read and thrown away where that takes less time than further requests, as
//! [`readahead`](super::readahead) measures it.

use std::time::Instant;

use super::{load::gaps_to_read, readahead::Planner};
use crate::device::{BlockDevice, DeviceError, ReadSegment, batch_bytes, contiguous_runs};

/// Memory for what lies between wanted ranges.
const MAX_GAPS_BYTES: u64 = 1 << 20;

/// Reads batches from one device, for one thread.
#[derive(Debug)]
pub struct BatchReader {
    planner: Planner,
    gaps: Vec<u8>,
}

impl Default for BatchReader {
    fn default() -> Self {
        Self { planner: Planner::new(None), gaps: Vec::new() }
    }
}

impl BatchReader {
    /// Reads all segments, which are in the order of their offsets.
    ///
    /// # Errors
    /// The device failed: of some segments, or of what lies between them.
    pub fn read<'a>(
        &'a mut self,
        device: &dyn BlockDevice,
        segments: &mut Vec<ReadSegment<'a>>,
    ) -> Result<(), DeviceError> {
        let buffers = segments.len();
        let ranges = segments.iter().map(|segment| (segment.offset_bytes, segment.buffer.len() as u64));
        let gaps = gaps_to_read(segments, self.planner.gap_limit_bytes(ranges), MAX_GAPS_BYTES);
        let gap_bytes = gaps.iter().map(|gap| u64::from(gap.length_bytes)).sum();
        if !gaps.is_empty() {
            self.gaps.resize(gap_bytes as usize, 0);
            let mut rest = self.gaps.as_mut_slice();
            for gap in gaps {
                let (buffer, after) = rest.split_at_mut(gap.length_bytes as usize);
                segments.push(ReadSegment { offset_bytes: gap.offset_bytes, buffer });
                rest = after;
            }
            segments.sort_unstable_by_key(|segment| segment.offset_bytes);
        }
        let (requests, bytes) = (contiguous_runs(segments).count() as u64, batch_bytes(segments));
        let begun = Instant::now();
        device.read_batch(segments)?;
        self.planner.observe(buffers, requests, bytes, gap_bytes, begun.elapsed());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::engine::{counting::CountingDevice, memory::MemoryDevice};

    #[test]
    fn what_is_read_through_gaps_is_what_was_wanted() {
        let bytes: Vec<u8> = (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect();
        let device = CountingDevice::new(MemoryDevice::new(bytes.clone()));
        let mut reader = BatchReader::default();
        // The first batches are read in either way in turn.
        for round in 0..6_usize {
            let mut buffers = vec![[0_u8; 512]; 40];
            let offset = |index: usize| (index * 2048 + round * 512) as u64;
            let mut segments: Vec<_> = (0..)
                .zip(&mut buffers)
                .map(|(index, buffer)| ReadSegment { offset_bytes: offset(index), buffer })
                .collect();
            reader.read(&device, &mut segments).unwrap();
            drop(segments);
            for (index, buffer) in buffers.iter().enumerate() {
                let start = offset(index) as usize;
                assert_eq!(buffer.as_slice(), bytes.get(start..start + 512).unwrap());
            }
        }
        let counters = device.counters();
        assert_eq!(counters.read_batches, 6);
        assert!(counters.read_requests < 6 * 40, "some batches are read through the gaps: {counters:?}");
        assert!(counters.read_bytes > 6 * 40 * 512);
    }
}
