//! The interface of every block device.

use std::{fmt, io, ops::Range, os::fd::BorrowedFd};

use rustix::io::Errno;
use thiserror::Error;

use crate::{claim::Claimed, engine::hole_filler::HoleFiller, words::in_words};

/// The operation in which a device failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceOperation {
    /// Opening it.
    Open,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Making earlier writes durable.
    Flush,
    /// Telling that contents are no longer needed.
    Discard,
}

impl fmt::Display for DeviceOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
        })
    }
}

/// A failed device operation.
#[derive(Debug, Error)]
pub struct DeviceError {
    /// The operation.
    pub operation: DeviceOperation,
    /// First byte.
    pub offset_bytes: u64,
    /// How many.
    pub length_bytes: u64,
    /// Why it failed.
    pub source: io::Error,
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, offset_bytes, length_bytes, source } = self;
        match operation {
            DeviceOperation::Open => write!(f, "cannot open it: {}", in_words(source)),
            _ => {
                let words = in_words(source);
                write!(f, "cannot {operation} {length_bytes} bytes at byte {offset_bytes}: {words}")
            }
        }
    }
}

impl DeviceError {
    /// An access that does not lie within the device.
    pub fn outside(operation: DeviceOperation, offset_bytes: u64, length_bytes: u64) -> Self {
        let source = io::Error::new(io::ErrorKind::UnexpectedEof, "outside the device");
        Self { operation, offset_bytes, length_bytes, source }
    }

    /// Whether the host failed rather than the medium: out of memory, permission denied, stale handle. The bytes are unknown then, and a
    /// retry may succeed.
    pub fn is_of_host(&self) -> bool {
        const OF_MEDIUM: [Errno; 9] = [
            Errno::IO,
            Errno::NODATA,
            Errno::ILSEQ,
            Errno::REMOTEIO,
            Errno::TIMEDOUT,
            Errno::NOLINK,
            Errno::BADMSG,
            Errno::UCLEAN,
            Errno::BADE,
        ];
        match self.source.raw_os_error() {
            Some(number) => !OF_MEDIUM.iter().any(|errno| errno.raw_os_error() == number),
            None => self.source.kind() == io::ErrorKind::OutOfMemory,
        }
    }

    /// The same error again.
    pub fn copy(&self) -> Self {
        let source = match self.source.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(self.source.kind(), self.source.to_string()),
        };
        Self { source, ..*self }
    }

    /// An access to a file that another program has shortened: it had `whole_bytes`, and has lost all from byte `end_bytes` on.
    pub fn shortened(
        operation: DeviceOperation,
        offset_bytes: u64,
        length_bytes: u64,
        (end_bytes, whole_bytes): (u64, u64),
    ) -> Self {
        let words = format!(
            "another program has shortened the image from {whole_bytes} to {end_bytes} bytes while it was in use"
        );
        Self { operation, offset_bytes, length_bytes, source: io::Error::other(words) }
    }

    /// A write to a device that was opened for reading.
    pub fn read_only(operation: DeviceOperation, offset_bytes: u64, length_bytes: u64) -> Self {
        let source =
            io::Error::new(io::ErrorKind::PermissionDenied, "the device was opened for reading only");
        Self { operation, offset_bytes, length_bytes, source }
    }

    /// Checks that a device of `size_bytes` has a range.
    ///
    /// # Errors
    /// It has not.
    pub fn check_range(
        operation: DeviceOperation,
        offset_bytes: u64,
        length_bytes: u64,
        size_bytes: u64,
    ) -> Result<(), Self> {
        match offset_bytes.checked_add(length_bytes) {
            Some(end) if end <= size_bytes => Ok(()),
            _ => Err(Self::outside(operation, offset_bytes, length_bytes)),
        }
    }

    /// A length that no buffer can have.
    pub fn not_a_buffer(operation: DeviceOperation, offset_bytes: u64, length_bytes: u64) -> Self {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "not the length of a metadata buffer");
        Self { operation, offset_bytes, length_bytes, source }
    }
}

/// One piece of a batched read.
#[derive(Debug)]
pub struct ReadSegment<'a> {
    /// First byte on the device.
    pub offset_bytes: u64,
    /// Filled completely.
    pub buffer: &'a mut [u8],
}

/// One piece of a batched write.
#[derive(Debug)]
pub struct WriteSegment<'a> {
    /// First byte on the device.
    pub offset_bytes: u64,
    /// Written completely.
    pub bytes: &'a [u8],
}

/// A piece of a batch, read or written.
pub trait Segment {
    /// First byte on the device.
    fn offset_bytes(&self) -> u64;
    /// Its memory.
    fn bytes(&self) -> &[u8];
}

impl Segment for ReadSegment<'_> {
    fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    fn bytes(&self) -> &[u8] {
        self.buffer
    }
}

impl Segment for WriteSegment<'_> {
    fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    fn bytes(&self) -> &[u8] {
        self.bytes
    }
}

/// Most segments that one request of the system takes (`IOV_MAX`).
pub const MAX_RUN_SEGMENTS: usize = 1024;

/// Divides a batch into runs: neighbours in the batch that are neighbours on the device too, so that an engine makes
/// one request of each.
pub fn contiguous_runs<S: Segment>(segments: &[S]) -> impl Iterator<Item = Range<usize>> {
    let mut begin = 0;
    std::iter::from_fn(move || {
        let mut end_bytes = segments.get(begin)?.offset_bytes();
        let joins = |segment: &&S| {
            let is_neighbour = segment.offset_bytes() == end_bytes;
            end_bytes = end_bytes.saturating_add(segment.bytes().len() as u64);
            is_neighbour
        };
        let count = segments[begin..].iter().take(MAX_RUN_SEGMENTS).take_while(joins).count();
        let run = begin..begin + count;
        begin = run.end;
        Some(run)
    })
}

/// Bytes of a batch or of a part of one.
pub fn batch_bytes<S: Segment>(segments: &[S]) -> u64 {
    segments.iter().map(|segment| segment.bytes().len() as u64).sum()
}

/// The alignment of requests in bytes. Engines take any read; where this is not 1, an unaligned one costs a copy, and
/// an unaligned write is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alignment {
    /// Of offsets and lengths on the device, in bytes.
    pub offset_bytes: u32,
    /// Of addresses in memory, in bytes.
    pub memory_bytes: u32,
}

impl Alignment {
    /// Anything goes.
    pub const NONE: Self = Self { offset_bytes: 1, memory_bytes: 1 };

    /// Checks that a device may begin at this byte of another one.
    ///
    /// # Errors
    /// Requests to its beginning would not be aligned.
    pub fn check_start(self, start_bytes: u64) -> io::Result<()> {
        if start_bytes.is_multiple_of(self.offset_bytes.into()) {
            return Ok(());
        }
        let message = format!("direct I/O here must begin at a multiple of {} bytes", self.offset_bytes);
        Err(io::Error::new(io::ErrorKind::InvalidInput, message))
    }
}

/// Tells whether two devices are the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Of a block device its own number, of a file that of the device on which it lies.
    pub device: u64,
    /// Inode number of a file; none for a block device.
    pub inode: Option<u64>,
    /// Where in it the device begins.
    pub start_bytes: u64,
}

/// A device of fixed size, usable from many threads at once.
///
/// Every implementation, wrappers too, passes the suite in `engine/conformance_tests.rs`.
pub trait BlockDevice: Send + Sync + fmt::Debug {
    /// Size in bytes.
    fn size_bytes(&self) -> u64;

    /// The alignment that requests should have.
    fn alignment(&self) -> Alignment {
        Alignment::NONE
    }

    /// Whether every write fails.
    fn is_read_only(&self) -> bool {
        false
    }

    /// The identity of the file or device behind it; none for memory that no other process can reach.
    fn identity(&self) -> Option<Identity> {
        None
    }

    /// The engine's name, for messages.
    fn engine(&self) -> &'static str;

    /// Fills `buffer` from `offset_bytes`.
    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError>;

    /// Fills all segments, in one submission where the engine can, each run of neighbours in one request. After an
    /// error the contents of all segments are undefined.
    fn read_batch(&self, segments: &mut [ReadSegment<'_>]) -> Result<(), DeviceError> {
        segments.iter_mut().try_for_each(|segment| self.read(segment.offset_bytes, segment.buffer))
    }

    /// Writes `bytes` at `offset_bytes`.
    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Writes all segments, in one submission where the engine can. The order among them is not defined.
    fn write_batch(&self, segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        segments.iter().try_for_each(|segment| self.write(segment.offset_bytes, segment.bytes))
    }

    /// Lets this device share bytes with a file instead of copying them, where both are files on one file system that
    /// can (`FICLONERANGE`): gives how many bytes from the start are shared now, whole blocks of that file system.
    /// `None` where that is not possible at all.
    fn share_from_file(
        &self,
        _file: BorrowedFd<'_>,
        _file_offset_bytes: u64,
        _offset_bytes: u64,
        _length_bytes: u64,
    ) -> Option<u64> {
        None
    }

    /// Puts bytes into a pipe without copying them: it gets the pages that the system has cached, which later writes change. Gives how
    /// many bytes the pipe took, fewer only where it is full. `None` where that is not possible: nothing is in the pipe then.
    #[doc(alias = "splice")]
    fn lend(
        &self,
        _offset_bytes: u64,
        _length_bytes: usize,
        _pipe: BorrowedFd<'_>,
    ) -> Option<Result<usize, DeviceError>> {
        None
    }

    /// Gives holes of the file behind it room before they are written to. `None` where writes need no more room than there is: on block
    /// devices, in memory, in files without holes.
    fn hole_filler(&self) -> Option<HoleFiller<'_>> {
        None
    }

    /// The open file or device behind it with its locks; `None` where there is none.
    fn claimed(&self) -> Option<&Claimed> {
        None
    }

    /// Checks that the file behind it still has all bytes of the device: another program may have shortened it.
    ///
    /// # Errors
    /// It has been shortened, now or before.
    fn check_length(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Makes all writes that returned before this call durable. Fails where they are lost because the file was shortened.
    fn flush(&self) -> Result<(), DeviceError>;

    /// Says that a range is no longer needed; later reads of it may give anything.
    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError>;
}
