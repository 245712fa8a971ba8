//! How a mount ended, told to those that wait for its end: `uxfs umount` connects before it unmounts, and is told once the image is whole, or
//! why it is not.
//!
//! The process that mounted listens at a name without a file. The name has the number of the mount, which no other mount ever gets.

use std::{
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, retry_on_intr},
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
        connect, listen, recv, send, socket_with, sockopt,
    },
    process::geteuid,
};

use super::{mount_id::unique_id_at, mount_table::MountEntry};

/// Those that wait at once, at most.
const MOST_WAITING: i32 = 64;
/// What is told of a reason, at most.
const MOST_BYTES: usize = 2000;

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// 0, or what went wrong: an exit code of the program.
    pub exit_code: u8,
    /// Why; empty where the image is whole.
    pub reason: String,
}

/// The end that tells. Dropping it without a word tells nothing.
#[derive(Debug)]
pub struct Teller(OwnedFd);

impl Teller {
    /// Listens for those that wait for the end of a mount with this number, which no other one gets. Nothing is told where that cannot be.
    #[must_use]
    pub fn of(unique_id: Option<u64>) -> Option<Self> {
        let name = name(unique_id?).ok()?;
        let socket = socket().ok()?;
        bind(&socket, &name).and_then(|()| listen(&socket, MOST_WAITING)).ok()?;
        Some(Self(socket))
    }

    /// Tells all that wait.
    pub fn tell(self, ending: &Ending) {
        let mut bytes = vec![ending.exit_code];
        bytes.extend(ending.reason.bytes().take(MOST_BYTES));
        let accept = || accept_with(&self.0, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        while self.has_waiting() {
            match accept() {
                Ok(waiting) => drop(send(&waiting, &bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)),
                // One of them has gone.
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    fn has_waiting(&self) -> bool {
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
            .is_ok_and(|ready| ready > 0)
    }
}

/// The end that waits.
#[derive(Debug)]
pub struct Waiting(OwnedFd);

impl Waiting {
    /// Waits for the end of a mount. `None` where its process cannot be reached: it has another network namespace, or is gone.
    #[must_use]
    pub fn for_end_of(entry: &MountEntry) -> Option<Self> {
        let name = name(unique_id_at(&entry.mount_point)?).ok()?;
        let socket = socket().ok()?;
        connect(&socket, &name).ok()?;
        // Any process can take the name: its user must be one that could mount this.
        let user = sockopt::socket_peercred(&socket).ok()?.uid;
        let may_be = user.is_root() || user == geteuid() || entry.user_id() == Some(user.as_raw());
        may_be.then_some(Self(socket))
    }

    /// Waits, at most so long. `None` where it is not over yet, or where its process has ended without a word.
    ///
    /// # Errors
    /// [`Errno::TIMEDOUT`] where it is not over yet.
    pub fn wait(&self, limit: Duration) -> Result<Option<Ending>, Errno> {
        let end = Instant::now().checked_add(limit);
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let timeout = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], timeout.as_ref()) {
                Ok(0) => return Err(Errno::TIMEDOUT),
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        let mut bytes = vec![0; MOST_BYTES + 1];
        let length = match retry_on_intr(|| recv(&self.0, &mut bytes[..], RecvFlags::empty())) {
            Ok((length, _)) => length,
            Err(Errno::CONNRESET) => 0,
            Err(error) => return Err(error),
        };
        let told = bytes.get(..length).and_then(|told| told.split_first());
        Ok(told.map(|(exit_code, reason)| Ending {
            exit_code: *exit_code,
            reason: String::from_utf8_lossy(reason).into_owned(),
        }))
    }
}

fn socket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

fn name(unique_id: u64) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(format!("uxfs-mount-{unique_id:x}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_wait_are_told() {
        // Mounts have numbers below.
        let number = (1 << 63) | u64::from(std::process::id());
        assert!(Teller::of(None).is_none());
        let teller = Teller::of(Some(number)).unwrap();
        let wait = |number| {
            let socket = socket().unwrap();
            connect(&socket, &name(number).unwrap()).unwrap();
            Waiting(socket)
        };
        let waiting = [wait(number), wait(number)];
        assert_eq!(waiting[0].wait(Duration::from_millis(1)), Err(Errno::TIMEDOUT));
        drop(wait(number));
        let ending = Ending { exit_code: 3, reason: "damage".to_owned() };
        teller.tell(&ending);
        for waiting in &waiting {
            assert_eq!(waiting.wait(Duration::from_secs(20)).unwrap(), Some(ending.clone()));
        }
        // One that ends without a word. It has a name of its own: a child of another test may keep the first one for a moment.
        let number = number ^ (1 << 62);
        let teller = Teller::of(Some(number)).unwrap();
        let waiting = wait(number);
        drop(teller);
        assert_eq!(waiting.wait(Duration::from_secs(20)), Ok(None));
    }
}
