//! How requests come from the kernel and replies go back.
//!
//! ```text
//! kernel ─▶ transport: bytes of a request ─▶ Service::answer ─▶ bytes of a reply ─▶ kernel
//! ```
//!
//! | module | holds |
//! |---|---|
//! | here | what a transport and a service promise each other |
//! | [`device`] | `/dev/fuse`, each thread with a descriptor of its own |
//! | [`lending`] | replies of `/dev/fuse` whose data are pages of the image |
//! | [`turns`] | which thread of `/dev/fuse` looks for the next request |
//! | [`ring`] | FUSE over io_uring, each thread with a ring of its own |
//!
//! Invariants:
//! 1. A reply goes to the descriptor from which its request came: the kernel looks nowhere else.
//! 2. A thread has one buffer for requests and one for replies: a request allocates nothing.

pub mod device;
pub mod lending;
pub mod ring;
pub mod turns;

use std::{sync::Arc, time::Duration};

use rustix::io::Errno;

use self::{
    lending::{Lender, Sent},
    turns::Effort,
};

/// What answers requests.
pub trait Service: Send + Sync {
    /// Answers a request, and writes the payload of the reply into `reply`.
    fn answer(&self, request: &[u8], reply: &mut ReplyBuffer<'_>) -> Answer;
    /// How long answering this request may take.
    fn effort(&self, request: &[u8]) -> Effort;
    /// A request has been answered. Over `/dev/fuse` the reply has been sent: the caller does not wait for what is done here.
    fn answered(&self, request: &[u8], outcome: &Outcome);
    /// The kernel did not take a reply: the request was aborted. What the reply counted is taken back.
    fn not_taken(&self, reply: &[u8], request: &[u8]);
}

impl<S: Service> Service for Arc<S> {
    fn answer(&self, request: &[u8], reply: &mut ReplyBuffer<'_>) -> Answer {
        (**self).answer(request, reply)
    }

    fn effort(&self, request: &[u8]) -> Effort {
        (**self).effort(request)
    }

    fn answered(&self, request: &[u8], outcome: &Outcome) {
        (**self).answered(request, outcome);
    }

    fn not_taken(&self, reply: &[u8], request: &[u8]) {
        (**self).not_taken(reply, request);
    }
}

/// How a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Through `/dev/fuse`.
    Device,
    /// Over io_uring.
    Ring,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Device, Self::Ring];

    /// One word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Ring => "ring",
        }
    }
}

/// How a request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// How it came.
    pub way: Way,
    /// Time from the request to the reply.
    pub elapsed: Duration,
    /// The answer.
    pub answer: Answer,
    /// Bytes of the reply without its header.
    pub reply_bytes: usize,
}

/// Why a thread stopped to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The file system was unmounted.
    Unmounted,
    /// The service asked for it.
    Stopped,
}

/// What is sent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Nothing: the kernel does not wait for a reply.
    Nothing,
    /// What is in the buffer.
    Reply,
    /// An error.
    Error(Errno),
}

/// A buffer that a service fills with the payload of a reply.
#[derive(Debug)]
pub struct ReplyBuffer<'b> {
    bytes: &'b mut [u8],
    length: usize,
    lender: Option<Lender<'b>>,
}

impl<'b> ReplyBuffer<'b> {
    /// An empty reply, with room for as much as `bytes` has.
    pub fn new(bytes: &'b mut [u8]) -> Self {
        Self { bytes, length: 0, lender: None }
    }

    /// The reply may go through a pipe instead.
    #[must_use]
    pub fn or_lent(self, lender: Option<Lender<'b>>) -> Self {
        Self { lender, ..self }
    }

    /// The pipe, where there is one.
    pub fn lender(&mut self) -> Option<&mut Lender<'b>> {
        self.lender.as_mut()
    }

    /// What went through the pipe. Then the buffer is not sent.
    #[must_use]
    pub fn lent(&self) -> Option<Sent> {
        self.lender.as_ref()?.sent()
    }

    /// Adds bytes. What does not fit is an error of the service.
    ///
    /// # Errors
    /// [`Errno::RANGE`] where there is no room.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        let end = self.length.checked_add(bytes.len()).ok_or(Errno::RANGE)?;
        self.bytes.get_mut(self.length..end).ok_or(Errno::RANGE)?.copy_from_slice(bytes);
        self.length = end;
        Ok(())
    }

    /// The room that is left, at most so many bytes of it. What is put there counts after [`advance`](Self::advance).
    pub fn room(&mut self, most_bytes: usize) -> &mut [u8] {
        let end = self.length.saturating_add(most_bytes).min(self.bytes.len());
        self.bytes.get_mut(self.length..end).unwrap_or_default()
    }

    /// So many bytes of the room are part of the reply.
    pub fn advance(&mut self, bytes: usize) {
        self.length = self.length.saturating_add(bytes).min(self.bytes.len());
    }

    /// The reply so far.
    #[must_use]
    pub fn filled(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.length = 0;
    }
}
