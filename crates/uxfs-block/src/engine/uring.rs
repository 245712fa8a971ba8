//! Files and block devices through io_uring: one system call for each batch.
//!
//! Each batch takes a ring of the device's pool, so that threads do not wait for each other; there are never more
//! rings than threads that had a batch under way at once. Single requests go through `pread` and `pwrite`, which
//! cost less than a round through a ring.
//!
//! Invariants:
//! 1. While the kernel works on a request, the memory and the vectors that it was given stay where they are, and
//!    nothing else touches them: [`Batch::run`] returns only when all requests that the kernel accepted are over.
//! 2. A ring goes back to the pool only when no request is left in it, accepted or not.
#![allow(unsafe_code)]

use std::{
    fmt, io,
    marker::PhantomData,
    ops::Range,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    path::Path,
    sync::OnceLock,
    time::Duration,
};

use io_uring::{IoUring, opcode, register::Restriction, squeue, types::Fd};
use parking_lot::Mutex;

use super::{OpenOptions, hole_filler::HoleFiller, open_file::OpenFile};
use crate::{
    claim::Claimed,
    device::{
        Alignment, BlockDevice, DeviceError, DeviceOperation, Identity, ReadSegment, WriteSegment,
        batch_bytes, contiguous_runs,
    },
};

/// Requests under way at once in one batch.
const QUEUE_DEPTH: usize = 128;
/// How often a ring that the kernel no longer lets us enter is looked at.
const DRAIN_INTERVAL: Duration = Duration::from_millis(1);
/// How often one request is tried again after the kernel said that it cannot now.
const MAX_RETRIES: u32 = 1000;

/// Whether the system lets this process use io_uring: kernels may lack it, administrators and sandboxes forbid it.
pub fn is_permitted() -> bool {
    static IS_PERMITTED: OnceLock<bool> = OnceLock::new();
    *IS_PERMITTED.get_or_init(|| new_ring().is_ok())
}

fn new_ring() -> io::Result<IoUring> {
    let entries = QUEUE_DEPTH as u32;
    // Without the flag the kernel interrupts the thread for each completion; kernels before 5.19 do not know it.
    IoUring::builder().setup_coop_taskrun().build(entries).or_else(|_| IoUring::new(entries))
}

/// Rings that were made ahead, for any device.
static PREPARED: Mutex<Vec<IoUring>> = Mutex::new(Vec::new());

/// Makes rings for devices to come, as many as threads that may have a batch under way: a process that is to be confined can make none
/// later. They read and write, and do nothing else that io_uring offers. Without them batches go through `preadv` and `pwritev`.
///
/// # Errors
/// The system does not let this process use io_uring, or restrict it.
pub fn prepare_rings(count: usize) -> io::Result<()> {
    let rings = (0..count).map(|_| new_restricted_ring()).collect::<io::Result<Vec<_>>>()?;
    PREPARED.lock().extend(rings);
    Ok(())
}

fn new_restricted_ring() -> io::Result<IoUring> {
    let ring = IoUring::builder().setup_r_disabled().setup_coop_taskrun().build(QUEUE_DEPTH as u32)?;
    let operations = [opcode::Read::CODE, opcode::Readv::CODE, opcode::Write::CODE, opcode::Writev::CODE];
    let mut allowed = operations.map(Restriction::sqe_op);
    ring.submitter().register_restrictions(&mut allowed)?;
    ring.submitter().register_enable_rings()?;
    Ok(ring)
}

/// An open file or block device, or a part of one.
pub struct UringDevice {
    open: OpenFile,
    rings: Mutex<Vec<IoUring>>,
}

impl UringDevice {
    /// Opens `path`.
    ///
    /// # Errors
    /// It cannot be opened in this way, or the system does not let this process use io_uring.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, DeviceError> {
        Self::on(OpenFile::open(path, options)?)
    }

    pub(super) fn on(open: OpenFile) -> Result<Self, DeviceError> {
        let prepared = PREPARED.lock().pop();
        let ring = prepared.map_or_else(new_ring, Ok).map_err(|source| DeviceError {
            operation: DeviceOperation::Open,
            offset_bytes: open.start_bytes,
            length_bytes: 0,
            source,
        })?;
        Ok(Self { open, rings: Mutex::new(vec![ring]) })
    }

    /// `None` where the kernel refused the ring, so that nothing is known of the batch.
    fn run(&self, batch: &mut Batch<'_>) -> Option<Result<(), DeviceError>> {
        // Two statements: the pool's lock must not be held while a ring is made.
        let pooled = self.rings.lock().pop().or_else(|| PREPARED.lock().pop());
        let mut ring = match pooled {
            Some(ring) => ring,
            None => new_ring().ok()?,
        };
        let result = batch.run(&mut ring).ok()?;
        self.rings.lock().push(ring);
        Some(result.map_err(|error| self.open.explain(error)))
    }
}

impl fmt::Debug for UringDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UringDevice").field("open", &self.open).finish_non_exhaustive()
    }
}

impl BlockDevice for UringDevice {
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
        "io_uring"
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.open.read(offset_bytes, buffer)
    }

    fn read_batch(&self, segments: &mut [ReadSegment<'_>]) -> Result<(), DeviceError> {
        if self.open.are_aligned(segments)
            && let Some(mut batch) = Batch::of_reads(&self.open, segments)?
            && let Some(result) = self.run(&mut batch)
        {
            return result;
        }
        self.open.read_runs(segments)
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.open.write(offset_bytes, bytes)
    }

    fn write_batch(&self, segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        if self.open.are_aligned(segments)
            && let Some(mut batch) = Batch::of_writes(&self.open, segments)?
            && let Some(result) = self.run(&mut batch)
        {
            return result;
        }
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

/// `struct iovec`.
#[repr(C)]
struct Vector {
    base: *mut u8,
    length_bytes: usize,
}

/// One run of neighbours: what is left of it, and what it was.
struct Request {
    position: u64,
    vectors: Range<usize>,
    left_bytes: u64,
    offset_bytes: u64,
    length_bytes: u64,
    retries: u32,
}

/// Requests, and the caller's memory that they fill or write.
struct Batch<'memory> {
    file: RawFd,
    operation: DeviceOperation,
    vectors: Vec<Vector>,
    requests: Vec<Request>,
    memory: PhantomData<&'memory mut [u8]>,
}

/// The kernel does not let us enter the ring.
struct RingRefused;

/// Requests that the kernel has accepted and that are not over. To unwind with one would free memory that the kernel
/// still writes.
struct Accepted(usize);

impl Drop for Accepted {
    fn drop(&mut self) {
        if self.0 > 0 {
            std::process::abort();
        }
    }
}

impl<'memory> Batch<'memory> {
    /// `None` where one request is all: it needs no ring.
    fn of_reads(
        open: &OpenFile,
        segments: &'memory mut [ReadSegment<'_>],
    ) -> Result<Option<Self>, DeviceError> {
        let runs: Vec<_> = contiguous_runs(segments)
            .map(|run| (segments[run.start].offset_bytes, batch_bytes(&segments[run.clone()]), run))
            .collect();
        let vectors = segments
            .iter_mut()
            .map(|segment| Vector { base: segment.buffer.as_mut_ptr(), length_bytes: segment.buffer.len() });
        Self::new(open, DeviceOperation::Read, runs, vectors.collect())
    }

    fn of_writes(
        open: &OpenFile,
        segments: &'memory [WriteSegment<'_>],
    ) -> Result<Option<Self>, DeviceError> {
        let runs: Vec<_> = contiguous_runs(segments)
            .map(|run| (segments[run.start].offset_bytes, batch_bytes(&segments[run.clone()]), run))
            .collect();
        // The kernel only reads the memory of a write.
        let vectors = segments.iter().map(|segment| Vector {
            base: segment.bytes.as_ptr().cast_mut(),
            length_bytes: segment.bytes.len(),
        });
        Self::new(open, DeviceOperation::Write, runs, vectors.collect())
    }

    fn new(
        open: &OpenFile,
        operation: DeviceOperation,
        runs: Vec<(u64, u64, Range<usize>)>,
        vectors: Vec<Vector>,
    ) -> Result<Option<Self>, DeviceError> {
        if runs.len() < 2 {
            return Ok(None);
        }
        let request = |(offset_bytes, length_bytes, vectors)| {
            let position = open.position(operation, offset_bytes, length_bytes)?;
            let left_bytes = length_bytes;
            Ok(Request { position, vectors, left_bytes, offset_bytes, length_bytes, retries: 0 })
        };
        let requests = runs.into_iter().map(request).collect::<Result<Vec<_>, DeviceError>>()?;
        let file = open.file.as_raw_fd();
        Ok(Some(Self { file, operation, vectors, requests, memory: PhantomData }))
    }

    /// Carries all requests out. When it returns, none is under way (invariant 1); unless the ring was refused, none
    /// is left in it either (invariant 2).
    fn run(&mut self, ring: &mut IoUring) -> Result<Result<(), DeviceError>, RingRefused> {
        let mut waiting: Vec<usize> =
            (0..self.requests.len()).rev().filter(|index| self.requests[*index].left_bytes > 0).collect();
        let (mut queued, mut accepted) = (0, Accepted(0));
        let mut result = Ok(());
        loop {
            while queued + accepted.0 < QUEUE_DEPTH
                && let Some(index) = waiting.pop()
            {
                // SAFETY: the entry names memory of `'memory` and vectors of `self`; both stay until this function
                // returns, and it returns with `accepted` at zero (invariant 1). `self.file` is open as long as the
                // device, of which the caller has a reference.
                if unsafe { ring.submission().push(&self.entry(index)) }.is_err() {
                    waiting.push(index);
                    break;
                }
                queued += 1;
            }
            if queued + accepted.0 == 0 {
                return Ok(result);
            }
            let outstanding = queued + accepted.0;
            let wanted = if waiting.is_empty() { outstanding } else { outstanding.div_ceil(2) };
            match ring.submit_and_wait(wanted) {
                Ok(count) => {
                    queued -= count;
                    accepted.0 += count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Completions that have not been collected yet block further ones.
                Err(error) if accepted.0 > 0 && is_temporary(&error) => {}
                Err(_) => {
                    drain(ring, &mut accepted);
                    return Err(RingRefused);
                }
            }
            for completion in ring.completion() {
                accepted.0 -= 1;
                let index = completion.user_data() as usize;
                match self.complete(index, completion.result()) {
                    Ok(true) => {}
                    Ok(false) => waiting.push(index),
                    Err(error) => result = result.and(Err(error)),
                }
            }
            if result.is_err() {
                waiting.clear();
            }
        }
    }

    fn entry(&self, index: usize) -> squeue::Entry {
        let request = &self.requests[index];
        let vectors = &self.vectors[request.vectors.clone()];
        let (file, position) = (Fd(self.file), request.position);
        let count = vectors.len() as u32;
        let entry = match (self.operation, vectors) {
            (DeviceOperation::Write, [one]) if let Ok(length) = u32::try_from(one.length_bytes) => {
                opcode::Write::new(file, one.base, length).offset(position).build()
            }
            (DeviceOperation::Write, _) => {
                opcode::Writev::new(file, vectors.as_ptr().cast(), count).offset(position).build()
            }
            (_, [one]) if let Ok(length) = u32::try_from(one.length_bytes) => {
                opcode::Read::new(file, one.base, length).offset(position).build()
            }
            _ => opcode::Readv::new(file, vectors.as_ptr().cast(), count).offset(position).build(),
        };
        entry.user_data(index as u64)
    }

    /// Takes note of what became of a request. False where it must be tried again, for the rest or for all.
    fn complete(&mut self, index: usize, result: i32) -> Result<bool, DeviceError> {
        let request = &mut self.requests[index];
        let fail = |source| DeviceError {
            operation: self.operation,
            offset_bytes: request.offset_bytes,
            length_bytes: request.length_bytes,
            source,
        };
        match u64::try_from(result) {
            Ok(0) if self.operation == DeviceOperation::Read => {
                Err(fail(io::ErrorKind::UnexpectedEof.into()))
            }
            Ok(0) => Err(fail(io::ErrorKind::WriteZero.into())),
            Ok(count) => {
                request.position += count;
                request.left_bytes = request.left_bytes.saturating_sub(count);
                skip(&mut self.vectors, &mut request.vectors, count as usize);
                Ok(request.left_bytes == 0)
            }
            Err(_) => {
                let error = io::Error::from_raw_os_error(result.saturating_neg());
                let is_temporary = error.kind() == io::ErrorKind::Interrupted || is_temporary(&error);
                if is_temporary && request.retries < MAX_RETRIES {
                    request.retries += 1;
                    return Ok(false);
                }
                Err(fail(error))
            }
        }
    }
}

/// Leaves out the first `count` bytes of the vectors in `range`.
fn skip(vectors: &mut [Vector], range: &mut Range<usize>, mut count: usize) {
    while count > 0 && range.start < range.end {
        let vector = &mut vectors[range.start];
        let step = count.min(vector.length_bytes);
        vector.base = vector.base.wrapping_add(step);
        vector.length_bytes -= step;
        count -= step;
        if vector.length_bytes == 0 {
            range.start += 1;
        }
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy)
}

/// Waits until the kernel is done with what it accepted, without entering the ring: completions are written to
/// memory that it shares with us.
fn drain(ring: &mut IoUring, accepted: &mut Accepted) {
    loop {
        accepted.0 -= ring.completion().count().min(accepted.0);
        if accepted.0 == 0 {
            return;
        }
        std::thread::sleep(DRAIN_INTERVAL);
    }
}
