//! Descriptors that a process inherited without a use for them.
#![allow(unsafe_code)]

use std::io;

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
