//! `/dev/fuse`: a request is what one read gives, a reply is one write.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use uxfs_block::aligned_buffer::AlignedBuffer;
use zerocopy::FromBytes;

use super::{
    Answer, End, Outcome, ReplyBuffer, Service, Way,
    lending::{Lender, ReplyPipe},
    turns::{Effort, Turn, Turns},
};
use crate::protocol::{
    reply::header::ReplyHeader,
    wire::header::{InHeader, OutHeader},
};

/// Bytes of a request in front of its data: headers, names.
const REQUEST_ROOM_BYTES: usize = 4096;
/// The longest value of an extended attribute travels in one request, whatever writes are limited to.
const LEAST_DATA_BYTES: usize = 64 << 10;
/// The header of a reply stands in front of its payload: one piece is written faster than two.
const HEADER_BYTES: usize = size_of::<OutHeader>();
/// After a request a thread looks for the next one for so long before it sleeps: callers often have one right away.
const PATIENCE: Duration = Duration::from_micros(100);
/// Looks between two times at which other programs may have the processor.
const LOOKS_BEFORE_YIELD: u32 = 8;
/// A caller that was given the processor gives it back sooner. A program that keeps it longer wants it all.
const LONGEST_YIELD: Duration = Duration::from_micros(500);
/// Then so many requests are waited for asleep: a thread that wakes gets the processor at once, one that gave it away does not.
const REQUESTS_ASLEEP: u32 = 256;

/// One thread's end of `/dev/fuse`.
#[derive(Debug)]
pub struct DeviceChannel {
    device: OwnedFd,
    request: AlignedBuffer,
    /// Header and payload.
    reply: AlignedBuffer,
    /// Where replies may be lent.
    pipe: Option<ReplyPipe>,
    turns: Arc<Turns>,
    patience: Duration,
    /// Requests that are still to be waited for asleep, because other programs want the processors.
    asleep: u32,
}

/// What a look gave.
enum Looked {
    /// A request of so many bytes.
    Request(usize),
    Nothing,
    Unmounted,
}

impl DeviceChannel {
    /// Over an open `/dev/fuse` that [does not wait](crate::mounting::device::FuseDevice::set_nonblocking). `most_bytes`: of data in a request
    /// or a reply. `turns`: of the mount.
    ///
    /// # Errors
    /// The system has no more memory for this process.
    pub fn new(
        device: OwnedFd,
        most_bytes: usize,
        pipe: Option<ReplyPipe>,
        turns: Arc<Turns>,
    ) -> io::Result<Self> {
        let data_bytes = most_bytes.max(LEAST_DATA_BYTES);
        Ok(Self {
            device,
            // Fresh mappings, whose pages are there once they are used: to fill them here would take most of the time that a mount takes.
            request: AlignedBuffer::page_aligned(data_bytes + REQUEST_ROOM_BYTES)?,
            reply: AlignedBuffer::page_aligned(HEADER_BYTES + data_bytes)?,
            pipe,
            turns,
            patience: PATIENCE,
            asleep: 0,
        })
    }

    /// Requests come another way: it never looks without sleeping.
    pub fn has_no_patience(&mut self) {
        self.patience = Duration::ZERO;
    }

    /// Answers requests until the file system is unmounted, or `stop` is set and a request has been answered.
    ///
    /// # Errors
    /// The device.
    pub fn serve(&mut self, service: &dyn Service, stop: &AtomicBool) -> Result<End, Errno> {
        let ended = self.serve_in_turns(service, stop);
        self.turns.finish();
        ended
    }

    fn serve_in_turns(&mut self, service: &dyn Service, stop: &AtomicBool) -> Result<End, Errno> {
        while let Some(turn) = self.turns.take() {
            while self.turns.is_held(turn) {
                if stop.load(Ordering::Relaxed) {
                    return Ok(End::Stopped);
                }
                match self.look_patiently()? {
                    Looked::Request(length) => {
                        if !self.answer_under(turn, length, service)? {
                            return Ok(End::Unmounted);
                        }
                    }
                    Looked::Nothing => {}
                    Looked::Unmounted => return Ok(End::Unmounted),
                }
            }
        }
        Ok(End::Unmounted)
    }

    /// Answers one request, and waits until there is one. Gives whether the file system is still mounted.
    ///
    /// # Errors
    /// The device.
    pub fn serve_one(&mut self, service: &dyn Service) -> Result<bool, Errno> {
        self.sleep_until_request()?;
        match self.look()? {
            Looked::Request(length) => self.answer(length, service),
            Looked::Nothing => Ok(true),
            Looked::Unmounted => Ok(false),
        }
    }

    /// Looks for a while without sleeping, then sleeps.
    fn look_patiently(&mut self) -> Result<Looked, Errno> {
        let begun = Instant::now();
        let mut looks = 0_u32;
        while looks == 0 || self.asleep == 0 && begun.elapsed() < self.patience {
            match self.look()? {
                Looked::Nothing => {}
                found => return Ok(found),
            }
            looks += 1;
            if looks.is_multiple_of(LOOKS_BEFORE_YIELD) {
                let given = Instant::now();
                thread::yield_now();
                if given.elapsed() > LONGEST_YIELD {
                    self.asleep = REQUESTS_ASLEEP;
                }
            }
        }
        self.asleep = self.asleep.saturating_sub(1);
        self.turns.rest();
        self.sleep_until_request()?;
        self.turns.wake_guard();
        self.look()
    }

    fn look(&mut self) -> Result<Looked, Errno> {
        match rustix::io::read(self.device.as_fd(), &mut self.request[..]) {
            Ok(length) => Ok(Looked::Request(length)),
            // Interrupted, or the request was aborted while it was read.
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => Ok(Looked::Nothing),
            Err(Errno::NODEV | Errno::CONNABORTED) => Ok(Looked::Unmounted),
            Err(error) => Err(error),
        }
    }

    fn sleep_until_request(&self) -> Result<(), Errno> {
        match poll(&mut [PollFd::new(&self.device, PollFlags::IN)], None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn is_another_pending(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut device = [PollFd::new(&self.device, PollFlags::IN)];
        poll(&mut device, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    /// Answers a request that was read under a turn; passes the turn before it, where others need it meanwhile.
    fn answer_under(&mut self, turn: Turn, length: usize, service: &dyn Service) -> Result<bool, Errno> {
        let request = self.request.get(..length).unwrap_or_default();
        let passes = match service.effort(request) {
            Effort::Short => false,
            Effort::Long => self.is_another_pending(),
            Effort::Waits => true,
        };
        if passes {
            self.turns.pass(turn);
            return self.answer(length, service);
        }
        self.turns.begin(unique_of(request));
        let answered = self.answer(length, service);
        if self.turns.is_held(turn) {
            self.turns.end();
        }
        answered
    }

    fn answer(&mut self, length: usize, service: &dyn Service) -> Result<bool, Errno> {
        let begun = Instant::now();
        let request = self.request.get(..length).unwrap_or_default();
        let unique = unique_of(request);
        let (head, room) = self.reply.split_at_mut(HEADER_BYTES);
        let lender = self.pipe.as_ref().map(|pipe| Lender::new(pipe, self.device.as_fd(), unique));
        let mut reply = ReplyBuffer::new(room).or_lent(lender);
        let answer = service.answer(request, &mut reply);
        if let Some(lent) = reply.lent() {
            let (elapsed, reply_bytes) = (begun.elapsed(), lent.length_bytes);
            service.answered(request, &Outcome { way: Way::Device, elapsed, answer, reply_bytes });
            return Ok(!matches!(lent.result, Err(Errno::NODEV | Errno::CONNABORTED)));
        }
        let (header, payload_bytes) = match answer {
            Answer::Nothing => {
                service.answered(
                    request,
                    &Outcome { way: Way::Device, elapsed: begun.elapsed(), answer, reply_bytes: 0 },
                );
                return Ok(true);
            }
            Answer::Reply => match ReplyHeader::success(unique, reply.filled().len()) {
                Ok(header) => (header, reply.filled().len()),
                Err(_) => (ReplyHeader::error(unique, Errno::IO), 0),
            },
            Answer::Error(error) => (ReplyHeader::error(unique, error), 0),
        };
        head.copy_from_slice(header.as_bytes());
        let whole = self.reply.get(..HEADER_BYTES + payload_bytes).unwrap_or_default();
        let sent = rustix::io::write(self.device.as_fd(), whole);
        let outcome =
            Outcome { way: Way::Device, elapsed: begun.elapsed(), answer, reply_bytes: payload_bytes };
        service.answered(request, &outcome);
        match sent {
            // The kernel gave the request up.
            Err(Errno::NOENT) => {
                service.not_taken(whole.get(HEADER_BYTES..).unwrap_or_default(), request);
                Ok(true)
            }
            Err(Errno::NODEV | Errno::CONNABORTED) => Ok(false),
            Err(Errno::INTR) | Ok(_) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

fn unique_of(request: &[u8]) -> u64 {
    InHeader::read_from_prefix(request).map_or(0, |(header, _)| header.unique)
}
