//! Damage and failures that requests meet: each is told once in the log, with its place. The request gets its error in any case.

use std::{
    any::Any,
    cell::RefCell,
    collections::HashSet,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::io::Errno;
use uxfs_block::words::in_words;
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_volume::error::Error;

use crate::{
    log::{Level, Log},
    protocol::{opcode::Opcode, wire::header::InHeader},
    transport::Answer,
};

/// A place is told once within so long, …
const PERIOD: Duration = Duration::from_secs(600);
/// … and no more than so many: a hostile image has as many as it likes.
const MOST_PLACES: usize = 100;

thread_local! {
    /// The last damage or failure of the device that this thread has met.
    static MET: RefCell<Option<Met>> = const { RefCell::new(None) };
}

struct Met {
    /// What it became.
    number: Errno,
    words: String,
    is_damage: bool,
}

/// Keeps the words of an error that becomes a number, where they say more than the number.
pub(super) fn note(error: &Error, number: Errno) {
    let is_damage = matches!(error, Error::Corrupt(_));
    let says_more = is_damage || matches!(error, Error::Io(_));
    MET.set(says_more.then(|| Met { number, words: in_words(error), is_damage }));
}

/// Which places have been told.
#[derive(Debug)]
struct Places {
    begun: Instant,
    places: HashSet<String>,
    left_out: u64,
}

impl Default for Places {
    fn default() -> Self {
        Self { begun: Instant::now(), places: HashSet::new(), left_out: 0 }
    }
}

impl Places {
    /// Whether a place is to be told now, and how many were left out before.
    fn take(&mut self, place: &str) -> (bool, u64) {
        let mut left_out = 0;
        if self.begun.elapsed() >= PERIOD {
            left_out = self.left_out;
            *self = Self::default();
        }
        if self.places.contains(place) {
            return (false, left_out);
        }
        if self.places.len() >= MOST_PLACES {
            self.left_out += 1;
            return (false, left_out);
        }
        self.places.insert(place.to_owned());
        (true, left_out)
    }
}

/// The log of a mount, and what it has been told of troubles.
#[derive(Debug)]
pub struct Trouble {
    /// Where the mount tells what happens.
    pub log: Log,
    told: Mutex<Places>,
    is_shutdown_told: AtomicBool,
    has_failed: AtomicBool,
}

impl Trouble {
    pub(super) fn new(log: Log) -> Self {
        let (is_shutdown_told, has_failed) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { log, told: Mutex::default(), is_shutdown_told, has_failed }
    }

    /// A request failed. What damage made it so is told.
    #[cold]
    pub(super) fn tell(&self, file_system: &FileSystem, request: &[u8], error: Errno) {
        let met = MET.take().filter(|met| met.number == error);
        if let Some(Met { words, is_damage, .. }) = met {
            let subject = subject(request);
            // A device that fails does so at each byte.
            let place = if is_damage { &words } else { &subject };
            let (is_new, left_out) = self.told.lock().take(place);
            if left_out > 0 {
                self.log
                    .tell(Level::Error, format_args!("{left_out} further errors like these were left out"));
            }
            if is_new {
                self.log.tell(Level::Error, format_args!("{words} (met by {subject})"));
            }
        }
        self.tell_of_shutdown(file_system);
    }

    /// A request met an assertion that does not hold: this program is wrong. What it holds by a lock is free again, and what it changed may be
    /// half done: nothing is changed any more.
    #[cold]
    pub(super) fn tell_of_panic(
        &self,
        file_system: &FileSystem,
        request: &[u8],
        panic: &(dyn Any + Send),
    ) -> Answer {
        let words = panic.downcast_ref::<&str>().copied();
        let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown");
        let subject = subject(request);
        self.log.tell(
            Level::Error,
            format_args!("this is an error in uxfs: {words} ({subject}); please report it"),
        );
        if let Some(journal) = file_system.journal() {
            journal.shut_down(&"an error in uxfs");
        }
        Answer::Error(Errno::IO)
    }

    /// Tells once that nothing can be changed any more. Another thread than those of requests may have met the reason.
    pub fn tell_of_shutdown(&self, file_system: &FileSystem) {
        let Some(Err(reason)) = file_system.journal().map(|journal| journal.check()) else { return };
        if !self.is_shutdown_told.swap(true, Relaxed) {
            self.log.tell(
                Level::Error,
                format_args!(
                    "{reason}; changes fail from now on, and those that were not synced may be lost"
                ),
            );
        }
    }

    /// A thread can take no more requests.
    pub(crate) fn fail(&self) {
        self.has_failed.store(true, Relaxed);
    }

    /// Whether requests can no longer be taken by all threads: the file system is to be unmounted.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }
}

fn subject(request: &[u8]) -> String {
    use zerocopy::FromBytes;
    InHeader::read_from_prefix(request).map_or_else(
        |_| "a request".to_owned(),
        |(header, _)| format!("{} of inode {}", Opcode::from_number(header.opcode), header.node_id),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_once_and_not_too_many_are() {
        let mut told = Places::default();
        assert_eq!(told.take("a"), (true, 0));
        assert_eq!(told.take("a"), (false, 0));
        for place in 1..MOST_PLACES {
            assert_eq!(told.take(&place.to_string()), (true, 0));
        }
        assert_eq!(told.take("one more"), (false, 0));
        assert_eq!(told.left_out, 1);
        if let Some(begun) = told.begun.checked_sub(PERIOD) {
            told.begun = begun;
            assert_eq!(told.take("a"), (true, 1));
        }
    }
}
