//! An external merge sort: records come back in the order of their keys.
//!
//! 1. Records gather in memory. When they reach the bound they are sorted and become a run of a temporary file.
//! 2. A merge reads at most as many runs at once as there are buffers within the bound. More runs than that are merged into
//!    fewer first.
//! 3. Records with equal keys come back in no particular order: callers make keys unique where the order matters.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use super::{SpillError, TemporaryFile};

/// The size of a read of one run in a merge.
const BUFFER_BYTES: usize = 64 << 10;
/// The size of a write.
const WRITE_BYTES: usize = 256 << 10;
/// The lengths of key and payload before each record.
const HEAD_BYTES: usize = 8;
/// No bound is smaller.
const LEAST_MEMORY_BYTES: usize = 2 * BUFFER_BYTES;

/// A record as it comes back.
pub type KeyAndPayload<'a> = (&'a [u8], &'a [u8]);

/// Records of a temporary file that lie there in order.
#[derive(Debug, Clone, Copy)]
struct Run {
    begin_bytes: u64,
    end_bytes: u64,
}

/// Gathers records.
#[derive(Debug)]
pub struct Sorter {
    memory_limit: usize,
    /// Heads, keys and payloads.
    bytes: Vec<u8>,
    starts: Vec<u32>,
    file: Option<TemporaryFile>,
    runs: Vec<Run>,
}

/// Records in order, to be read any number of times.
#[derive(Debug, Clone)]
pub struct Sorted {
    /// Records that were never written.
    memory: Arc<(Vec<u8>, Vec<u32>)>,
    file: Option<Arc<TemporaryFile>>,
    runs: Arc<[Run]>,
}

fn record_at(bytes: &[u8], start: usize) -> Option<KeyAndPayload<'_>> {
    let (head, rest) = bytes.get(start..)?.split_first_chunk::<HEAD_BYTES>()?;
    let (key_bytes, payload_bytes) = lengths(*head);
    let (key, rest) = rest.split_at_checked(key_bytes)?;
    Some((key, rest.get(..payload_bytes)?))
}

fn lengths(head: [u8; HEAD_BYTES]) -> (usize, usize) {
    let [a, b, c, d, e, f, g, h] = head;
    (u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes([e, f, g, h]) as usize)
}

fn append(bytes: &mut Vec<u8>, key: &[u8], payload: &[u8]) {
    // Callers' records are a few kilobytes long.
    bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(payload);
}

impl Sorter {
    /// No records, of which about `memory_limit` bytes will be kept in memory.
    pub fn new(memory_limit: usize) -> Self {
        Self {
            memory_limit: memory_limit.clamp(LEAST_MEMORY_BYTES, u32::MAX as usize / 2),
            bytes: Vec::new(),
            starts: Vec::new(),
            file: None,
            runs: Vec::new(),
        }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// The temporary file cannot be made or written.
    pub fn push(&mut self, key: &[u8], payload: &[u8]) -> Result<(), SpillError> {
        let whole_bytes = HEAD_BYTES + key.len() + payload.len();
        let taken = self.bytes.len() + self.starts.len() * size_of::<u32>();
        if taken + whole_bytes > self.memory_limit && !self.starts.is_empty() {
            self.write_run()?;
        }
        self.starts.push(self.bytes.len() as u32);
        append(&mut self.bytes, key, payload);
        Ok(())
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        let key = |start: &u32| record_at(bytes, *start as usize).map(|(key, _)| key);
        self.starts.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
    }

    fn write_run(&mut self) -> Result<(), SpillError> {
        self.sort();
        let file = match self.file.take() {
            Some(file) => file,
            None => TemporaryFile::create()?,
        };
        let begin_bytes = self.runs.last().map_or(0, |run| run.end_bytes);
        let mut writer =
            Writer { file: &file, bytes: Vec::with_capacity(WRITE_BYTES), end_bytes: begin_bytes };
        for start in &self.starts {
            let (key, payload) = record_at(&self.bytes, *start as usize).ok_or_else(SpillError::damaged)?;
            writer.push(key, payload)?;
        }
        let end_bytes = writer.finish()?;
        self.runs.push(Run { begin_bytes, end_bytes });
        self.file = Some(file);
        self.bytes.clear();
        self.starts.clear();
        Ok(())
    }

    /// The records in order.
    ///
    /// # Errors
    /// The temporary file cannot be written or read.
    pub fn finish(mut self) -> Result<Sorted, SpillError> {
        if self.runs.is_empty() {
            self.sort();
            self.bytes.shrink_to_fit();
            self.starts.shrink_to_fit();
            let memory = Arc::new((self.bytes, self.starts));
            return Ok(Sorted { memory, file: None, runs: Arc::default() });
        }
        if !self.starts.is_empty() {
            self.write_run()?;
        }
        (self.bytes, self.starts) = (Vec::new(), Vec::new());
        let most_runs = (self.memory_limit / BUFFER_BYTES).max(2);
        let mut sorted = Sorted::of_runs(self.file.map(Arc::new), self.runs);
        while sorted.runs.len() > most_runs {
            sorted = sorted.merge_by(most_runs)?;
        }
        Ok(sorted)
    }
}

/// Writes records to the end of a file.
struct Writer<'a> {
    file: &'a TemporaryFile,
    bytes: Vec<u8>,
    /// Of what has been written.
    end_bytes: u64,
}

impl Writer<'_> {
    fn push(&mut self, key: &[u8], payload: &[u8]) -> Result<(), SpillError> {
        append(&mut self.bytes, key, payload);
        if self.bytes.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), SpillError> {
        self.file.write(&self.bytes, self.end_bytes)?;
        self.end_bytes += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<u64, SpillError> {
        self.flush()?;
        Ok(self.end_bytes)
    }
}

impl Sorted {
    fn of_runs(file: Option<Arc<TemporaryFile>>, runs: Vec<Run>) -> Self {
        Self { memory: Arc::default(), file, runs: runs.into() }
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.memory.1.is_empty() && self.runs.is_empty()
    }

    /// Whether records lie in a temporary file.
    pub fn is_on_disk(&self) -> bool {
        self.file.is_some()
    }

    /// Fewer runs, in a file of their own: each of as many as `most_runs` of these.
    fn merge_by(&self, most_runs: usize) -> Result<Self, SpillError> {
        let file = TemporaryFile::create()?;
        let mut runs = Vec::new();
        let mut end_bytes = 0;
        for part in self.runs.chunks(most_runs) {
            let mut writer = Writer { file: &file, bytes: Vec::with_capacity(WRITE_BYTES), end_bytes };
            let mut merge = Self::of_runs(self.file.clone(), part.to_vec()).read()?;
            while let Some((key, payload)) = merge.next_record()? {
                writer.push(key, payload)?;
            }
            let begin_bytes = end_bytes;
            end_bytes = writer.finish()?;
            runs.push(Run { begin_bytes, end_bytes });
        }
        Ok(Self::of_runs(Some(Arc::new(file)), runs))
    }

    /// Reads from the first record on.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub fn read(&self) -> Result<Merge, SpillError> {
        let mut merge = Merge {
            memory: Arc::clone(&self.memory),
            next_in_memory: 0,
            readers: Vec::with_capacity(self.runs.len()),
            heap: BinaryHeap::with_capacity(self.runs.len()),
            taken: None,
        };
        for run in &*self.runs {
            let file = Arc::clone(self.file.as_ref().ok_or_else(SpillError::damaged)?);
            let mut reader = RunReader { file, rest: *run, buffer: Vec::new(), at: 0 };
            if let Some((key, _)) = reader.record()? {
                merge.heap.push(Reverse((key.into(), merge.readers.len())));
            }
            merge.readers.push(reader);
        }
        Ok(merge)
    }
}

/// Reads records in order.
#[derive(Debug)]
pub struct Merge {
    memory: Arc<(Vec<u8>, Vec<u32>)>,
    next_in_memory: usize,
    readers: Vec<RunReader>,
    /// The next key of each run.
    heap: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
    /// The run whose first record was given last, with memory for a key.
    taken: Option<(usize, Vec<u8>)>,
}

impl Merge {
    /// The next key and its payload.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub fn next_record(&mut self) -> Result<Option<KeyAndPayload<'_>>, SpillError> {
        if self.readers.is_empty() {
            let (bytes, starts) = &*self.memory;
            let Some(start) = starts.get(self.next_in_memory) else { return Ok(None) };
            self.next_in_memory += 1;
            return record_at(bytes, *start as usize).map(Some).ok_or_else(SpillError::damaged);
        }
        if let Some((run, mut key)) = self.taken.take()
            && let Some(reader) = self.readers.get_mut(run)
        {
            reader.pass();
            if let Some((next, _)) = reader.record()? {
                key.clear();
                key.extend_from_slice(next);
                self.heap.push(Reverse((key, run)));
            }
        }
        let Some(Reverse((key, run))) = self.heap.pop() else { return Ok(None) };
        self.taken = Some((run, key));
        self.readers.get_mut(run).map_or(Ok(None), RunReader::record)
    }
}

#[derive(Debug)]
struct RunReader {
    file: Arc<TemporaryFile>,
    /// The part that has not been read.
    rest: Run,
    buffer: Vec<u8>,
    at: usize,
}

impl RunReader {
    /// The record at hand, if any is left.
    fn record(&mut self) -> Result<Option<KeyAndPayload<'_>>, SpillError> {
        if !self.has(HEAD_BYTES)? {
            return Ok(None);
        }
        let head = self.buffer.get(self.at..).and_then(|bytes| bytes.first_chunk::<HEAD_BYTES>());
        let (key_bytes, payload_bytes) = lengths(*head.ok_or_else(SpillError::damaged)?);
        if !self.has(HEAD_BYTES.saturating_add(key_bytes).saturating_add(payload_bytes))? {
            return Err(SpillError::damaged());
        }
        record_at(&self.buffer, self.at).map(Some).ok_or_else(SpillError::damaged)
    }

    fn pass(&mut self) {
        if let Some((key, payload)) = record_at(&self.buffer, self.at) {
            self.at += HEAD_BYTES + key.len() + payload.len();
        }
    }

    /// Makes sure that so many bytes are at hand; `false` where the run ends before.
    fn has(&mut self, bytes: usize) -> Result<bool, SpillError> {
        let at_hand = self.buffer.len() - self.at;
        if at_hand >= bytes {
            return Ok(true);
        }
        let left = self.rest.end_bytes - self.rest.begin_bytes;
        if ((bytes - at_hand) as u64) > left {
            return Ok(false);
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        let wanted = (BUFFER_BYTES.max(bytes) - at_hand).min(usize::try_from(left).unwrap_or(usize::MAX));
        self.buffer.resize(at_hand + wanted, 0);
        let target = self.buffer.get_mut(at_hand..).unwrap_or_default();
        if self.file.read(target, self.rest.begin_bytes)? < wanted {
            return Err(SpillError::damaged());
        }
        self.rest.begin_bytes += wanted as u64;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(sorted: &Sorted) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut merge = sorted.read().unwrap();
        let mut records = Vec::new();
        while let Some((key, payload)) = merge.next_record().unwrap() {
            records.push((key.to_vec(), payload.to_vec()));
        }
        records
    }

    #[test]
    fn more_runs_than_buffers_are_merged_in_steps() {
        // Two buffers within the smallest bound: three levels of merges.
        let mut sorter = Sorter::new(0);
        let mut expected = Vec::new();
        for number in 0..4000_u32 {
            let key = number.wrapping_mul(2_654_435_761).to_be_bytes().to_vec();
            let payload = vec![number as u8; (number % 400) as usize];
            sorter.push(&key, &payload).unwrap();
            expected.push((key, payload));
        }
        assert!(sorter.runs.len() > 4, "{}", sorter.runs.len());
        let sorted = sorter.finish().unwrap();
        assert!(sorted.is_on_disk() && sorted.runs.len() <= 2);
        expected.sort();
        assert_eq!(all(&sorted), expected);
        assert_eq!(all(&sorted), expected, "read again");
    }

    #[test]
    fn records_larger_than_buffers_and_bound() {
        let mut sorter = Sorter::new(0);
        let mut expected = Vec::new();
        for number in (0..9_u8).rev() {
            let record = (vec![number; 5], vec![number; BUFFER_BYTES * usize::from(number)]);
            sorter.push(&record.0, &record.1).unwrap();
            expected.push(record);
        }
        expected.sort();
        assert_eq!(all(&sorter.finish().unwrap()), expected);
    }

    proptest! {
        #[test]
        fn records_come_in_order(
            keys in prop::collection::btree_set(prop::collection::vec(0..3_u8, 0..6), 0..60),
            order in any::<u64>(),
            runs_of in 1..20_usize,
        ) {
            let expected: Vec<(Vec<u8>, Vec<u8>)> =
                keys.iter().map(|key| (key.clone(), key.iter().rev().copied().collect())).collect();
            let mut shuffled = expected.clone();
            shuffled.sort_by_key(|(key, _)| key.iter().fold(order, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3).rotate_left(17)
            }));
            let mut sorter = Sorter::new(0);
            for (number, (key, payload)) in shuffled.iter().enumerate() {
                if number > 0 && number % runs_of == 0 {
                    sorter.write_run().unwrap();
                }
                sorter.push(key, payload).unwrap();
            }
            prop_assert_eq!(all(&sorter.finish().unwrap()), expected);
        }
    }
}
