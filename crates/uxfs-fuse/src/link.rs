//! What the process that mounts and the confined one that serves say to each other.
//!
//! ```text
//! supervisor                                server
//!     │  starts it                             │ opens the image, is confined, opens the file system
//!     │◀────────────── Opened ─────────────────│
//!     │  mounts                                │
//!     │─── Mounted, descriptors of the mount ─▶│ answers the kernel
//!     │◀────────────── Served ─────────────────│
//!     │                 …                      │ requests
//!     │◀───────────── MayChange ───────────────│ (a remount, of a mount for reading; and before Opened, where its log is dirty)
//!     │  looks for other users of the image    │
//!     │─────────── Alone or NotAlone ─────────▶│
//!     │◀─────────── TakesChanges ──────────────│ (a remount)
//!     │◀─────────── WasChanged ────────────────│ (by another program, while it was mounted for reading)
//!     │◀─────────── PleaseUnmount ─────────────│ (a signal)
//!     │  unmounts                              │ makes the image whole, ends
//! ```
//!
//! The server cannot mount, unmount, open anything or look at the machine; the supervisor reads no byte of the image. Either sees the end of the other.

use std::{
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, retry_on_intr},
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    },
};

/// Descriptors of one message: the kernel takes no more than 253.
pub const MOST_DESCRIPTORS: usize = 128;

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// The file system is open: it can be mounted.
    Opened,
    /// It is mounted. Descriptors of `/dev/fuse` come along.
    Mounted,
    /// The kernel has its first answer.
    Served,
    /// A signal asks the server to end.
    PleaseUnmount,
    /// It was mounted for reading, and takes changes now.
    TakesChanges,
    /// The server asks whether others use the image, before it changes the image of a mount for reading.
    MayChange,
    /// No other does.
    Alone,
    /// Another one does.
    NotAlone,
    /// Another program has changed the image of a mount for reading.
    WasChanged,
}

impl Message {
    const ALL: [Self; 9] = [
        Self::Opened,
        Self::Mounted,
        Self::Served,
        Self::PleaseUnmount,
        Self::TakesChanges,
        Self::MayChange,
        Self::Alone,
        Self::NotAlone,
        Self::WasChanged,
    ];

    const fn byte(self) -> u8 {
        match self {
            Self::Opened => b'O',
            Self::Mounted => b'M',
            Self::Served => b'S',
            Self::PleaseUnmount => b'U',
            Self::TakesChanges => b'C',
            Self::MayChange => b'?',
            Self::Alone => b'A',
            Self::NotAlone => b'N',
            Self::WasChanged => b'W',
        }
    }
}

/// One end.
#[derive(Debug)]
pub struct Link(OwnedFd);

impl Link {
    /// Both ends. Programs started later do not inherit them.
    ///
    /// # Errors
    /// The system.
    pub fn pair() -> Result<(Self, Self), Errno> {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self(one), Self(other)))
    }

    /// Sends a message with descriptors.
    ///
    /// # Errors
    /// The other process has ended, or there are more than [`MOST_DESCRIPTORS`].
    pub fn send(&self, message: Message, descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        // The space is rounded up.
        if descriptors.len() > MOST_DESCRIPTORS {
            return Err(Errno::TOOBIG);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(Errno::TOOBIG);
        }
        let bytes = [message.byte()];
        let sent =
            retry_on_intr(|| sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL));
        sent.map(drop)
    }

    /// Waits for a message; `None` once the other process has ended.
    ///
    /// # Errors
    /// The system, or an unknown message.
    pub fn receive(&self) -> Result<Option<(Message, Vec<OwnedFd>)>, Errno> {
        let mut bytes = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = retry_on_intr(|| {
            recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
        });
        match received {
            Ok(received) if received.bytes == 0 => return Ok(None),
            Err(Errno::CONNRESET) => return Ok(None),
            other => _ = other?,
        }
        let [byte] = bytes;
        let message = Message::ALL.into_iter().find(|message| message.byte() == byte).ok_or(Errno::PROTO)?;
        let descriptors = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        Ok(Some((message, descriptors.flatten().collect())))
    }

    /// Waits until there is a message or the other process has ended, at most so long. Gives whether that happened.
    ///
    /// # Errors
    /// The system.
    pub fn wait(&self, milliseconds: u32) -> Result<bool, Errno> {
        let limit = Timespec {
            tv_sec: (milliseconds / 1000).into(),
            tv_nsec: (milliseconds % 1000 * 1_000_000).into(),
        };
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&limit)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Link {
    fn from(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }
}

impl From<Link> for OwnedFd {
    fn from(link: Link) -> Self {
        link.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_with_their_descriptors_and_the_end_is_seen() {
        let (one, other) = Link::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        one.send(Message::Opened, &[]).unwrap();
        one.send(Message::Mounted, &vec![file.as_fd(); MOST_DESCRIPTORS]).unwrap();
        assert_eq!(one.send(Message::Mounted, &vec![file.as_fd(); MOST_DESCRIPTORS + 1]), Err(Errno::TOOBIG));
        let (message, descriptors) = other.receive().unwrap().unwrap();
        assert_eq!((message, descriptors.len()), (Message::Opened, 0));
        let (message, descriptors) = other.receive().unwrap().unwrap();
        assert_eq!((message, descriptors.len()), (Message::Mounted, MOST_DESCRIPTORS));
        let place = |file: BorrowedFd<'_>| rustix::fs::fstat(file).map(|stat| (stat.st_dev, stat.st_ino));
        assert!(descriptors.iter().all(|descriptor| place(descriptor.as_fd()) == place(file.as_fd())));
        assert!(!other.wait(1).unwrap());
        drop(one);
        assert!(other.wait(1000).unwrap());
        assert!(other.receive().unwrap().is_none());
        assert!(other.send(Message::Served, &[]).is_err());
    }
}
