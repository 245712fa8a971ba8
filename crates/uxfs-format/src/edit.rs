//! Changing bytes while remembering which.
//!
//! Every change of a metadata buffer goes through an [`Edit`]: the bytes, and a bit for each run of 128 bytes that was
//! touched. That is the grain in which XFS logs buffers, so the journal writes exactly the marked runs. Bulk mode
//! throws the bits away: no reader sees the image before it is finished.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::convert::{to_u64, to_usize};

/// Bytes that one bit of a [`DirtyMap`] stands for: what a log item can tell apart.
#[doc(alias = "XFS_BLF_CHUNK")]
pub const DIRTY_RUN_BYTES: u32 = 128;

const RUN_SHIFT: u32 = 7;
const WORDS: usize = 8;
const RUNS: u32 = 512;

/// The changed runs of a buffer of up to 64 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirtyMap {
    words: [u64; WORDS],
}

impl DirtyMap {
    /// Nothing has changed.
    pub const fn clean() -> Self {
        Self { words: [0; WORDS] }
    }

    /// Marks all runs that `length_bytes` bytes from `offset_bytes` touch. What lies behind 64 KiB is not marked.
    #[inline]
    pub fn mark(&mut self, offset_bytes: u32, length_bytes: u32) {
        if length_bytes == 0 {
            return;
        }
        let first = offset_bytes.wrapping_shr(RUN_SHIFT);
        let last = offset_bytes.saturating_add(length_bytes.wrapping_sub(1)).wrapping_shr(RUN_SHIFT);
        for run in first..=last.min(RUNS.wrapping_sub(1)) {
            if let Some(word) = self.words.get_mut(to_usize(run >> 6)) {
                *word |= 1_u64.wrapping_shl(run);
            }
        }
    }

    /// Whether nothing has changed.
    pub fn is_clean(&self) -> bool {
        self.words == [0; WORDS]
    }

    /// Adds what another map marks.
    pub fn merge(&mut self, other: &Self) {
        for (word, more) in self.words.iter_mut().zip(other.words) {
            *word |= more;
        }
    }

    /// The number of marked runs.
    #[inline]
    pub fn count(&self) -> u32 {
        self.words.iter().fold(0, |sum, word| sum.wrapping_add(word.count_ones()))
    }

    /// Whether a run is marked.
    pub fn is_dirty(&self, run: u32) -> bool {
        self.words.get(to_usize(run >> 6)).is_some_and(|word| word & 1_u64.wrapping_shl(run) != 0)
    }

    /// Marked runs that touch each other, as offset and length in bytes.
    pub fn ranges(&self) -> impl Iterator<Item = (u32, u32)> + Clone + '_ {
        let mut run = 0_u32;
        std::iter::from_fn(move || {
            let first = self.next_run(run, true)?;
            run = self.next_run(first, false).unwrap_or(RUNS);
            let length = run.saturating_sub(first);
            Some((first.wrapping_shl(RUN_SHIFT), length.wrapping_shl(RUN_SHIFT)))
        })
    }

    /// The first run from `from` on that is marked, or that is not.
    fn next_run(&self, from: u32, is_marked: bool) -> Option<u32> {
        let mut wanted = u64::MAX.wrapping_shl(from);
        for index in (from >> 6)..RUNS >> 6 {
            let word = *self.words.get(to_usize(index))?;
            let found = wanted & if is_marked { word } else { !word };
            if found != 0 {
                return Some(index.wrapping_shl(6).saturating_add(found.trailing_zeros()));
            }
            wanted = u64::MAX;
        }
        None
    }
}

/// Bytes that may be changed, and the map of those that were.
///
/// Accesses outside the bytes do nothing and give nothing: callers compare offsets that come from the disk with the
/// length before, and a mistake must not become a panic.
#[derive(Debug)]
pub struct Edit<'a> {
    bytes: &'a mut [u8],
    dirty: &'a mut DirtyMap,
}

impl<'a> Edit<'a> {
    /// Edits `bytes`, marking changes in `dirty`.
    #[inline]
    pub fn new(bytes: &'a mut [u8], dirty: &'a mut DirtyMap) -> Self {
        Self { bytes, dirty }
    }

    /// The same edit for a shorter time.
    #[inline]
    pub fn reborrow(&mut self) -> Edit<'_> {
        Edit { bytes: self.bytes, dirty: self.dirty }
    }

    /// The bytes as they are now.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Their number.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// A range to be changed, marked as changed. Empty where it does not lie within the bytes.
    #[inline]
    pub fn range(&mut self, offset_bytes: usize, length_bytes: usize) -> &mut [u8] {
        let end = offset_bytes.saturating_add(length_bytes);
        match self.bytes.get_mut(offset_bytes..end) {
            Some(range) => {
                self.dirty.mark(offset(offset_bytes), offset(length_bytes));
                range
            }
            None => &mut [],
        }
    }

    /// Everything, marked as changed.
    pub fn all(&mut self) -> &mut [u8] {
        self.range(0, self.bytes.len())
    }

    /// Puts `bytes` at `offset_bytes`. Does nothing where they do not fit.
    #[inline]
    pub fn put(&mut self, offset_bytes: usize, bytes: &[u8]) {
        let range = self.range(offset_bytes, bytes.len());
        if range.len() == bytes.len() {
            range.copy_from_slice(bytes);
        }
    }

    /// Puts `bytes` at `offset_bytes`, marking only runs in which something differs. Does nothing where they do not fit.
    pub fn update(&mut self, offset_bytes: usize, bytes: &[u8]) {
        let Some(end) = offset_bytes.checked_add(bytes.len()).filter(|end| *end <= self.bytes.len()) else {
            return;
        };
        let run = to_usize(DIRTY_RUN_BYTES);
        let (mut at, mut rest) = (offset_bytes, bytes);
        while at < end {
            let to_next_run = run.saturating_sub(at.checked_rem(run).unwrap_or(0));
            let (now, later) = rest.split_at(to_next_run.min(rest.len()));
            let next = at.saturating_add(now.len());
            if self.bytes.get(at..next).is_some_and(|old| old != now) {
                self.put(at, now);
            }
            (at, rest) = (next, later);
        }
    }

    /// Bytes to be changed that are not marked: their caller [`mark`](Self::mark)s something that stands for them. Empty
    /// where they do not lie within.
    #[inline]
    pub fn unmarked(&mut self, offset_bytes: usize, length_bytes: usize) -> &mut [u8] {
        let end = offset_bytes.saturating_add(length_bytes);
        self.bytes.get_mut(offset_bytes..end).unwrap_or_default()
    }

    /// Marks the run that a byte is in.
    #[inline]
    pub fn mark(&mut self, offset_bytes: usize) {
        self.dirty.mark(offset(offset_bytes), 1);
    }

    /// Puts a structure at `offset_bytes`.
    #[inline]
    pub fn put_value<T: IntoBytes + Immutable>(&mut self, offset_bytes: usize, value: &T) {
        self.put(offset_bytes, value.as_bytes());
    }

    /// A structure at `offset_bytes` to be changed, marked as changed whole.
    #[inline]
    pub fn value<T: FromBytes + IntoBytes + KnownLayout>(&mut self, offset_bytes: usize) -> Option<&mut T> {
        T::mut_from_bytes(self.range(offset_bytes, size_of::<T>())).ok()
    }

    /// Moves `length_bytes` bytes within the buffer; the target is marked. The ranges may overlap.
    #[inline]
    pub fn copy_within(&mut self, from_bytes: usize, to_bytes: usize, length_bytes: usize) {
        let (end, target_end) = (from_bytes.checked_add(length_bytes), to_bytes.checked_add(length_bytes));
        let fits = |end: Option<usize>| end.is_some_and(|end| end <= self.bytes.len());
        if let Some(end) = end
            && fits(Some(end))
            && fits(target_end)
        {
            self.bytes.copy_within(from_bytes..end, to_bytes);
            self.dirty.mark(offset(to_bytes), offset(length_bytes));
        }
    }

    /// Fills a range with zeros.
    pub fn clear(&mut self, offset_bytes: usize, length_bytes: usize) {
        self.range(offset_bytes, length_bytes).fill(0);
    }
}

#[inline]
fn offset(bytes: usize) -> u32 {
    u32::try_from(to_u64(bytes)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_mark_the_runs_they_touch() {
        let mut bytes = vec![0; 4096];
        let mut dirty = DirtyMap::clean();
        let mut edit = Edit::new(&mut bytes, &mut dirty);
        edit.put(126, &[1, 2, 3, 4]);
        edit.copy_within(0, 1024, 256);
        edit.range(4000, 0);
        assert_eq!(dirty.ranges().collect::<Vec<_>>(), [(0, 256), (1024, 256)]);
        assert_eq!(bytes[1024 + 126..1024 + 130], [1, 2, 3, 4]);
    }

    #[test]
    fn edits_outside_the_bytes_change_nothing() {
        let mut bytes = vec![7; 512];
        let mut dirty = DirtyMap::clean();
        let mut edit = Edit::new(&mut bytes, &mut dirty);
        edit.put(510, &[1, 2, 3, 4]);
        edit.copy_within(500, 0, 100);
        edit.copy_within(usize::MAX, 0, 8);
        assert!(edit.range(usize::MAX, 2).is_empty());
        assert!(edit.value::<crate::inode::InodeCore>(400).is_none());
        assert!(dirty.is_clean());
        assert_eq!(bytes, [7; 512]);
    }

    #[test]
    fn the_last_run_of_a_64_kib_buffer_is_marked_and_nothing_behind() {
        let mut dirty = DirtyMap::clean();
        dirty.mark(65535, 1);
        dirty.mark(65536, 128);
        assert_eq!(dirty.ranges().collect::<Vec<_>>(), [(65408, 128)]);
    }

    proptest::proptest! {
        #[test]
        fn ranges_are_the_marked_runs(runs in proptest::collection::btree_set(0..RUNS, 0..40)) {
            let mut dirty = DirtyMap::clean();
            runs.iter().for_each(|run| dirty.mark(run * DIRTY_RUN_BYTES, 1));
            let mut ends = None;
            let mut found = std::collections::BTreeSet::new();
            for (offset, length) in dirty.ranges() {
                // With room between them.
                proptest::prop_assert!(length > 0 && ends.is_none_or(|end| end < offset));
                ends = Some(offset + length);
                found.extend((offset..offset + length).step_by(DIRTY_RUN_BYTES as usize).map(|at| at / DIRTY_RUN_BYTES));
            }
            proptest::prop_assert_eq!(found, runs);
        }
    }
}
