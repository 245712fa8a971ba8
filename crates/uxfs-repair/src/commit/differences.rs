//! The sectors in which two devices differ. A sector that only the new one can read differs.

use std::ops::Range;

use uxfs_block::{
    device::{BlockDevice, DeviceError, DeviceOperation},
    engine::unreadable::{is_filler, read_or_fill},
};

use super::{PIECE_BYTES, Result, SECTOR_BYTES};

/// Neighbouring sectors that differ.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference<'a> {
    pub offset_bytes: u64,
    pub old: &'a [u8],
    pub new: &'a [u8],
}

/// Runs of sectors that differ, in ascending order, none longer than a piece.
#[derive(Debug)]
pub struct Differences<'a> {
    old_device: &'a dyn BlockDevice,
    new_device: &'a dyn BlockDevice,
    ranges: std::vec::IntoIter<Range<u64>>,
    /// Sectors that are given whether they differ or not, in ascending order.
    watched: Vec<Range<u64>>,
    /// What of the range at hand has not been read.
    rest: Range<u64>,
    /// Where the piece at hand begins.
    start_bytes: u64,
    old: Vec<u8>,
    new: Vec<u8>,
    /// How much of the piece has been looked at.
    seen: usize,
}

impl<'a> Differences<'a> {
    /// In `ranges`, which may overlap, from `least_bytes` on; each is widened to whole sectors.
    ///
    /// # Errors
    /// A range ends behind the device.
    pub fn new(
        old_device: &'a dyn BlockDevice,
        new_device: &'a dyn BlockDevice,
        ranges: &[Range<u64>],
        least_bytes: u64,
    ) -> Result<Self> {
        Self::with_watched(old_device, new_device, ranges, &[], least_bytes)
    }

    /// As [`new`](Self::new); the sectors in `watched` are given as well, whether they differ or not.
    ///
    /// # Errors
    /// As there.
    pub fn with_watched(
        old_device: &'a dyn BlockDevice,
        new_device: &'a dyn BlockDevice,
        ranges: &[Range<u64>],
        watched: &[Range<u64>],
        least_bytes: u64,
    ) -> Result<Self> {
        let size_bytes = old_device.size_bytes();
        let ranges = [ranges, watched].concat();
        if let Some(range) = ranges.iter().find(|range| !range.is_empty() && range.end > size_bytes) {
            let length_bytes = range.end - range.start;
            return Err(DeviceError::outside(DeviceOperation::Read, range.start, length_bytes).into());
        }
        Ok(Self {
            old_device,
            new_device,
            ranges: normalise(&ranges, least_bytes..size_bytes).into_iter(),
            watched: normalise(watched, least_bytes..size_bytes),
            rest: 0..0,
            start_bytes: 0,
            old: Vec::new(),
            new: Vec::new(),
            seen: 0,
        })
    }

    /// The next run.
    ///
    /// # Errors
    /// A device fails.
    pub fn next(&mut self) -> Result<Option<Difference<'_>>> {
        let run = loop {
            if let Some(run) = self.next_run() {
                break run;
            }
            if !self.load()? {
                return Ok(None);
            }
        };
        self.seen = run.end;
        let offset_bytes = self.start_bytes.saturating_add(run.start as u64);
        let old = self.old.get(run.clone()).unwrap_or_default();
        let new = self.new.get(run).unwrap_or_default();
        Ok(Some(Difference { offset_bytes, old, new }))
    }

    /// The next sectors of the piece that differ.
    fn next_run(&self) -> Option<Range<usize>> {
        let sectors = |bytes: &'_ [u8]| bytes.len().div_ceil(SECTOR_BYTES);
        let old = self.old.get(self.seen..)?;
        let new = self.new.get(self.seen..)?;
        let offsets = (self.start_bytes.saturating_add(self.seen as u64)..).step_by(SECTOR_BYTES);
        let pairs = || old.chunks(SECTOR_BYTES).zip(new.chunks(SECTOR_BYTES)).zip(offsets.clone());
        let differs = || pairs().map(|((old, new), offset)| old != new || self.is_watched(offset));
        let first = differs().position(|differs| differs)?;
        let count = differs().skip(first).position(|differs| !differs).unwrap_or(sectors(old) - first);
        let start = self.seen + first * SECTOR_BYTES;
        Some(start..(start + count * SECTOR_BYTES).min(self.old.len()))
    }

    fn is_watched(&self, offset_bytes: u64) -> bool {
        let behind = self.watched.partition_point(|range| range.end <= offset_bytes);
        self.watched.get(behind).is_some_and(|range| range.contains(&offset_bytes))
    }

    /// Reads the next piece; `false` where there is none.
    fn load(&mut self) -> Result<bool> {
        while self.rest.is_empty() {
            match self.ranges.next() {
                Some(range) => self.rest = range,
                None => return Ok(false),
            }
        }
        self.start_bytes = self.rest.start;
        let length = (self.rest.end - self.rest.start).min(PIECE_BYTES.into());
        self.rest.start += length;
        // No more than a piece.
        let length = usize::try_from(length).unwrap_or_default();
        self.old.resize(length, 0);
        self.new.resize(length, 0);
        let _ = read_or_fill(self.old_device, self.start_bytes, &mut self.old)?;
        if let Some(error) = read_or_fill(self.new_device, self.start_bytes, &mut self.new)? {
            let mut sectors = self.old.chunks(SECTOR_BYTES).zip(self.new.chunks(SECTOR_BYTES));
            if sectors.any(|(old, new)| is_filler(new) && !is_filler(old)) {
                return Err(error.into());
            }
        }
        keep_unknown(&self.old, &mut self.new);
        self.seen = 0;
        Ok(true)
    }
}

/// Sectors that could not be read when the new contents were made, and that nothing was written to, stay as they are.
pub fn keep_unknown(old: &[u8], new: &mut [u8]) {
    for (old, new) in old.chunks(SECTOR_BYTES).zip(new.chunks_mut(SECTOR_BYTES)) {
        if is_filler(new) {
            new.copy_from_slice(old);
        }
    }
}

/// Whole sectors, in ascending order, neighbours as one, within `limits`.
fn normalise(ranges: &[Range<u64>], limits: Range<u64>) -> Vec<Range<u64>> {
    let sector = SECTOR_BYTES as u64;
    let widened = ranges.iter().filter(|range| !range.is_empty()).map(|range| {
        let start = range.start - range.start % sector;
        let end = range.end.checked_next_multiple_of(sector).unwrap_or(u64::MAX);
        start.max(limits.start)..end.min(limits.end)
    });
    let mut sorted: Vec<_> = widened.filter(|range| !range.is_empty()).collect();
    sorted.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Counts the sectors that differ, and the ranges that they form, over contents that come in ascending order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub changed_bytes: u64,
    pub ranges: u64,
    end_bytes: Option<u64>,
}

impl Totals {
    /// Adds what differs.
    pub fn add(&mut self, offset_bytes: u64, old: &[u8], new: &[u8]) {
        let mut offset_bytes = offset_bytes;
        for (old, new) in old.chunks(SECTOR_BYTES).zip(new.chunks(SECTOR_BYTES)) {
            let end_bytes = offset_bytes.saturating_add(old.len() as u64);
            if old != new {
                self.changed_bytes = self.changed_bytes.saturating_add(old.len() as u64);
                self.ranges += u64::from(self.end_bytes != Some(offset_bytes));
                self.end_bytes = Some(end_bytes);
            }
            offset_bytes = end_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::reversed_empty_ranges, clippy::single_range_in_vec_init)]
    fn ranges_are_whole_sectors_in_order_and_within_limits() {
        let all = 0..10_000;
        assert_eq!(normalise(&[1000..1001, 0..1, 600..700], all.clone()), [0..1024]);
        assert_eq!(normalise(&[2048..4096, 0..512, 100..600], all.clone()), [0..1024, 2048..4096]);
        assert_eq!(normalise(&[0..100, 9_999..10_000], 512..10_000), [9728..10_000]);
        assert_eq!(normalise(&[0..u64::MAX], all.clone()), [0..10_000]);
        assert_eq!(normalise(&[700..700, 900..800], all), []);
    }
}
