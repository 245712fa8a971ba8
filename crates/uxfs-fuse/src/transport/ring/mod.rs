//! FUSE over io_uring: one system call takes a reply to the kernel and waits for the next request.
//!
//! | module | holds |
//! |---|---|
//! | here | one thread's end: it registers its entry, answers, and gives the entry back |
//! | [`entry`] | the memory of an entry, and the submissions that hand it to the kernel |
//! | [`place`] | the processors on which a thread runs |
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
pub mod place;

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

use rustix::io::Errno;

use self::{
    entry::{Arrived, RingEntryMemory, Submissions},
    place::Place,
};
use super::{Answer, End, Outcome, ReplyBuffer, Service, Way};
use crate::protocol::reply::header::ReplyHeader;

/// After a request a thread looks for the next one for so long before it sleeps.
const PATIENCE: Duration = Duration::from_micros(100);
/// A request of another caller than the one before counts as much as so many of the same.
const WEIGHT_OF_CHANGE: u32 = 4;
/// With so many more changes than that a queue has several callers at once: one runs while another waits, and to look would take the
/// processor from them.
const MOST_CHANGES: u32 = 64;
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

/// What threads of a queue know of its callers.
#[derive(Debug, Default)]
pub struct Callers {
    has_looker: AtomicBool,
    /// The thread that made the last request.
    last: AtomicU32,
    /// Requests of another caller, weighed against those of the same.
    changes: AtomicU32,
}

impl Callers {
    /// A request has come from this thread; 0 is the kernel itself, which runs beside them.
    fn note(&self, thread: u32) {
        if thread == 0 {
            return;
        }
        let changes = self.changes.load(Ordering::Relaxed);
        let changes = match self.last.swap(thread, Ordering::Relaxed) == thread {
            true => changes.saturating_sub(1),
            false => (changes + WEIGHT_OF_CHANGE).min(MOST_CHANGES),
        };
        self.changes.store(changes, Ordering::Relaxed);
    }

    fn are_several(&self) -> bool {
        self.changes.load(Ordering::Relaxed) > MOST_CHANGES / 2
    }
}

/// One thread's end of a ring, with one entry.
#[derive(Debug)]
pub struct RingChannel {
    submissions: Submissions,
    memory: RingEntryMemory,
    callers: Arc<Callers>,
    place: Place,
    /// A request without much data.
    request: Vec<u8>,
    /// A reply to a request with much data.
    reply: Vec<u8>,
}

impl RingChannel {
    /// With an entry in a queue. `payload_bytes`: see
    /// [`ring_payload_bytes`](crate::protocol::initialization::ring_payload_bytes). `callers` is the same for all entries of the queue. A
    /// device must be [attached](Self::attach) before it serves.
    ///
    /// # Errors
    /// The system gives no ring, or no memory for its entry.
    pub fn new(queue: u16, payload_bytes: usize, callers: Arc<Callers>) -> Result<Self, Errno> {
        Ok(Self {
            submissions: Submissions::new(queue)?,
            callers,
            place: Place::new(queue),
            memory: RingEntryMemory::new(payload_bytes).map_err(|_| Errno::NOMEM)?,
            request: Vec::with_capacity(MOST_COPIED_BYTES + RingEntryMemory::ROOM_BYTES),
            reply: vec![0; SHORT_REPLY_BYTES],
        })
    }

    /// `device`: an open `/dev/fuse` of the mount.
    pub fn attach(&mut self, device: OwnedFd) {
        self.submissions.attach(device);
    }

    /// Keeps the calling thread beside the callers of its queue, as far as that is good: see [`Place`].
    pub fn stay_beside_callers(&mut self) {
        self.place.begin();
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
        if self.callers.are_several() || self.place.is_away() {
            return self.submissions.wait(&mut self.memory);
        }
        self.submissions.submit()?;
        if !self.callers.has_looker.swap(true, Ordering::Acquire) {
            let found = self.look_patiently();
            self.callers.has_looker.store(false, Ordering::Release);
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
                    return Ok(Some(given_up));
                }
                hint::spin_loop();
            }
            thread::yield_now();
        }
        Ok(None)
    }

    /// Answers the request in the entry's memory, and puts the reply there.
    fn answer(&mut self, service: &dyn Service) {
        let Some(arrived) = Arrived::of(&self.memory) else {
            return self.memory.put_reply(&ReplyHeader::error(self.memory.unique(), Errno::IO), 0);
        };
        let (begun, unique) = (Instant::now(), arrived.unique);
        self.callers.note(arrived.caller);
        let outcome =
            |answer, reply_bytes| Outcome { way: Way::Ring, elapsed: begun.elapsed(), answer, reply_bytes };
        let (answer, filled_bytes) = if arrived.payload_bytes <= MOST_COPIED_BYTES {
            self.memory.copy_request(&arrived, &mut self.request);
            self.place.note(service.effort(&self.request));
            let mut reply = ReplyBuffer::new(self.memory.payload());
            let answer = service.answer(&self.request, &mut reply);
            let reply_bytes = reply.filled().len();
            service.answered(&self.request, &outcome(answer, reply_bytes));
            (answer, reply_bytes)
        } else {
            let request = self.memory.joined_request(&arrived);
            self.place.note(service.effort(request));
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

#[cfg(test)]
mod tests {
    use super::{Callers, MOST_CHANGES};

    #[test]
    fn callers_that_take_turns_are_several_and_one_with_helpers_is_not() {
        let callers = Callers::default();
        for round in 0..1000 {
            callers.note(7);
            // The kernel writes back for it, and another program looks in at times.
            callers.note(if round % 10 == 9 { 8 } else { 0 });
            assert!(!callers.are_several(), "round {round}");
        }
        for _ in 0..MOST_CHANGES {
            callers.note(7);
            callers.note(8);
        }
        assert!(callers.are_several());
        (0..MOST_CHANGES).for_each(|_| callers.note(7));
        assert!(!callers.are_several());
    }
}
