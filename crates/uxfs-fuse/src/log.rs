//! What the process that serves has to say: lines on standard error, with their level in front as the system's log has it (`<3>`). The
//! process that mounted it passes them on.
//!
//! A line is one write, and no lock is held meanwhile. The other end may be slow, or be read by a program whose log lies on this very mount:
//! a line for which there is no room is left out.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use rustix::io::{Errno, write};

/// How much a line matters. The numbers are those of syslog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something failed.
    Error = 3,
    /// Something may.
    Warning = 4,
    /// What happens to the mount.
    Info = 6,
    /// Each request.
    Debug = 7,
}

impl Level {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Error, Self::Warning, Self::Info, Self::Debug];

    /// As the option `log=` names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    /// A line without the level in front of it, if there is one.
    #[must_use]
    pub fn split(line: &str) -> (Option<Self>, &str) {
        let found = Self::ALL.into_iter().find_map(|level| {
            let rest = line.strip_prefix('<')?.strip_prefix(char::from(b'0' + level as u8))?;
            Some((Some(level), rest.strip_prefix('>')?))
        });
        found.unwrap_or((None, line))
    }
}

/// Where lines go.
#[derive(Debug)]
pub struct Log {
    most: Level,
    left_out: AtomicU64,
}

impl Log {
    /// Lines up to this level are told.
    #[must_use]
    pub fn new(most: Level) -> Self {
        Self { most, left_out: AtomicU64::new(0) }
    }

    /// Whether lines of this level are told.
    #[inline]
    #[must_use]
    pub fn tells(&self, level: Level) -> bool {
        level <= self.most
    }

    /// Tells a line.
    pub fn tell(&self, level: Level, text: fmt::Arguments<'_>) {
        if !self.tells(level) {
            return;
        }
        let left_out = self.left_out.swap(0, Relaxed);
        if left_out > 0 && !put(Level::Warning, format_args!("{left_out} lines were left out here")) {
            self.left_out.fetch_add(left_out, Relaxed);
        }
        if !put(level, text) {
            self.left_out.fetch_add(1, Relaxed);
        }
    }
}

/// Gives whether there was room.
fn put(level: Level, text: fmt::Arguments<'_>) -> bool {
    // Names and errors come from the image: they steer no terminal and make no second line.
    let text: String = text.to_string().chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let line = format!("<{}>{text}\n", level as u8);
    write(rustix::stdio::stderr(), line.as_bytes()) != Err(Errno::AGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_found_in_front_of_lines() {
        assert_eq!(Level::split("<3>a"), (Some(Level::Error), "a"));
        assert_eq!(Level::split("<7>"), (Some(Level::Debug), ""));
        for line in ["", "<", "<3", "<9>a", "a<3>"] {
            assert_eq!(Level::split(line), (None, line));
        }
        let log = Log::new(Level::Warning);
        assert!(log.tells(Level::Error) && log.tells(Level::Warning) && !log.tells(Level::Info));
    }
}
