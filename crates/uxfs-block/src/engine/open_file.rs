//! An open file or block device: what the engines for them have in common.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::{
    fs::{self as system, AtFlags, FileType, OFlags, StatxFlags},
    io::Errno,
    pipe::{SpliceFlags, splice},
};

use super::OpenOptions;
use crate::{
    claim::Claimed,
    device::{Alignment, DeviceError, DeviceOperation, Identity},
};

/// Offsets and lengths of direct I/O where the system does not say: the largest sector of any disk in use.
const DIRECT_ALIGNMENT_BYTES: u32 = 4096;

/// Magic numbers of file systems whose files can share blocks: XFS, Btrfs, bcachefs, OCFS2.
const SHARING_FILE_SYSTEMS: [u64; 4] = [0x5846_5342, 0x9123_683e, 0xca45_1a4e, 0x7461_636f];

#[derive(Debug)]
pub(super) struct OpenFile {
    claimed: Claimed,
    pub start_bytes: u64,
    pub size_bytes: u64,
    pub alignment: Alignment,
    pub identity: Identity,
    pub is_read_only: bool,
    /// Bytes that the file has kept, once another program has shortened it; [`WHOLE`] before. It never becomes whole again: what was behind
    /// this byte is lost, also where the file has grown since.
    kept_bytes: AtomicU64,
    /// Lowest byte of the file written since the last check of its length; [`WHOLE`] if none.
    lowest_write_bytes: AtomicU64,
}

/// No byte of the file is known to be lost.
const WHOLE: u64 = u64::MAX;

impl std::ops::Deref for OpenFile {
    type Target = Claimed;

    fn deref(&self) -> &Claimed {
        &self.claimed
    }
}

fn failed_to_open(options: &OpenOptions, source: io::Error) -> DeviceError {
    DeviceError {
        operation: DeviceOperation::Open,
        offset_bytes: options.start_bytes,
        length_bytes: 0,
        source,
    }
}

impl OpenFile {
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, DeviceError> {
        Self::try_open(path, options).map_err(|source| failed_to_open(options, source))
    }

    /// From what is open already.
    pub fn of(claimed: Claimed, options: &OpenOptions) -> Result<Self, DeviceError> {
        Self::try_of(claimed, options).map_err(|source| failed_to_open(options, source))
    }

    fn try_open(path: &Path, options: &OpenOptions) -> io::Result<Self> {
        let access = if options.writable { OFlags::RDWR } else { OFlags::RDONLY };
        let direct = if options.direct { OFlags::DIRECT } else { OFlags::empty() };
        match Claimed::open(path, access | direct, options.lock).map_err(io::Error::from) {
            Err(error) if options.direct && Errno::from_io_error(&error) == Some(Errno::INVAL) => {
                Err(no_direct_io())
            }
            claimed => Self::try_of(claimed?, options),
        }
    }

    fn try_of(claimed: Claimed, options: &OpenOptions) -> io::Result<Self> {
        let file = &claimed.file;
        let status = system::fstat(file)?;
        let file_type = FileType::from_raw_mode(status.st_mode);
        let is_block_device = file_type == FileType::BlockDevice;
        let alignment =
            if options.direct { direct_alignment(file, is_block_device)? } else { Alignment::NONE };
        alignment.check_start(options.start_bytes)?;
        let identity = Identity {
            device: if is_block_device { status.st_rdev } else { status.st_dev },
            inode: (!is_block_device).then_some(status.st_ino),
            start_bytes: options.start_bytes,
        };
        // Seeking to the end gives the size of block devices too, for which the status says 0.
        let end_bytes = system::seek(file, system::SeekFrom::End(0))?;
        Ok(Self {
            claimed,
            start_bytes: options.start_bytes,
            size_bytes: end_bytes.saturating_sub(options.start_bytes),
            alignment,
            identity,
            is_read_only: !options.writable,
            kept_bytes: AtomicU64::new(WHOLE),
            lowest_write_bytes: AtomicU64::new(WHOLE),
        })
    }

    /// Checks that a range lies within the device, and says where it lies in the file. Of a shortened file nothing is written, and nothing
    /// read that it has lost: there it may read as zeros, because a write behind it has made it grow.
    ///
    /// A write that ends where the file ends would hide that it has been shortened, so it looks first. Other writes leave the file shorter
    /// than it was, which the next [`flush`](Self::flush) notices.
    pub fn position(
        &self,
        operation: DeviceOperation,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<u64, DeviceError> {
        if self.is_read_only && operation != DeviceOperation::Read {
            return Err(DeviceError::read_only(operation, offset_bytes, length_bytes));
        }
        DeviceError::check_range(operation, offset_bytes, length_bytes, self.size_bytes)?;
        let position = self.start_bytes + offset_bytes;
        let end = offset_bytes + length_bytes;
        let kept = self.kept_bytes.load(Ordering::Relaxed);
        if kept != WHOLE && (operation != DeviceOperation::Read || self.start_bytes + end > kept) {
            return Err(self.shortened(operation, offset_bytes, length_bytes, kept));
        }
        if operation != DeviceOperation::Read {
            self.lowest_write_bytes.fetch_min(position, Ordering::Relaxed);
        }
        if operation == DeviceOperation::Write && end == self.size_bytes {
            self.check_length(operation, offset_bytes, length_bytes)?;
        }
        Ok(position)
    }

    fn shortened(
        &self,
        operation: DeviceOperation,
        offset_bytes: u64,
        length_bytes: u64,
        kept: u64,
    ) -> DeviceError {
        let whole = self.start_bytes.saturating_add(self.size_bytes);
        DeviceError::shortened(operation, offset_bytes, length_bytes, (kept, whole))
    }

    /// Checks that the file is as long as it was when it was opened.
    ///
    /// # Errors
    /// It has been shortened, now or before; as one of an access to this range.
    pub fn check_length(
        &self,
        operation: DeviceOperation,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<(), DeviceError> {
        // The status of a block device has no size.
        let end = match self.identity.inode {
            Some(_) => system::fstat(&self.file).map(|status| u64::try_from(status.st_size).unwrap_or(0)),
            None => system::seek(&self.file, system::SeekFrom::End(0)),
        };
        let end =
            end.map_err(|errno| DeviceError { operation, offset_bytes, length_bytes, source: errno.into() })?;
        if end < self.start_bytes.saturating_add(self.size_bytes) {
            // A later write may have grown the file again, with zeros before it.
            let lowest = self.lowest_write_bytes.load(Ordering::Relaxed);
            self.kept_bytes.fetch_min(end.min(lowest), Ordering::Relaxed);
        } else {
            self.lowest_write_bytes.store(WHOLE, Ordering::Relaxed);
        }
        match self.kept_bytes.load(Ordering::Relaxed) {
            WHOLE => Ok(()),
            kept => Err(self.shortened(operation, offset_bytes, length_bytes, kept)),
        }
    }

    /// Says of an access that met the end of the file that the file has been shortened: all accesses lie within what it had.
    pub fn explain(&self, error: DeviceError) -> DeviceError {
        if error.source.kind() != io::ErrorKind::UnexpectedEof {
            return error;
        }
        let checked = self.check_length(error.operation, error.offset_bytes, error.length_bytes);
        checked.err().unwrap_or(error)
    }

    /// Whether reads can be asked to fail rather than wait: what io_uring needs to serve them at once.
    pub fn answers_without_waiting(&self) -> bool {
        let mut byte = [0];
        let flags = rustix::io::ReadWriteFlags::NOWAIT;
        let result = rustix::io::preadv2(&self.file, &mut [io::IoSliceMut::new(&mut byte)], 0, flags);
        !matches!(result, Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS))
    }

    /// As [`BlockDevice::lend`](crate::device::BlockDevice::lend). Past the page cache the system would copy all the same.
    pub fn lend(
        &self,
        offset_bytes: u64,
        length_bytes: usize,
        pipe: BorrowedFd<'_>,
    ) -> Option<Result<usize, DeviceError>> {
        if self.alignment != Alignment::NONE {
            return None;
        }
        let failed = |source| DeviceError {
            operation: DeviceOperation::Read,
            offset_bytes,
            length_bytes: length_bytes as u64,
            source,
        };
        let mut position = match self.position(DeviceOperation::Read, offset_bytes, length_bytes as u64) {
            Ok(position) => position,
            Err(error) => return Some(Err(error)),
        };
        let mut lent = 0;
        while lent < length_bytes {
            match splice(
                &self.file,
                Some(&mut position),
                pipe,
                None,
                length_bytes - lent,
                SpliceFlags::NONBLOCK,
            ) {
                Ok(0) => return Some(Err(self.explain(failed(io::ErrorKind::UnexpectedEof.into())))),
                Ok(count) => lent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // This kind of file has no pages to lend.
                Err(Errno::INVAL) if lent == 0 => return None,
                Err(error) => return Some(Err(failed(error.into()))),
            }
        }
        Some(Ok(lent))
    }

    /// As [`BlockDevice::share_from_file`](crate::device::BlockDevice::share_from_file). `copy_file_range` shares where
    /// it can and copies elsewhere, so it is asked only on file systems that share, for whole blocks.
    pub fn share_from_file(
        &self,
        file: BorrowedFd<'_>,
        file_offset_bytes: u64,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Option<u64> {
        let mut target = self.position(DeviceOperation::Write, offset_bytes, length_bytes).ok()?;
        let (own, other) = (system::fstat(&self.file).ok()?, system::fstat(file).ok()?);
        let is_regular = |mode| FileType::from_raw_mode(mode) == FileType::RegularFile;
        let status = system::fstatfs(&self.file).ok()?;
        if own.st_dev != other.st_dev
            || !is_regular(own.st_mode)
            || !is_regular(other.st_mode)
            || !SHARING_FILE_SYSTEMS.contains(&u64::try_from(status.f_type).ok()?)
        {
            return None;
        }
        let block = u64::try_from(status.f_bsize).ok().filter(|block| *block > 0)?;
        if !target.is_multiple_of(block) || !file_offset_bytes.is_multiple_of(block) {
            return Some(0);
        }
        let wanted = length_bytes - length_bytes % block;
        let (mut source, mut shared) = (file_offset_bytes, 0);
        while shared < wanted {
            let length = usize::try_from(wanted - shared).ok()?;
            match system::copy_file_range(file, Some(&mut source), &self.file, Some(&mut target), length) {
                Ok(0) | Err(_) => break,
                Ok(copied) => shared += copied as u64,
            }
        }
        Some(shared - shared % block)
    }

    pub fn flush(&self) -> Result<(), DeviceError> {
        let operation = DeviceOperation::Flush;
        let length_bytes = self.size_bytes;
        self.file.sync_data().map_err(|source| DeviceError {
            operation,
            offset_bytes: 0,
            length_bytes,
            source,
        })?;
        // What was written behind the new end is lost, or will be.
        self.check_length(operation, 0, length_bytes)
    }

    pub fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        let operation = DeviceOperation::Discard;
        let position = self.position(operation, offset_bytes, length_bytes)?;
        if length_bytes == 0 {
            return Ok(());
        }
        let flags = system::FallocateFlags::PUNCH_HOLE | system::FallocateFlags::KEEP_SIZE;
        system::fallocate(&self.file, flags, position, length_bytes).map_err(|errno| DeviceError {
            operation,
            offset_bytes,
            length_bytes,
            source: errno.into(),
        })
    }
}

fn no_direct_io() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "direct I/O (O_DIRECT) is not possible here; open it without")
}

/// Alignment that the system requires of direct requests to `file`.
fn direct_alignment(file: &File, is_block_device: bool) -> io::Result<Alignment> {
    if is_block_device {
        let sector_bytes = system::ioctl_blksszget(file)?.max(512);
        return Ok(Alignment { offset_bytes: sector_bytes, memory_bytes: sector_bytes });
    }
    let status = system::statx(file.as_fd(), "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    match status {
        Ok(status) if status.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            match (status.stx_dio_offset_align, status.stx_dio_mem_align) {
                (0, _) | (_, 0) => Err(no_direct_io()),
                (offset_bytes, memory_bytes) => Ok(Alignment { offset_bytes, memory_bytes }),
            }
        }
        // Linux before 6.1.
        _ => Ok(Alignment { offset_bytes: DIRECT_ALIGNMENT_BYTES, memory_bytes: DIRECT_ALIGNMENT_BYTES }),
    }
}
