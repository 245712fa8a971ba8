//! FUSE over io_uring: one system call takes a reply to the kernel and waits for the next request.
//!
//! | module | holds |
//! |---|---|
//! | here | one thread's end: it registers its entry, answers, and gives the entry back |
//! | [`entry`] | the memory of an entry, and the submissions that hand it to the kernel |
//! | [`availability`] | whether kernel and system let a mount have rings, and how many queues they need |
//!
//! The kernel has a queue for each processor, and puts a request into that of the processor on which its caller runs. A queue with several
//! entries answers as many requests at a time. FORGET, INTERRUPT and notifications stay with `/dev/fuse`.
//!
//! Invariants:
//! 1. The memory of an entry is touched only while the kernel does not have it.
//! 2. It is freed only when the kernel has given it up. A thread that stops before that leaves it behind.
//! 3. Every request that came is committed: without that its caller waits for ever.

pub mod availability;
pub mod entry;

use std::{
    hint,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    thread::{CpuSet, sched_setaffinity},
};

use self::entry::{Arrived, RingEntryMemory, Submissions};
use super::{Answer, End, Outcome, ReplyBuffer, Service, Way};
use crate::protocol::reply::header::ReplyHeader;

/// After a request a thread looks for the next one for so long before it sleeps.
const PATIENCE: Duration = Duration::from_micros(100);
/// A yield that takes longer has let another thread run: its processor has something to do, and this thread is woken there for little.
const LONGEST_YIELD: Duration = Duration::from_micros(3);
/// A look that ends so counts as much as so many that found a request.
const WEIGHT_IN_VAIN: u32 = 4;
/// With so many more in vain than found, requests of the queue are waited for asleep for a while: on a busy machine looking takes the
/// processor from callers.
const MOST_IN_VAIN: u32 = 16;
const REQUESTS_ASLEEP: u32 = 256;
/// Looks between two times at which other threads may have the processor.
const LOOKS_BEFORE_YIELD: u32 = 16;
/// Registering before the kernel has taken the reply to INIT is tried again after this.
const RETRY: Duration = Duration::from_millis(1);
/// So often at most.
const RETRIES: u32 = 1000;
/// Requests with more data than this are answered where they lie; of shorter ones a copy is answered, so that the reply can take their
/// place.
const MOST_COPIED_BYTES: usize = 8 << 10;
/// Replies to requests that are answered where they lie: counts and attributes.
const SHORT_REPLY_BYTES: usize = 8 << 10;

/// What threads of a queue know of the one that looks.
#[derive(Debug, Default)]
pub struct Looker {
    is_there: AtomicBool,
    /// Requests that are still to be waited for asleep.
    asleep: AtomicU32,
    /// Looks that another thread ended, weighed against those that found a request. Of the one that looks.
    in_vain: AtomicU32,
}

impl Looker {
    fn has_found(&self) {
        let in_vain = self.in_vain.load(Ordering::Relaxed);
        self.in_vain.store(in_vain.saturating_sub(1), Ordering::Relaxed);
    }

    fn was_in_vain(&self) {
        let in_vain = self.in_vain.load(Ordering::Relaxed) + WEIGHT_IN_VAIN;
        if in_vain >= MOST_IN_VAIN {
            self.asleep.store(REQUESTS_ASLEEP, Ordering::Relaxed);
        }
        self.in_vain.store(in_vain.min(MOST_IN_VAIN), Ordering::Relaxed);
    }
}

/// One thread's end of a ring, with one entry.
#[derive(Debug)]
pub struct RingChannel {
    submissions: Submissions,
    memory: RingEntryMemory,
    looker: Arc<Looker>,
    /// A request without much data.
    request: Vec<u8>,
    /// A reply to a request with much data.
    reply: Vec<u8>,
}

impl RingChannel {
    /// With an entry in a queue. `payload_bytes`: see
    /// [`ring_payload_bytes`](crate::protocol::initialization::ring_payload_bytes). `looker` is the same for all entries of the queue. A
    /// device must be [attached](Self::attach) before it serves.
    ///
    /// # Errors
    /// The system gives no ring.
    pub fn new(queue: u16, payload_bytes: usize, looker: Arc<Looker>) -> Result<Self, Errno> {
        Ok(Self {
            submissions: Submissions::new(queue)?,
            looker,
            memory: RingEntryMemory::new(payload_bytes),
            request: Vec::with_capacity(MOST_COPIED_BYTES + RingEntryMemory::ROOM_BYTES),
            reply: vec![0; SHORT_REPLY_BYTES],
        })
    }

    /// `device`: an open `/dev/fuse` of the mount.
    pub fn attach(&mut self, device: OwnedFd) {
        self.submissions.attach(device);
    }

    /// Keeps the calling thread on the processor of its queue. The kernel puts a request into the queue of the processor on which its caller
    /// runs: to wake a thread there is a switch, to wake one on another processor an interrupt, which is dear in a virtual machine.
    pub fn stay_beside_callers(&self) {
        let mut processors = CpuSet::new();
        let processor = usize::from(self.submissions.queue());
        if processor < CpuSet::MAX_CPU {
            processors.set(processor);
            // A processor may be missing or forbidden: then the thread runs anywhere.
            let _ = sched_setaffinity(None, &processors);
        }
    }

    /// Answers requests until the file system is unmounted, or `stop` is set and a request has been answered. The kernel must have taken
    /// the reply to INIT, with [`OVER_IO_URING`](crate::protocol::initialization::Capabilities::OVER_IO_URING).
    ///
    /// # Errors
    /// The kernel does not take the entry, or not a reply. Where it took no entry, requests come through `/dev/fuse`.
    pub fn serve(&mut self, service: &dyn Service, stop: &AtomicBool) -> Result<End, Errno> {
        let mut retries = 0;
        let mut is_registered = false;
        self.submissions.register(&mut self.memory)?;
        loop {
            match self.wait()? {
                Ok(()) => {
                    is_registered = true;
                    self.answer(service);
                    if stop.load(Ordering::Relaxed) {
                        // The reply must go out before this thread ends.
                        self.submissions.commit(&mut self.memory)?;
                        self.submissions.submit()?;
                        return Ok(End::Stopped);
                    }
                    self.submissions.commit(&mut self.memory)?;
                }
                Err(Errno::NOTCONN | Errno::CONNABORTED | Errno::NODEV) => return Ok(End::Unmounted),
                Err(Errno::AGAIN | Errno::INTR) if !is_registered && retries < RETRIES => {
                    retries += 1;
                    thread::sleep(RETRY);
                    self.submissions.register(&mut self.memory)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until the kernel gives the entry up. One thread of a queue looks for a while before it sleeps: a caller that it woke goes to a
    /// processor that has nothing to do, and waking that one costs more than the request. While it looks its own processor is no such.
    fn wait(&mut self) -> Result<Result<(), Errno>, Errno> {
        let asleep = self.looker.asleep.load(Ordering::Relaxed);
        if asleep > 0 {
            self.looker.asleep.store(asleep - 1, Ordering::Relaxed);
            return self.submissions.wait(&mut self.memory);
        }
        self.submissions.submit()?;
        if !self.looker.is_there.swap(true, Ordering::Acquire) {
            let found = self.look_patiently();
            self.looker.is_there.store(false, Ordering::Release);
            if let Some(given_up) = found? {
                return Ok(given_up);
            }
        }
        self.submissions.wait(&mut self.memory)
    }

    fn look_patiently(&mut self) -> Result<Option<Result<(), Errno>>, Errno> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            for _ in 0..LOOKS_BEFORE_YIELD {
                if let Some(given_up) = self.submissions.look(&mut self.memory)? {
                    self.looker.has_found();
                    return Ok(Some(given_up));
                }
                hint::spin_loop();
            }
            let given = Instant::now();
            thread::yield_now();
            if given.elapsed() > LONGEST_YIELD {
                // The other thread may have been a caller.
                let found = self.submissions.look(&mut self.memory)?;
                match found {
                    Some(_) => self.looker.has_found(),
                    None => self.looker.was_in_vain(),
                }
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Answers the request in the entry's memory, and puts the reply there.
    fn answer(&mut self, service: &dyn Service) {
        let Some(arrived) = Arrived::of(&self.memory) else {
            return self.memory.put_reply(&ReplyHeader::error(self.memory.unique(), Errno::IO), 0);
        };
        let (begun, unique) = (Instant::now(), arrived.unique);
        let outcome =
            |answer, reply_bytes| Outcome { way: Way::Ring, elapsed: begun.elapsed(), answer, reply_bytes };
        let (answer, filled_bytes) = if arrived.payload_bytes <= MOST_COPIED_BYTES {
            self.memory.copy_request(&arrived, &mut self.request);
            let mut reply = ReplyBuffer::new(self.memory.payload());
            let answer = service.answer(&self.request, &mut reply);
            let reply_bytes = reply.filled().len();
            service.answered(&self.request, &outcome(answer, reply_bytes));
            (answer, reply_bytes)
        } else {
            let request = self.memory.joined_request(&arrived);
            let mut reply = ReplyBuffer::new(&mut self.reply);
            let answer = service.answer(request, &mut reply);
            let filled = reply.filled();
            service.answered(request, &outcome(answer, filled.len()));
            if let Some(place) = self.memory.payload().get_mut(..filled.len()) {
                place.copy_from_slice(filled);
            }
            (answer, filled.len())
        };
        let success = |length| ReplyHeader::success(unique, length).map(|header| (header, length));
        let (header, length) = match answer {
            Answer::Nothing => success(0),
            Answer::Reply => success(filled_bytes),
            Answer::Error(error) => Ok((ReplyHeader::error(unique, error), 0)),
        }
        .unwrap_or((ReplyHeader::error(unique, Errno::IO), 0));
        self.memory.put_reply(&header, length);
    }
}
