//! Directory listings: invalidating the kernel's cached listing, and choosing between READDIR and READDIRPLUS contents.
//!
//! **Cached listings.** Linux 6.18 validates its cached listing only at offset 0. If process A starts to list a directory, B renames an entry
//! and then lists it, B reads offset 0 from the server and later offsets from the cache that A filled before the rename. To prevent this, the
//! server invalidates the first page of the cached listing before it replies to a change of directory entries. A reader that misses the first
//! page falls back to the server.
//!
//! **Attributes.** A listing contains the entries only, or their attributes as well.
//! The kernel asks for both in one request. Attributes spare the program that lists a request for each file, if it looks at the files, as
//! `ls -l` does; they cost several times as much as names for a program that does not, as `find`. The kernel cannot know it, and neither can
//! one request; but a program does to one directory what it did to the one before. So the first listing of a thread names its entries only,
//! and once it has looked at a file that is no directory its next ones give attributes.
//!
//! Invariants:
//! 1. What is here is a guess: both answers are right, whatever the caller does. It is kept for so many threads; two that share a place
//!    guess for each other.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::protocol::request::{Operation, Request};

/// Threads that are remembered, at most.
const PLACES: usize = 1024;
/// A thread has listed something.
const HAS_LISTED: u64 = 1 << 32;
/// Then it looked at a file.
const LOOKS_AT_FILES: u64 = 1 << 33;

/// What threads that list directories do with the names.
#[derive(Debug)]
pub struct Listings {
    threads: Box<[AtomicU64]>,
}

impl Default for Listings {
    fn default() -> Self {
        Self { threads: (0..PLACES).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Listings {
    /// A thread lists a directory. Gives whether it wants attributes.
    pub fn lists(&self, thread: u32) -> bool {
        let Some(place) = self.place(thread) else { return false };
        let known = place.load(Relaxed);
        if known as u32 != thread || known & HAS_LISTED == 0 {
            place.store(u64::from(thread) | HAS_LISTED, Relaxed);
            return false;
        }
        known & LOOKS_AT_FILES != 0
    }

    /// A thread looked at a file that is no directory, by a name that the kernel did not know.
    pub fn looks_at_a_file(&self, thread: u32) {
        let Some(place) = self.place(thread) else { return };
        let known = place.load(Relaxed);
        if known as u32 == thread && known & HAS_LISTED != 0 && known & LOOKS_AT_FILES == 0 {
            place.store(known | LOOKS_AT_FILES, Relaxed);
        }
    }

    fn place(&self, thread: u32) -> Option<&AtomicU64> {
        self.threads.get(thread as usize % PLACES)
    }
}

/// Whether a request that has [`uncounted_nodes`](super::told::uncounted_nodes) changes directory entries in them.
pub fn changes_names(request: &Request<'_>) -> bool {
    use Operation as O;
    !matches!(request.operation, O::SetExtendedAttribute(_) | O::RemoveExtendedAttribute(_) | O::Ioctl(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_looks_at_files_gets_attributes() {
        let listings = Listings::default();
        listings.looks_at_a_file(7);
        assert!(!listings.lists(7) && !listings.lists(7));
        listings.looks_at_a_file(8);
        assert!(!listings.lists(7) && !listings.lists(8));
        listings.looks_at_a_file(7);
        assert!(listings.lists(7) && listings.lists(7) && !listings.lists(8));
        // Another thread at the same place.
        let other = 7 + PLACES as u32;
        assert!(!listings.lists(other) && !listings.lists(7));
    }
}
