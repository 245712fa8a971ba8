//! Descriptors that a process inherited without a use for them, and room for its own.
#![allow(unsafe_code)]

use std::{io, os::fd::AsFd};

use rustix::io::fcntl_dupfd_cloexec;

/// More than a mount has open.
const ROOM: i32 = 256;

/// Closes all but the standard ones. Only at the start of a process, before it opens anything: what is closed here may belong to no value of
/// this program.
///
/// # Errors
/// The kernel has no close_range(2), which came with Linux 5.9.
pub fn close_inherited() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: as the description says, no value owns any of them.
    match unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets the kernel's table of descriptors grow now, while the process has one thread: later the kernel would have all threads leave the old
/// table first, which takes some 10 ms. Where the limit of descriptors is lower, nothing happens.
pub fn make_room() {
    drop(fcntl_dupfd_cloexec(io::stdin().as_fd(), ROOM - 1));
}
