//! Files and block devices through `preadv` and `pwritev`: one system call for each run of neighbours.

use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut},
    os::{fd::BorrowedFd, unix::fs::FileExt},
    path::Path,
};

use super::{OpenOptions, hole_filler::HoleFiller, open_file::OpenFile};
use crate::{
    aligned_buffer::AlignedBuffer,
    claim::Claimed,
    device::{
        Alignment, BlockDevice, DeviceError, DeviceOperation, Identity, ReadSegment, Segment, WriteSegment,
        batch_bytes, contiguous_runs,
    },
};

/// An open file or block device, or a part of one.
#[derive(Debug)]
pub struct SyncDevice {
    open: OpenFile,
}

impl SyncDevice {
    /// Opens `path`.
    ///
    /// # Errors
    /// It cannot be opened in this way.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, DeviceError> {
        Ok(Self::on(OpenFile::open(path, options)?))
    }

    pub(super) fn on(open: OpenFile) -> Self {
        Self { open }
    }

    /// Opens `path` for reading only; byte 0 of the device is byte `start_bytes` of the file.
    ///
    /// # Errors
    /// It cannot be opened in this way.
    pub fn open_read_only(path: &Path, start_bytes: u64) -> Result<Self, DeviceError> {
        Self::open(path, &OpenOptions { start_bytes, ..OpenOptions::default() })
    }
}

impl BlockDevice for SyncDevice {
    fn size_bytes(&self) -> u64 {
        self.open.size_bytes
    }

    fn alignment(&self) -> Alignment {
        self.open.alignment
    }

    fn is_read_only(&self) -> bool {
        self.open.is_read_only
    }

    fn identity(&self) -> Option<Identity> {
        Some(self.open.identity)
    }

    fn engine(&self) -> &'static str {
        "sync"
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.open.read(offset_bytes, buffer)
    }

    fn read_batch(&self, segments: &mut [ReadSegment<'_>]) -> Result<(), DeviceError> {
        self.open.read_runs(segments)
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.open.write(offset_bytes, bytes)
    }

    fn write_batch(&self, segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        self.open.write_runs(segments)
    }

    fn share_from_file(
        &self,
        file: BorrowedFd<'_>,
        file_offset_bytes: u64,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Option<u64> {
        self.open.share_from_file(file, file_offset_bytes, offset_bytes, length_bytes)
    }

    fn lend(
        &self,
        offset_bytes: u64,
        length_bytes: usize,
        pipe: BorrowedFd<'_>,
    ) -> Option<Result<usize, DeviceError>> {
        self.open.lend(offset_bytes, length_bytes, pipe)
    }

    fn hole_filler(&self) -> Option<HoleFiller<'_>> {
        HoleFiller::of(&self.open)
    }

    fn claimed(&self) -> Option<&Claimed> {
        Some(&self.open)
    }

    fn check_length(&self) -> Result<(), DeviceError> {
        self.open.check_length(DeviceOperation::Read, 0, 0)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.open.flush()
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        self.open.discard(offset_bytes, length_bytes)
    }
}

impl OpenFile {
    pub(super) fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let operation = DeviceOperation::Read;
        let length_bytes = buffer.len() as u64;
        let position = self.position(operation, offset_bytes, length_bytes)?;
        let result = if self.is_aligned(offset_bytes, buffer) {
            self.file.read_exact_at(buffer, position)
        } else {
            self.read_unaligned(position, buffer)
        };
        result.map_err(|source| self.explain(DeviceError { operation, offset_bytes, length_bytes, source }))
    }

    pub(super) fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let operation = DeviceOperation::Write;
        let length_bytes = bytes.len() as u64;
        let position = self.position(operation, offset_bytes, length_bytes)?;
        let result = if self.is_aligned(offset_bytes, bytes) {
            self.file.write_all_at(bytes, position)
        } else {
            self.write_unaligned(position, bytes)
        };
        result.map_err(|source| self.explain(DeviceError { operation, offset_bytes, length_bytes, source }))
    }

    pub(super) fn read_runs(&self, segments: &mut [ReadSegment<'_>]) -> Result<(), DeviceError> {
        let runs: Vec<_> = contiguous_runs(segments).collect();
        for run in runs {
            match &mut segments[run] {
                [segment] => self.read(segment.offset_bytes, segment.buffer)?,
                run if run.iter().all(|segment| self.is_aligned(segment.offset_bytes, segment.buffer)) => {
                    self.read_run(run)?;
                }
                run => run.iter_mut().try_for_each(|one| self.read(one.offset_bytes, one.buffer))?,
            }
        }
        Ok(())
    }

    pub(super) fn write_runs(&self, segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        for run in contiguous_runs(segments) {
            match &segments[run] {
                [segment] => self.write(segment.offset_bytes, segment.bytes)?,
                run if run.iter().all(|segment| self.is_aligned(segment.offset_bytes, segment.bytes)) => {
                    self.write_run(run)?;
                }
                run => run.iter().try_for_each(|one| self.write(one.offset_bytes, one.bytes))?,
            }
        }
        Ok(())
    }

    fn read_run(&self, run: &mut [ReadSegment<'_>]) -> Result<(), DeviceError> {
        let (operation, offset_bytes, length_bytes) =
            (DeviceOperation::Read, run[0].offset_bytes, batch_bytes(run));
        let position = self.position(operation, offset_bytes, length_bytes)?;
        let mut slices: Vec<_> = run.iter_mut().map(|segment| IoSliceMut::new(segment.buffer)).collect();
        read_vectored(&self.file, position, &mut slices, length_bytes)
            .map_err(|source| self.explain(DeviceError { operation, offset_bytes, length_bytes, source }))
    }

    fn write_run(&self, run: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        let (operation, offset_bytes, length_bytes) =
            (DeviceOperation::Write, run[0].offset_bytes, batch_bytes(run));
        let position = self.position(operation, offset_bytes, length_bytes)?;
        let mut slices: Vec<_> = run.iter().map(|segment| IoSlice::new(segment.bytes)).collect();
        write_vectored(&self.file, position, &mut slices, length_bytes).map_err(|source| DeviceError {
            operation,
            offset_bytes,
            length_bytes,
            source,
        })
    }

    /// Whether a segment can go to the system as it is. `start_bytes` is aligned, or the file is not direct.
    pub(super) fn is_aligned(&self, offset_bytes: u64, bytes: &[u8]) -> bool {
        let Alignment { offset_bytes: offset_alignment, memory_bytes } = self.alignment;
        offset_bytes.is_multiple_of(offset_alignment.into())
            && bytes.len().is_multiple_of(offset_alignment as usize)
            && bytes.as_ptr().addr().is_multiple_of(memory_bytes as usize)
    }

    /// Whether all segments can.
    pub(super) fn are_aligned<S: Segment>(&self, segments: &[S]) -> bool {
        self.alignment == Alignment::NONE
            || segments.iter().all(|segment| self.is_aligned(segment.offset_bytes(), segment.bytes()))
    }

    /// Direct I/O that does not suit the caller's range or memory: reads what lies around it elsewhere.
    fn read_unaligned(&self, position: u64, buffer: &mut [u8]) -> io::Result<()> {
        let alignment = u64::from(self.alignment.offset_bytes);
        let begin = position - position % alignment;
        let skipped = (position - begin) as usize;
        let wanted = skipped + buffer.len();
        let mut around = AlignedBuffer::page_aligned(wanted.next_multiple_of(alignment as usize))?;
        let mut filled = 0;
        // The last sector of a file may be a part of one: it reads short, and that is enough.
        while filled < wanted {
            match self.file.read_at(&mut around[filled..], begin + filled as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        buffer.copy_from_slice(&around[skipped..wanted]);
        Ok(())
    }

    /// Direct I/O from memory that is not aligned. A range that is not cannot be written without reading what lies
    /// around it, which another thread may be writing.
    fn write_unaligned(&self, position: u64, bytes: &[u8]) -> io::Result<()> {
        let alignment = self.alignment.offset_bytes;
        if !position.is_multiple_of(alignment.into()) || !bytes.len().is_multiple_of(alignment as usize) {
            let message = format!("direct writes here must be multiples of {alignment} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let mut aligned = AlignedBuffer::page_aligned(bytes.len())?;
        aligned.copy_from_slice(bytes);
        self.file.write_all_at(&aligned, position)
    }
}

fn read_vectored(
    file: &File,
    mut position: u64,
    mut slices: &mut [IoSliceMut<'_>],
    mut left_bytes: u64,
) -> io::Result<()> {
    while left_bytes > 0 {
        match rustix::io::preadv(file, slices, position) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                IoSliceMut::advance_slices(&mut slices, count);
                position += count as u64;
                left_bytes -= count as u64;
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn write_vectored(
    file: &File,
    mut position: u64,
    mut slices: &mut [IoSlice<'_>],
    mut left_bytes: u64,
) -> io::Result<()> {
    while left_bytes > 0 {
        match rustix::io::pwritev(file, slices, position) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                IoSlice::advance_slices(&mut slices, count);
                position += count as u64;
                left_bytes -= count as u64;
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
