//! A piece of the work on its way from a worker to the sink: bytes in tree order, and what must still be read into
//! them.

use std::ops::Range;

use crate::report::{Counts, Problem};

/// How many bytes a chunk holds in the ordinary case.
pub const CHUNK_BYTES: usize = 1 << 20;

/// Bytes that are initialised once and then used over and over, so that making room costs nothing.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    length: usize,
}

impl Buffer {
    /// Room for `capacity` bytes; it grows when that is not enough.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity], length: 0 }
    }

    /// How many bytes it holds.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The bytes.
    pub fn filled(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Some of the bytes; none where the span does not lie within.
    pub fn span(&self, span: Range<usize>) -> &[u8] {
        self.filled().get(span).unwrap_or_default()
    }

    /// Some of the bytes, to change.
    pub fn span_mut(&mut self, span: Range<usize>) -> &mut [u8] {
        let length = self.length;
        self.bytes.get_mut(..length).and_then(|filled| filled.get_mut(span)).unwrap_or_default()
    }

    /// Makes room for `length` bytes behind the last and says where. What they hold is left over from earlier use.
    pub fn reserve(&mut self, length: usize) -> Range<usize> {
        let start = self.length;
        let end = start.saturating_add(length);
        if end > self.bytes.len() {
            self.bytes.resize(end.max(self.bytes.len() + self.bytes.len() / 2), 0);
        }
        self.length = end;
        start..end
    }

    /// Adds bytes.
    pub fn append(&mut self, bytes: &[u8]) -> Range<usize> {
        let span = self.reserve(bytes.len());
        self.span_mut(span.clone()).copy_from_slice(bytes);
        span
    }

    /// Adds zeros.
    pub fn append_zeros(&mut self, length: usize) -> Range<usize> {
        let span = self.reserve(length);
        self.span_mut(span.clone()).fill(0);
        span
    }

    /// Empties it. Gives back memory that was an exception.
    pub fn clear(&mut self) {
        self.length = 0;
        if self.bytes.len() > 2 * CHUNK_BYTES {
            self.bytes.truncate(CHUNK_BYTES);
            self.bytes.shrink_to_fit();
        }
    }
}

/// Data to be read from the image into a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRead {
    /// First byte on the device.
    pub device_offset_bytes: u64,
    /// Where in the chunk's bytes it goes.
    pub span: Range<usize>,
    /// First byte in the file, for messages.
    pub file_offset_bytes: u64,
    /// Which of the chunk's tasks it belongs to, for messages.
    pub task: usize,
}

/// Bytes and records of consecutive entries.
#[derive(Debug)]
pub struct Chunk<R> {
    /// The bytes: of an archive as they are, of a directory file data only.
    pub bytes: Buffer,
    /// Further messages to the sink, in order.
    pub records: Vec<R>,
    /// Counts of the entries in the chunk.
    pub counts: Counts,
    /// Problems with them.
    pub problems: Vec<Problem>,
}

impl<R> Chunk<R> {
    /// An empty one.
    pub fn new() -> Self {
        Self {
            bytes: Buffer::with_capacity(CHUNK_BYTES),
            records: Vec::new(),
            counts: Counts::default(),
            problems: Vec::new(),
        }
    }

    /// Empties it for the next use.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
        self.counts = Counts::default();
        self.problems.clear();
    }
}

impl<R> Default for Chunk<R> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_grows_and_forgets() {
        let mut buffer = Buffer::with_capacity(4);
        assert_eq!(buffer.append(b"abc"), 0..3);
        assert_eq!(buffer.append(b"defgh"), 3..8);
        assert_eq!(buffer.append_zeros(2), 8..10);
        assert_eq!(buffer.filled(), b"abcdefgh\0\0");
        buffer.clear();
        assert!(buffer.is_empty());
        assert_eq!(buffer.reserve(3), 0..3);
        assert_eq!(buffer.span(0..3), b"abc", "room is not cleared");
        assert_eq!(buffer.span(2..4), b"", "outside");
    }
}
