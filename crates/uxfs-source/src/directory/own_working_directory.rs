//! A thread's own working directory.
// One call, which rustix holds for unsafe for the sake of a flag that is not given here.
#![allow(unsafe_code)]

use rustix::{
    io::Errno,
    thread::{UnshareFlags, unshare_unsafe},
};

/// Gives the calling thread a working directory that it shares with no other, for the rest of its life.
pub(super) fn take() -> Result<(), Errno> {
    // SAFETY: only working directory and umask leave the process; the table of open files stays shared.
    unsafe { unshare_unsafe(UnshareFlags::FS) }
}
