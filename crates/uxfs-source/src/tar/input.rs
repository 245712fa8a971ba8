//! Bytes of an archive in order, from a file that can be skipped through or from a stream.

use std::{
    fs::File,
    io::{self, Read},
    ops::Range,
    os::fd::AsFd,
    sync::Arc,
};

use super::header::{BLOCK_BYTES, Block};
use crate::{
    content::{next_data, read_full},
    endless::MAX_ZEROS_BYTES,
    error::{ArchiveFault, Shown, SourceError},
    manifest,
    packing::Unpacked,
};

const BUFFER_BYTES: usize = 256 << 10;
/// Read behind what was skipped, where a header is wanted and perhaps no more; from there on twice as much each time.
const LEAST_BYTES: usize = 4 << 10;

enum Origin {
    /// Not packed: these bytes of a file.
    File {
        file: Arc<File>,
        bytes: Range<u64>,
    },
    Stream(Unpacked),
}

/// An archive that is being read.
pub(super) struct Input {
    name: Shown,
    origin: Origin,
    buffer: Box<[u8]>,
    at: usize,
    filled: usize,
    /// How much of a file is read next.
    next_bytes: usize,
    /// Of `at`, in the file or the stream.
    position: u64,
    /// Where the archive begins there.
    start: u64,
    /// Anything but zeros has been read.
    has_data: bool,
}

impl Input {
    pub(super) fn of_file(name: Shown, file: Arc<File>, bytes: Range<u64>) -> Self {
        Self::new(name, bytes.start, Origin::File { file, bytes })
    }

    pub(super) fn of_stream(name: Shown, stream: Unpacked) -> Self {
        Self::new(name, 0, Origin::Stream(stream))
    }

    fn new(name: Shown, start: u64, origin: Origin) -> Self {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Self {
            name,
            origin,
            buffer,
            at: 0,
            filled: 0,
            next_bytes: BUFFER_BYTES,
            position: start,
            start,
            has_data: false,
        }
    }

    /// The archive, where its data can be read from it later.
    pub(super) fn file(&self) -> Option<&Arc<File>> {
        match &self.origin {
            Origin::File { file, .. } => Some(file),
            Origin::Stream(_) => None,
        }
    }

    /// Where the next byte lies in the file or the stream, which may hold more than the archive.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn name(&self) -> &Shown {
        &self.name
    }

    pub(super) fn is_at_start(&self) -> bool {
        self.position == self.start
    }

    pub(super) fn fault(&self, fault: ArchiveFault) -> SourceError {
        SourceError::Archive { archive: self.name.clone(), offset: self.position - self.start, fault }
    }

    fn truncated(&self, within: &'static str) -> SourceError {
        self.fault(ArchiveFault::Truncated { within })
    }

    /// The bytes in the buffer; none at the end of the archive.
    fn filled(&mut self) -> Result<&[u8], SourceError> {
        if self.at == self.filled {
            self.at = 0;
            self.filled = self.fill()?;
        }
        Ok(self.buffer.get(self.at..self.filled).unwrap_or_default())
    }

    fn fill(&mut self) -> Result<usize, SourceError> {
        let read = match &mut self.origin {
            Origin::File { file, bytes } => {
                let left_bytes =
                    usize::try_from(bytes.end.saturating_sub(self.position)).unwrap_or(usize::MAX);
                let part = self.buffer.get_mut(..self.next_bytes.min(left_bytes)).unwrap_or_default();
                self.next_bytes = (self.next_bytes * 2).min(BUFFER_BYTES);
                read_full(file.as_fd(), part, self.position).map_err(io::Error::from)
            }
            Origin::Stream(stream) => loop {
                match stream.read(&mut self.buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    result => break result,
                }
            },
        };
        read.map_err(|error| match error.raw_os_error() {
            // Those of the unpackers have no number.
            None => self.fault(ArchiveFault::Compression(error.to_string())),
            Some(_) => SourceError::Io { path: self.name.clone(), action: "read", source: error },
        })
    }

    fn consume(&mut self, bytes: usize) {
        self.at += bytes;
        self.position += bytes as u64;
    }

    /// Reads what there is, at most the buffer's length; 0 at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, SourceError> {
        let filled = self.filled()?;
        let length = filled.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..length), filled.get(..length)) {
            to.copy_from_slice(from);
        }
        self.consume(length);
        Ok(length)
    }

    pub(super) fn read_exact(
        &mut self,
        mut buffer: &mut [u8],
        within: &'static str,
    ) -> Result<(), SourceError> {
        while !buffer.is_empty() {
            let read = self.read(buffer)?;
            if read == 0 {
                return Err(self.truncated(within));
            }
            buffer = buffer.get_mut(read..).unwrap_or_default();
        }
        Ok(())
    }

    /// The next block, or `None` where the archive ends before it. Zeros that are less than a block are padding.
    pub(super) fn block(&mut self) -> Result<Option<Block>, SourceError> {
        let mut block = [0; BLOCK_BYTES];
        let mut length = 0;
        while let Some(rest) = block.get_mut(length..).filter(|rest| !rest.is_empty()) {
            match self.read(rest)? {
                0 if block.iter().all(|byte| *byte == 0) => return Ok(None),
                0 => {
                    self.refuse_manifest(block.get(..length).unwrap_or_default())?;
                    return Err(self.truncated("a header"));
                }
                read => length += read,
            }
        }
        self.refuse_manifest(&block)?;
        self.has_data |= block.iter().any(|byte| *byte != 0);
        self.check_zeros()?;
        Ok(Some(block))
    }

    /// Refuses a manifest that comes as a stream. Its first block has no zeros, as that of an archive has.
    fn refuse_manifest(&self, block: &[u8]) -> Result<(), SourceError> {
        let is_first = !self.has_data && matches!(self.origin, Origin::Stream(_));
        match is_first && !block.contains(&0) && manifest::looks_like(block) {
            true => Err(self.fault(ArchiveFault::Manifest)),
            false => Ok(()),
        }
    }

    /// Refuses a stream of zeros alone, which may have no end. A file has one, and behind a member they are padding.
    fn check_zeros(&self) -> Result<(), SourceError> {
        let is_stream = matches!(self.origin, Origin::Stream(_));
        match is_stream && !self.has_data && self.position > MAX_ZEROS_BYTES {
            true => Err(self.fault(ArchiveFault::Zeros(MAX_ZEROS_BYTES))),
            false => Ok(()),
        }
    }

    /// `length` bytes, which the caller has compared with a limit.
    pub(super) fn bytes(&mut self, length: usize, within: &'static str) -> Result<Vec<u8>, SourceError> {
        // Memory grows with what is really there.
        let mut bytes = Vec::with_capacity(length.min(BUFFER_BYTES));
        while bytes.len() < length {
            let wanted = length - bytes.len();
            let filled = self.filled()?;
            let part = filled.get(..wanted.min(filled.len())).unwrap_or_default();
            if part.is_empty() {
                return Err(self.truncated(within));
            }
            bytes.extend_from_slice(part);
            let length = part.len();
            self.consume(length);
        }
        Ok(bytes)
    }

    /// Whether so many bytes follow, as far as that is known.
    pub(super) fn expect(&self, bytes: u64, within: &'static str) -> Result<(), SourceError> {
        match &self.origin {
            Origin::File { bytes: all, .. } if bytes > all.end.saturating_sub(self.position) => {
                Err(self.truncated(within))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn skip(&mut self, bytes: u64, within: &'static str) -> Result<(), SourceError> {
        let mut left = bytes;
        while left > 0 {
            let buffered = self.filled - self.at;
            if buffered == 0 && matches!(self.origin, Origin::File { .. }) {
                self.expect(left, within)?;
                self.position += left;
                self.next_bytes = LEAST_BYTES;
                return Ok(());
            }
            let part = usize::try_from(left).unwrap_or(usize::MAX).min(self.filled()?.len());
            if part == 0 {
                return Err(self.truncated(within));
            }
            self.consume(part);
            left -= part as u64;
        }
        Ok(())
    }

    /// Reads to the end: the checksums of a packed stream come last, and the writer of a pipe waits until all is read. Gives
    /// the places of what is there, from the first byte on that is not zero.
    pub(super) fn rest(&mut self) -> Result<Option<Range<u64>>, SourceError> {
        let mut first = None;
        loop {
            match (&self.origin, first) {
                // Nothing is packed: how much there is, is known.
                (Origin::File { bytes, .. }, Some(_)) => {
                    self.position = bytes.end.max(self.position);
                    break;
                }
                (Origin::File { .. }, None) => self.skip_hole()?,
                (Origin::Stream(_), _) => {}
            }
            let filled = self.filled()?;
            let (length, data) = (filled.len(), filled.iter().position(|byte| *byte != 0));
            if length == 0 {
                break;
            }
            first = first.or(data.map(|data| self.position + data as u64));
            self.consume(length);
            if first.is_none() {
                self.check_zeros()?;
            }
        }
        let start = self.start;
        Ok(first.map(|first| first - start..self.position - start))
    }

    /// Goes on to the next data of a file, or to its end.
    fn skip_hole(&mut self) -> Result<(), SourceError> {
        if let Origin::File { file, bytes } = &self.origin
            && self.at == self.filled
        {
            let found = next_data(file.as_fd(), self.position, bytes.end);
            let found = found.map_err(|error| {
                SourceError::io(&self.name.0, "find the holes of", io::Error::from(error))
            })?;
            self.position = found.map_or(bytes.end.max(self.position), |data| data.offset_bytes);
        }
        Ok(())
    }

    /// Whether the archive is packed.
    pub(super) fn is_packed(&self) -> bool {
        matches!(&self.origin, Origin::Stream(stream) if stream.is_packed())
    }

    /// What follows the packed stream: place and length in bytes. Known at the end.
    pub(super) fn behind_packed(&self) -> Option<(u64, u64)> {
        match &self.origin {
            Origin::Stream(stream) => stream.behind(),
            Origin::File { .. } => None,
        }
    }
}
