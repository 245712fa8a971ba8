//! Whether standard output was closed when the process began (`>&-`).
//!
//! Before `main`, Rust opens `/dev/null` in the place of a standard stream that is closed. From then on it looks like `> /dev/null`, which
//! is meant. Only what runs before can tell, so the loader runs it.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::io::{Errno, fcntl_getfd};

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether it was.
pub fn is_closed() -> bool {
    IS_CLOSED.load(Relaxed)
}

/// Makes one system call, and uses nothing of the standard library that has to be set up.
extern "C" fn look() {
    IS_CLOSED.store(fcntl_getfd(rustix::stdio::stdout()) == Err(Errno::BADF), Relaxed);
}

// SAFETY: the section holds addresses of functions that the loader calls, once, before `main`. It may pass arguments, which a function of
// the C convention may ignore.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;
