//! The memory of a ring entry, and the submissions that hand it to the kernel.
//!
//! ```text
//! room for the first structures │ payload …
//!            header, operation ─┘
//! ```
//!
//! The kernel puts the header and the first structure of a request into a buffer of their own. In front of the payload there is room for
//! both, so that a request with much data becomes one piece without a copy of the data.
#![allow(unsafe_code)]

use std::{
    fmt, io,
    os::fd::{AsRawFd, OwnedFd},
    ptr::NonNull,
    sync::OnceLock,
};

use io_uring::{IoUring, cqueue, opcode::UringCmd80, register::Restriction, squeue::Entry128, types::Fd};
use rustix::io::Errno;
use uxfs_block::aligned_buffer::AlignedBuffer;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::protocol::{
    reply::header::ReplyHeader,
    wire::{
        header::InHeader,
        rings::{RING_COMMIT_AND_FETCH, RING_REGISTER, RingCommand, RingHeader},
    },
};

/// An entry has two buffers.
const BUFFERS: u32 = 2;
/// Where a submission has the number of its buffers; the library has no setter.
const LENGTH_OFFSET_BYTES: usize = 24;
/// Submissions under way at once: one entry.
const QUEUE_DEPTH: u32 = 1;

/// A buffer, as readv(2) takes it.
#[repr(C)]
struct Vector {
    base: *mut u8,
    length_bytes: usize,
}

/// What the kernel may write.
struct Shared {
    header: RingHeader,
    vectors: [Vector; BUFFERS as usize],
    /// Room, then payload.
    bytes: AlignedBuffer,
}

/// The memory of one entry.
///
/// Invariant: while `is_with_kernel`, nothing here is read or written but by the kernel. It is shared through a raw pointer, so that no
/// reference claims it meanwhile.
pub struct RingEntryMemory {
    shared: NonNull<Shared>,
    is_with_kernel: bool,
}

// SAFETY: it owns what it points to, as a box would.
unsafe impl Send for RingEntryMemory {}

impl fmt::Debug for RingEntryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingEntryMemory")
            .field("is_with_kernel", &self.is_with_kernel)
            .finish_non_exhaustive()
    }
}

impl RingEntryMemory {
    /// Room in front of the payload.
    pub const ROOM_BYTES: usize = 4096;

    /// Of an entry with so much data.
    ///
    /// # Errors
    /// The system has no more memory for this process.
    pub fn new(payload_bytes: usize) -> io::Result<Self> {
        // A fresh mapping, whose pages are there once they are used.
        let mut bytes = AlignedBuffer::page_aligned(Self::ROOM_BYTES.saturating_add(payload_bytes))?;
        let payload = bytes.get_mut(Self::ROOM_BYTES..).unwrap_or_default();
        let payload = Vector { base: payload.as_mut_ptr(), length_bytes: payload.len() };
        let header = Vector { base: std::ptr::null_mut(), length_bytes: size_of::<RingHeader>() };
        let mut shared =
            Box::new(Shared { header: RingHeader::new_zeroed(), vectors: [header, payload], bytes });
        let [header, _] = &mut shared.vectors;
        header.base = (&raw mut shared.header).cast();
        Ok(Self { shared: NonNull::from(Box::leak(shared)), is_with_kernel: false })
    }

    /// # Panics
    /// The kernel has it.
    fn shared(&self) -> &Shared {
        assert!(!self.is_with_kernel, "the kernel has the entry");
        // SAFETY: `shared` came from a box that `drop` frees, and the kernel does not have it.
        unsafe { self.shared.as_ref() }
    }

    fn shared_mut(&mut self) -> &mut Shared {
        assert!(!self.is_with_kernel, "the kernel has the entry");
        // SAFETY: as in `shared`; `self` is borrowed alone.
        unsafe { self.shared.as_mut() }
    }

    /// The request's own number.
    #[must_use]
    pub fn unique(&self) -> u64 {
        InHeader::read_from_prefix(&self.shared().header.in_out).map_or(0, |(header, _)| header.unique)
    }

    /// The data of a request, and then of its reply.
    pub fn payload(&mut self) -> &mut [u8] {
        self.shared_mut().bytes.get_mut(Self::ROOM_BYTES..).unwrap_or_default()
    }

    /// Copies a request into one piece.
    pub fn copy_request(&self, arrived: &Arrived, request: &mut Vec<u8>) {
        let shared = self.shared();
        request.clear();
        let payload =
            shared.bytes.get(Self::ROOM_BYTES..).and_then(|payload| payload.get(..arrived.payload_bytes));
        for part in [
            shared.header.in_out.get(..size_of::<InHeader>()),
            shared.header.operation.get(..arrived.operation_bytes),
            payload,
        ] {
            request.extend_from_slice(part.unwrap_or_default());
        }
    }

    /// The request in one piece: header and operation are put in front of the payload.
    pub fn joined_request(&mut self, arrived: &Arrived) -> &[u8] {
        let Shared { header, bytes, .. } = self.shared_mut();
        let start = Self::ROOM_BYTES - size_of::<InHeader>() - arrived.operation_bytes;
        let Some(request) = bytes.get_mut(start..Self::ROOM_BYTES + arrived.payload_bytes) else {
            return &[];
        };
        let (head, rest) = request.split_at_mut(size_of::<InHeader>());
        head.iter_mut().zip(header.in_out).for_each(|(place, byte)| *place = byte);
        let operation = header.operation.iter().take(arrived.operation_bytes);
        rest.iter_mut().zip(operation).for_each(|(place, byte)| *place = *byte);
        request
    }

    /// Puts the header of a reply whose data are in [`payload`](Self::payload).
    pub fn put_reply(&mut self, reply: &ReplyHeader, payload_bytes: usize) {
        let header = &mut self.shared_mut().header;
        header.in_out.iter_mut().zip(reply.as_bytes()).for_each(|(place, byte)| *place = *byte);
        header.entry.payload_bytes = u32::try_from(payload_bytes).unwrap_or(0);
    }
}

impl Drop for RingEntryMemory {
    fn drop(&mut self) {
        // What the kernel still has stays behind.
        if !self.is_with_kernel {
            // SAFETY: `new` leaked this box, and nothing else has the pointer any more.
            drop(unsafe { Box::from_raw(self.shared.as_ptr()) });
        }
    }
}

/// The lengths of a request that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// The request's own number.
    pub unique: u64,
    /// The thread that made it, 0 for the kernel itself.
    pub caller: u32,
    /// Of the first structure.
    pub operation_bytes: usize,
    /// Of names, data and extensions.
    pub payload_bytes: usize,
}

impl Arrived {
    /// Of the request in an entry; `None` where its lengths cannot be.
    #[must_use]
    pub fn of(memory: &RingEntryMemory) -> Option<Self> {
        let shared = memory.shared();
        let (header, _) = InHeader::read_from_prefix(&shared.header.in_out).ok()?;
        let payload_bytes = shared.header.entry.payload_bytes as usize;
        let operation_bytes =
            (header.size_bytes as usize).checked_sub(size_of::<InHeader>())?.checked_sub(payload_bytes)?;
        let is_possible = operation_bytes <= shared.header.operation.len()
            && payload_bytes <= shared.bytes.len() - RingEntryMemory::ROOM_BYTES;
        is_possible.then_some(Self {
            unique: header.unique,
            caller: header.process_id,
            operation_bytes,
            payload_bytes,
        })
    }
}

type Ring = IoUring<Entry128, cqueue::Entry>;

/// A ring of one thread.
pub struct Submissions {
    ring: Ring,
    device: Option<OwnedFd>,
    queue: u16,
}

impl fmt::Debug for Submissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submissions").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl Submissions {
    /// For an entry of a queue. The device may be attached later: a confined process makes no rings.
    ///
    /// # Errors
    /// The system gives no ring.
    pub fn new(queue: u16) -> Result<Self, Errno> {
        Ok(Self { ring: new_ring()?, device: None, queue })
    }

    /// The queue of its entry.
    #[must_use]
    pub fn queue(&self) -> u16 {
        self.queue
    }

    /// An open `/dev/fuse` of the mount.
    pub fn attach(&mut self, device: OwnedFd) {
        self.device = Some(device);
    }

    /// Whether this process may have such rings.
    #[must_use]
    pub fn are_permitted() -> bool {
        static ARE_PERMITTED: OnceLock<bool> = OnceLock::new();
        *ARE_PERMITTED.get_or_init(|| new_ring().is_ok())
    }

    /// Will give an entry to the kernel for the first time.
    ///
    /// # Errors
    /// The ring is full.
    pub fn register(&mut self, memory: &mut RingEntryMemory) -> Result<(), Errno> {
        assert!(!memory.is_with_kernel, "the kernel has the entry");
        // SAFETY: `memory` owns what it points to.
        let vectors = unsafe { &raw const (*memory.shared.as_ptr()).vectors };
        let mut submission = self.submission(RING_REGISTER, 0, Some(vectors as u64));
        // SAFETY: a submission has the layout of the kernel's structure, and this field is within its 128 bytes.
        unsafe { (&raw mut submission).byte_add(LENGTH_OFFSET_BYTES).cast::<u32>().write_unaligned(BUFFERS) };
        self.push(memory, &submission)
    }

    /// Will give an entry with a reply back to the kernel, and ask for the next request.
    ///
    /// # Errors
    /// The ring is full.
    pub fn commit(&mut self, memory: &mut RingEntryMemory) -> Result<(), Errno> {
        let submission = self.submission(RING_COMMIT_AND_FETCH, memory.shared().header.entry.commit_id, None);
        self.push(memory, &submission)
    }

    fn submission(&self, command: u32, commit_id: u64, vectors: Option<u64>) -> Entry128 {
        // Without a device the kernel refuses the submission.
        let device = self.device.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let mut area = [0; 80];
        let own = RingCommand { commit_id, queue_id: self.queue, ..RingCommand::default() };
        area.iter_mut().zip(own.as_bytes()).for_each(|(place, byte)| *place = *byte);
        UringCmd80::new(Fd(device), command).cmd(area).addr(vectors).build()
    }

    fn push(&mut self, memory: &mut RingEntryMemory, submission: &Entry128) -> Result<(), Errno> {
        // SAFETY: what the submission points to stays until the kernel gives it up: until then `is_with_kernel` forbids any touch, and
        // `drop` does not free it. The device is open as long as `self`.
        unsafe { self.ring.submission().push(submission) }.map_err(|_| Errno::BUSY)?;
        memory.is_with_kernel = true;
        Ok(())
    }

    /// Submits what was pushed. Where the kernel has no means for it now, [`wait`](Self::wait) does it.
    ///
    /// # Errors
    /// The system.
    pub fn submit(&mut self) -> Result<(), Errno> {
        loop {
            let Err(error) = self.ring.submit() else { return Ok(()) };
            match Errno::from_io_error(&error) {
                Some(Errno::INTR) => {}
                Some(Errno::AGAIN | Errno::BUSY) => return Ok(()),
                other => return Err(other.unwrap_or(Errno::IO)),
            }
        }
    }

    /// Whether the kernel has given the entry up: with a request, or with an error.
    fn given_up(&mut self, memory: &mut RingEntryMemory) -> Option<Result<(), Errno>> {
        let number = self.ring.completion().next()?.result();
        memory.is_with_kernel = false;
        Some(match number {
            0.. => Ok(()),
            _ => Err(Errno::from_raw_os_error(number.saturating_neg())),
        })
    }

    /// Looks, without sleeping, whether the kernel has given the entry up. What was pushed must have been [submitted](Self::submit).
    ///
    /// # Errors
    /// The system.
    pub fn look(&mut self, memory: &mut RingEntryMemory) -> Result<Option<Result<(), Errno>>, Errno> {
        if self.ring.submission().taskrun() {
            // The kernel does its work for this thread when a system call ends.
            self.submit()?;
        }
        Ok(self.given_up(memory))
    }

    /// Submits what was pushed, and waits until the kernel gives the entry up: with a request, or with an error.
    ///
    /// # Errors
    /// The system does not let this thread wait.
    pub fn wait(&mut self, memory: &mut RingEntryMemory) -> Result<Result<(), Errno>, Errno> {
        loop {
            if let Some(given_up) = self.given_up(memory) {
                return Ok(given_up);
            }
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::INTR | Errno::AGAIN | Errno::BUSY) => {}
                    other => return Err(other.unwrap_or(Errno::IO)),
                },
            }
        }
    }
}

fn new_ring() -> Result<Ring, Errno> {
    let number = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    // A thread that looks is not interrupted where something arrived: a flag tells it.
    let mut builder = Ring::builder();
    builder.setup_r_disabled().setup_coop_taskrun().setup_taskrun_flag();
    let ring = builder.build(QUEUE_DEPTH).map_err(number)?;
    // Whatever a process is made to do, its ring takes nothing but commands.
    let mut allowed = [Restriction::sqe_op(UringCmd80::CODE)];
    ring.submitter().register_restrictions(&mut allowed).map_err(number)?;
    ring.submitter().register_enable_rings().map_err(number)?;
    Ok(ring)
}
