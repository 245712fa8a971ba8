//! What a mount has to say: on standard error, and once the command has returned, to the system's log.

use std::{
    io::Write,
    os::unix::net::UnixDatagram,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::failure::{Exit, Failure};

/// Where the system's log takes messages: that of syslog, and of journald.
const SYSTEM: &str = "/dev/log";
/// Of syslog: a daemon's.
const FACILITY: u8 = 3 << 3;
const ERROR: u8 = 3;
const WARNING: u8 = 4;

static IS_SYSTEM: AtomicBool = AtomicBool::new(false);

/// From now on messages go to the system's log: nothing reads standard error any more.
pub fn to_system() {
    IS_SYSTEM.store(true, Ordering::Relaxed);
}

/// Whether they do.
pub fn is_system() -> bool {
    IS_SYSTEM.load(Ordering::Relaxed)
}

/// Tells why the mount failed, and gives the exit code.
pub fn failure(failure: &Failure) -> Exit {
    match failure.parts() {
        Some((_, exit, message)) => {
            line(message);
            exit
        }
        None => Exit::Success,
    }
}

/// Tells one line.
pub fn line(text: &str) {
    if !is_system() {
        // Standard error that is closed takes nothing; there is no other place.
        let _ = writeln!(std::io::stderr(), "{text}");
        return;
    }
    let level = if text.contains("warning:") { WARNING } else { ERROR };
    let text = text.strip_prefix("uxfs: ").unwrap_or(text);
    let message = format!("<{}>uxfs[{}]: {text}", FACILITY | level, std::process::id());
    // Without a log there is no place for it either.
    let _ = UnixDatagram::unbound().and_then(|socket| socket.send_to(message.as_bytes(), SYSTEM));
}
