//! An open-file-description lock that marks a file as in use. Its only holder can make it exclusive atomically: unlike flock(2), fcntl(2)
//! converts a lock in one step, and keeps the old lock if the conversion fails.
#![allow(unsafe_code)]

use std::{fs::File, io, mem, os::fd::AsRawFd};

use rustix::io::Errno;

/// The byte that is locked. It lies behind the contents of every file, and far from the bytes that QEMU locks (100 to 300).
const BYTE: libc::off_t = libc::off_t::MAX - 1;

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It has the lock.
    Taken,
    /// Another process holds it. A lock held before is kept.
    Refused,
    /// The file system has no such locks, or the file is not open for writing.
    Unsupported,
}

/// Takes the lock shared.
pub(crate) fn be_there(file: &File) -> Attempt {
    lock(file, libc::F_RDLCK)
}

/// Takes the lock exclusively. The file must be open for writing.
pub(crate) fn be_alone(file: &File) -> Attempt {
    lock(file, libc::F_WRLCK)
}

fn lock(file: &File, kind: libc::c_int) -> Attempt {
    // SAFETY: all fields are plain numbers, of which some systems have more.
    let mut lock: libc::flock = unsafe { mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    (lock.l_start, lock.l_len) = (BYTE, 1);
    loop {
        // SAFETY: F_OFD_SETLK reads one `struct flock`, which outlives the call.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } == 0 {
            return Attempt::Taken;
        }
        match Errno::from_io_error(&io::Error::last_os_error()) {
            Some(Errno::INTR) => {}
            Some(Errno::AGAIN | Errno::ACCESS) => return Attempt::Refused,
            _ => return Attempt::Unsupported,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What flock(2) does not promise.
    #[test]
    fn a_refused_conversion_keeps_the_lock() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || File::options().read(true).write(true).open(file.path()).unwrap();
        let (one, other, third) = (open(), open(), open());
        assert_eq!(be_there(&one), Attempt::Taken);
        assert_eq!(be_there(&other), Attempt::Taken);
        assert_eq!(be_alone(&one), Attempt::Refused);
        assert_eq!(be_alone(&other), Attempt::Refused);
        assert_eq!(be_alone(&third), Attempt::Refused, "both still have it");
        drop(other);
        assert_eq!(be_alone(&one), Attempt::Taken);
        assert_eq!(be_there(&third), Attempt::Refused);
        assert_eq!(be_there(&one), Attempt::Taken);
        assert_eq!(be_there(&third), Attempt::Taken);
        let read_only = File::open(file.path()).unwrap();
        assert_eq!(be_there(&read_only), Attempt::Taken);
        assert_eq!(be_alone(&read_only), Attempt::Unsupported);
    }
}
