//! Listings of directories: what is told in them, and when the kernel must forget what it remembers of one.
//!
//! **What the kernel remembers** of a listing it compares with the directory where a program begins to list, and not where it goes on. If one
//! program lists while another changes a name and then lists, the second one begins with what the server says, and goes on with what the first
//! one has read before the change (seen on Linux 6.18): it does not see its own change. So where names change after a listing, the kernel
//! is told, before the change is answered, to forget the first page of what it remembers. For a place in a listing without its
//! first page it asks the server.
//!
//! **Attributes.** A listing names its entries only, or gives their attributes, too.
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

/// Whether an operation changes names in the directories of [`uncounted_nodes`](super::told::uncounted_nodes).
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
