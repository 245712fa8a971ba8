//! Where a file has data and where holes.

/// Bytes of a file that hold data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRange {
    /// First byte in the file.
    pub offset_bytes: u64,
    /// How many.
    pub length_bytes: u64,
}

impl FileRange {
    /// The byte behind the last.
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.length_bytes)
    }
}

/// Most ranges that a layout keeps apart. Files with more holes get their smallest holes filled with zeros: the
/// contents stay the same and memory bounded.
pub const MAX_RANGES: usize = 1 << 16;

/// Size and data ranges of a file: ascending, apart from each other, within the size.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileLayout {
    size_bytes: u64,
    ranges: Vec<FileRange>,
}

impl FileLayout {
    /// Layout of a file of `size_bytes`, all hole until ranges are added.
    pub fn new(size_bytes: u64) -> Self {
        Self { size_bytes, ranges: Vec::new() }
    }

    /// Makes it the layout of another file, keeping the memory.
    pub fn reset(&mut self, size_bytes: u64) {
        self.size_bytes = size_bytes;
        self.ranges.clear();
    }

    /// Adds a range of data behind the earlier ones. What lies beyond the size, or before the end of the last range, is
    /// left out; a hole shorter than `smallest_hole_bytes` in between becomes data.
    pub fn push(&mut self, range: FileRange, smallest_hole_bytes: u64) {
        let covered = self.ranges.last().map_or(0, FileRange::end_bytes);
        let start = range.offset_bytes.max(covered);
        let end = range.end_bytes().min(self.size_bytes);
        if start >= end {
            return;
        }
        match self.ranges.last_mut() {
            Some(last) if start == covered || start.saturating_sub(covered) < smallest_hole_bytes => {
                last.length_bytes = end.saturating_sub(last.offset_bytes);
            }
            _ => self.ranges.push(FileRange { offset_bytes: start, length_bytes: end.saturating_sub(start) }),
        }
    }

    /// Size of the file.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The data ranges.
    pub fn ranges(&self) -> &[FileRange] {
        &self.ranges
    }

    /// Bytes of data in all ranges.
    pub fn data_bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.length_bytes).sum()
    }

    /// Whether anything of the file is a hole.
    pub fn has_holes(&self) -> bool {
        self.data_bytes() != self.size_bytes
    }
}

/// Finds how long a hole must be to be kept when a file has too many: counts holes by their power of two.
#[derive(Debug, Clone)]
pub struct HoleHistogram {
    counts: [u64; 64],
}

impl HoleHistogram {
    /// No holes yet.
    pub fn new() -> Self {
        Self { counts: [0; 64] }
    }

    /// Counts a hole.
    pub fn add(&mut self, length_bytes: u64) {
        if let Some(count) =
            length_bytes.checked_ilog2().and_then(|power| self.counts.get_mut(power as usize))
        {
            *count = count.saturating_add(1);
        }
    }

    /// The shortest hole to keep, so that fewer than [`MAX_RANGES`] remain; 0 keeps all.
    pub fn smallest_hole_bytes(&self) -> u64 {
        let mut kept: u64 = 0;
        for (power, count) in self.counts.iter().enumerate().rev() {
            kept = kept.saturating_add(*count);
            if kept >= MAX_RANGES as u64 {
                return 1_u64.checked_shl(power as u32 + 1).unwrap_or(u64::MAX);
            }
        }
        0
    }
}

impl Default for HoleHistogram {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(offset_bytes: u64, length_bytes: u64) -> FileRange {
        FileRange { offset_bytes, length_bytes }
    }

    #[test]
    fn neighbours_merge_and_the_size_cuts() {
        let mut layout = FileLayout::new(10_000);
        layout.push(range(0, 4096), 0);
        layout.push(range(4096, 4096), 0);
        layout.push(range(8192, 4096), 0);
        layout.push(range(16_384, 4096), 0);
        assert_eq!(layout.ranges(), [range(0, 10_000)]);
        assert!(!layout.has_holes());
    }

    #[test]
    fn overlaps_are_cut_and_short_holes_filled() {
        let mut layout = FileLayout::new(1 << 20);
        layout.push(range(0, 8192), 0);
        layout.push(range(4096, 8192), 0);
        assert_eq!(layout.ranges(), [range(0, 12_288)]);
        layout.push(range(16_384, 4096), 8192);
        assert_eq!(layout.ranges(), [range(0, 20_480)]);
        layout.push(range(28_672, 4096), 8192);
        assert_eq!(layout.ranges(), [range(0, 20_480), range(28_672, 4096)]);
        assert!(layout.has_holes());
    }

    #[test]
    fn a_file_without_data_is_a_hole() {
        assert!(FileLayout::new(1).has_holes());
        assert!(!FileLayout::new(0).has_holes());
    }

    #[test]
    fn too_many_holes_lose_the_shortest() {
        let mut histogram = HoleHistogram::new();
        for _ in 0..MAX_RANGES - 1 {
            histogram.add(1 << 20);
        }
        assert_eq!(histogram.smallest_hole_bytes(), 0);
        for _ in 0..100_000 {
            histogram.add(4096);
        }
        assert_eq!(histogram.smallest_hole_bytes(), 8192);
    }
}
