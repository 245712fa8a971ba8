//! What is asked of the unpacked bytes before they are unpacked: the partition table, and where file systems begin.
//!
//! Invariant: memory is bounded, and so is the work: the file is unpacked from its beginning at most [`MOST_BEGINNINGS`] times.

use std::{
    fmt,
    io::{self, ErrorKind, Read},
};

use parking_lot::Mutex;
use uxfs_block::device::{BlockDevice, DeviceError, DeviceOperation, Identity};

use super::{PackedStream, read_piece};
use crate::read_only::read_only;

/// Unpacked at once.
const CHUNK_BYTES: usize = 1 << 20;
/// How often the stream may begin again.
const MOST_BEGINNINGS: u32 = 16;
/// How long an image is taken for that does not say so.
const UNKNOWN_SIZE_BYTES: u64 = 1 << 62;
/// The end of such an image is not looked for: the copy of a partition table would be there.
const END_BYTES: u64 = 1 << 30;

/// A compressed file as a device that is read from its beginning to its end, with few steps back.
pub(super) struct ForwardDevice {
    stream: PackedStream,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reader: Option<Box<dyn Read + Send>>,
    beginnings: u32,
    /// The first chunk of all, where the table is.
    first: Vec<u8>,
    /// The last two chunks, the first of which begins at `start_bytes`.
    recent: [Vec<u8>; 2],
    start_bytes: u64,
}

impl fmt::Debug for ForwardDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForwardDevice").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl ForwardDevice {
    pub fn new(stream: PackedStream) -> Self {
        Self { stream, state: Mutex::default() }
    }

    /// Fills a part of the buffer; gives how much.
    fn read_some(&self, state: &mut State, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stream.size_bytes.is_none() && offset_bytes >= UNKNOWN_SIZE_BYTES - END_BYTES {
            return Err(io::Error::new(
                ErrorKind::Unsupported,
                "the file does not say how long it is unpacked",
            ));
        }
        loop {
            if let Some(length) = state.copy(offset_bytes, buffer) {
                return Ok(length);
            }
            if state.reader.is_none() || offset_bytes < state.start_bytes {
                state.begin(self.stream.unpacked()?)?;
            }
            state.advance()?;
        }
    }
}

impl State {
    /// Copies what is here of a place; `None` where nothing is.
    fn copy(&self, offset_bytes: u64, buffer: &mut [u8]) -> Option<usize> {
        let [before, last] = &self.recent;
        let of_last = self.start_bytes + before.len() as u64;
        [(&self.first, 0), (before, self.start_bytes), (last, of_last)].into_iter().find_map(
            |(chunk, start)| {
                let at = usize::try_from(offset_bytes.checked_sub(start)?).ok()?;
                let source = chunk.get(at..).filter(|source| !source.is_empty())?;
                let length = source.len().min(buffer.len());
                buffer.get_mut(..length)?.copy_from_slice(source.get(..length)?);
                Some(length)
            },
        )
    }

    fn begin(&mut self, reader: Box<dyn Read + Send>) -> io::Result<()> {
        self.beginnings += 1;
        if self.beginnings > MOST_BEGINNINGS {
            return Err(io::Error::other("its partition table is not in order: unpack it first"));
        }
        (self.reader, self.recent, self.start_bytes) = (Some(reader), Default::default(), 0);
        Ok(())
    }

    /// Unpacks the next chunk.
    fn advance(&mut self) -> io::Result<()> {
        let reader = self.reader.as_mut().ok_or(ErrorKind::Other)?;
        let [before, last] = &mut self.recent;
        self.start_bytes += before.len() as u64;
        std::mem::swap(before, last);
        last.resize(CHUNK_BYTES, 0);
        let length = read_piece(reader, last)?;
        last.truncate(length);
        if length == 0 {
            return Err(io::Error::new(ErrorKind::UnexpectedEof, "outside the image"));
        }
        if self.first.is_empty() {
            self.first = last.clone();
        }
        Ok(())
    }
}

impl BlockDevice for ForwardDevice {
    fn size_bytes(&self) -> u64 {
        self.stream.size_bytes.unwrap_or(UNKNOWN_SIZE_BYTES)
    }

    fn identity(&self) -> Option<Identity> {
        self.stream.file.identity()
    }

    fn engine(&self) -> &'static str {
        "stream"
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let (operation, length_bytes) = (DeviceOperation::Read, buffer.len() as u64);
        DeviceError::check_range(operation, offset_bytes, length_bytes, self.size_bytes())?;
        let mut state = self.state.lock();
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let failed = |source| DeviceError { operation, offset_bytes, length_bytes, source };
            done += self.read_some(&mut state, offset_bytes + done as u64, rest).map_err(failed)?;
        }
        Ok(())
    }

    read_only!();
}
