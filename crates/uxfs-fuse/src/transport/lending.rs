//! Replies whose data are lent: pages that the system has cached of the image go into a pipe, and from there to the kernel. What is copied
//! otherwise into the memory of this process and out of it again is copied once.
//!
//! ```text
//! image ─splice─▶ pipe ─splice─▶ /dev/fuse ─copy─▶ the caller's pages
//! ```
//!
//! Invariants:
//! 1. What lends the pages keeps them from other contents until the reply has been sent: they are not copied before.
//! 2. A pipe is empty between replies.

use std::{
    fmt,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::{
    io::Errno,
    param::page_size,
    pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice},
};

use crate::protocol::reply::header::ReplyHeader;

/// What every user may have (`fs.pipe-max-size`), where not too many pipes are in use.
const PIPE_BYTES: usize = 1 << 20;
/// Data that is lent, its header, and a first page that is not used from its beginning must have room in a pipe.
pub const MOST_LENT_BYTES: u32 = 512 << 10;

/// A pipe for replies of one thread.
#[derive(Debug)]
pub struct ReplyPipe {
    source: OwnedFd,
    sink: OwnedFd,
    pages: usize,
    /// The image is none that lends pages, or the kernel takes none.
    is_useless: AtomicBool,
}

impl ReplyPipe {
    /// An empty pipe, as large as this user may have.
    ///
    /// # Errors
    /// The system gives none.
    pub fn new() -> Result<Self, Errno> {
        let (source, sink) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A smaller one takes smaller replies.
        let _ = fcntl_setpipe_size(&sink, PIPE_BYTES);
        let pages = fcntl_getpipe_size(&sink)? / page_size();
        Ok(Self { source, sink, pages, is_useless: AtomicBool::new(false) })
    }

    fn empty(&self) {
        let mut bytes = [0; 4096];
        while rustix::io::read(&self.source, &mut bytes).is_ok_and(|count| count > 0) {}
    }
}

/// What came of pages that were to be lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filled {
    /// All are in the pipe.
    Whole,
    /// Some could not be lent now.
    InPart,
    /// None of this image ever can.
    Never,
}

/// The way of one reply through a pipe.
pub struct Lender<'l> {
    pipe: &'l ReplyPipe,
    device: BorrowedFd<'l>,
    unique: u64,
    sent: Option<Sent>,
}

/// A reply that was lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Of its data.
    pub length_bytes: usize,
    /// What the kernel said.
    pub result: Result<(), Errno>,
}

impl fmt::Debug for Lender<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lender")
            .field("unique", &self.unique)
            .field("sent", &self.sent)
            .finish_non_exhaustive()
    }
}

impl<'l> Lender<'l> {
    /// For the reply to a request, which came from `device`.
    #[must_use]
    pub fn new(pipe: &'l ReplyPipe, device: BorrowedFd<'l>, unique: u64) -> Self {
        Self { pipe, device, unique, sent: None }
    }

    /// Pages of data that it can take.
    #[must_use]
    pub fn room_pages(&self) -> usize {
        match self.pipe.is_useless.load(Ordering::Relaxed) {
            true => 0,
            false => self.pipe.pages.saturating_sub(1),
        }
    }

    /// Sends a reply of `length_bytes`, which `fill` puts into the pipe it is given. Gives whether it was sent, or the request is gone;
    /// otherwise the reply must go another way.
    pub fn send(&mut self, length_bytes: usize, fill: impl FnOnce(BorrowedFd<'_>) -> Filled) -> bool {
        let Ok(header) = ReplyHeader::success(self.unique, length_bytes) else { return false };
        let head = header.as_bytes();
        if rustix::io::write(&self.pipe.sink, head) != Ok(head.len()) {
            self.pipe.empty();
            return false;
        }
        let filled = fill(self.pipe.sink.as_fd());
        if filled != Filled::Whole {
            self.pipe.empty();
            self.pipe.is_useless.fetch_or(filled == Filled::Never, Ordering::Relaxed);
            return false;
        }
        let whole = head.len() + length_bytes;
        let result = splice(&self.pipe.source, None, self.device, None, whole, SpliceFlags::empty());
        let result = match result {
            // Less is never taken: the length is in the header.
            Ok(count) if count == whole => Ok(()),
            Err(error @ (Errno::NOENT | Errno::NODEV | Errno::CONNABORTED)) => {
                self.pipe.empty();
                Err(error)
            }
            Ok(_) | Err(_) => {
                self.pipe.empty();
                self.pipe.is_useless.store(true, Ordering::Relaxed);
                return false;
            }
        };
        self.sent = Some(Sent { length_bytes, result });
        true
    }

    /// What was sent.
    #[must_use]
    pub fn sent(&self) -> Option<Sent> {
        self.sent
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{
        fs::File,
        io::{Read, Write},
        os::fd::AsFd,
    };

    use super::{Filled, Lender, ReplyPipe};

    const HEADER_BYTES: usize = 16;

    /// A pipe stands for the device: it takes pages, too.
    fn send(pipe: &ReplyPipe, data: &[u8], filled: Filled) -> Option<Vec<u8>> {
        let (source, device) = rustix::pipe::pipe().unwrap();
        let mut lender = Lender::new(pipe, device.as_fd(), 7);
        let is_sent = lender.send(data.len(), |sink| {
            File::from(sink.try_clone_to_owned().unwrap()).write_all(data).unwrap();
            filled
        });
        assert_eq!(lender.sent().is_some(), is_sent);
        drop(device);
        let mut bytes = Vec::new();
        File::from(source).read_to_end(&mut bytes).unwrap();
        is_sent.then_some(bytes)
    }

    #[test]
    fn a_reply_has_its_header_and_what_was_lent() {
        let pipe = ReplyPipe::new().unwrap();
        for length in [1, 5000, 40_000] {
            let bytes = send(&pipe, &vec![b'x'; length], Filled::Whole).unwrap();
            assert_eq!(bytes[..4], u32::try_from(HEADER_BYTES + length).unwrap().to_le_bytes());
            assert!(
                bytes.len() == HEADER_BYTES + length
                    && bytes[HEADER_BYTES..].iter().all(|byte| *byte == b'x')
            );
        }
    }

    #[test]
    fn what_is_not_sent_is_in_no_later_reply() {
        let pipe = ReplyPipe::new().unwrap();
        assert_eq!(send(&pipe, b"first", Filled::InPart), None);
        assert_eq!(send(&pipe, b"second", Filled::Whole).unwrap()[HEADER_BYTES..], *b"second");
        assert!(Lender::new(&pipe, pipe.sink.as_fd(), 7).room_pages() > 0);
        assert_eq!(send(&pipe, b"third", Filled::Never), None);
        assert_eq!(Lender::new(&pipe, pipe.sink.as_fd(), 7).room_pages(), 0);
    }

    #[test]
    fn a_device_that_takes_nothing_leaves_the_reply_to_another_way() {
        let pipe = ReplyPipe::new().unwrap();
        let (source, _device) = rustix::pipe::pipe().unwrap();
        let mut lender = Lender::new(&pipe, source.as_fd(), 7);
        assert!(!lender.send(0, |_| Filled::Whole));
        assert_eq!((lender.sent(), lender.room_pages()), (None, 0));
    }
}
