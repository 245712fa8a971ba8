//! Files whose cached bytes found no room.
//!
//! The kernel takes write(2) into its cache without asking for room, and sends the bytes later. Where they find none the kernel keeps the error
//! for fsync(2) and close(2), and goes on taking bytes: a program that writes until the disk is full would not end. So the attributes of such a
//! file are dropped from the kernel's cache. Before the next write(2) the kernel then asks for them, over the handle that is written; no other
//! call does, and an error of the reply is the error of the write.
//!
//! Invariants:
//! 1. A file is here only while a handle can write it.
//! 2. A file leaves once there is more room than when its bytes found none.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::io::Errno;
use uxfs_format::units::InodeNumber;

/// So many blocks are more room. A few come back whenever a file lets go of what was allocated ahead.
const MORE_BLOCKS: u64 = 64;

/// The blocks of a file without names come back when the kernel has forgotten it, which it tells beside all other requests: not before a
/// write that was asked for later, where threads are slow. So long a write waits for them that would find no room.
const GRACE: Duration = Duration::from_millis(500);
/// How often it tries.
const STEP: Duration = Duration::from_millis(5);

/// What a write found.
#[derive(Debug, Clone, Copy)]
struct Refused {
    error: Errno,
    free_blocks: u64,
}

/// The files of a mount whose cached bytes found no room.
#[derive(Debug, Default)]
pub struct FullFiles {
    files: Mutex<HashMap<InodeNumber, Refused>>,
    /// How many: usually none.
    count: AtomicUsize,
}

impl FullFiles {
    /// Bytes of a file found no room. Gives whether that is an error of room.
    pub fn refuse(&self, inode: InodeNumber, error: Errno, free_blocks: u64) -> bool {
        if !matches!(error, Errno::NOSPC | Errno::DQUOT) {
            return false;
        }
        let mut files = self.files.lock();
        files.insert(inode, Refused { error, free_blocks });
        self.count.store(files.len(), Ordering::Relaxed);
        true
    }

    /// Whether it is known that this file finds no room.
    pub fn has(&self, inode: InodeNumber) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && self.files.lock().contains_key(&inode)
    }

    /// Before a file is written.
    ///
    /// # Errors
    /// Its bytes found no room, and there is not more now.
    pub fn check(&self, inode: InodeNumber, free_blocks: impl FnOnce() -> u64) -> Result<(), Errno> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let refused = self.files.lock().get(&inode).copied();
        match refused {
            Some(refused) if free_blocks() < refused.free_blocks.saturating_add(MORE_BLOCKS) => {
                Err(refused.error)
            }
            Some(_) => {
                self.forget(inode);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// No handle can write this file any more.
    pub fn forget(&self, inode: InodeNumber) {
        if self.count.load(Ordering::Relaxed) > 0 {
            let mut files = self.files.lock();
            files.remove(&inode);
            self.count.store(files.len(), Ordering::Relaxed);
        }
    }
}

/// Files that lost their last name a moment ago.
#[derive(Debug)]
pub struct Leaving {
    begun: Instant,
    /// When one last did, after `begun`; 0 for never.
    last_milliseconds: AtomicU64,
}

impl Default for Leaving {
    fn default() -> Self {
        Self { begun: Instant::now(), last_milliseconds: AtomicU64::new(0) }
    }
}

impl Leaving {
    /// A file lost its last name.
    pub fn note(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_milliseconds.store(now.max(1), Ordering::Relaxed);
    }

    fn is_recent(&self) -> bool {
        let last = self.last_milliseconds.load(Ordering::Relaxed);
        last > 0 && self.begun.elapsed() < Duration::from_millis(last) + GRACE
    }

    /// Waits a little where blocks may come back soon, for a write that has found no room since `begun`. Gives whether it is to try again.
    #[must_use]
    pub fn wait(&self, begun: Instant) -> bool {
        let tries_again = self.is_recent() && begun.elapsed() < GRACE;
        if tries_again {
            thread::sleep(STEP);
        }
        tries_again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_waits_for_files_that_leave_and_not_for_ever() {
        let (leaving, begun) = (Leaving::default(), Instant::now());
        assert!(!leaving.wait(begun));
        leaving.note();
        assert!(leaving.wait(begun));
        while leaving.wait(begun) {
            // More files leave meanwhile.
            leaving.note();
        }
        assert!((GRACE..GRACE * 20).contains(&begun.elapsed()));
    }

    #[test]
    fn a_file_without_room_is_refused_until_there_is_more() {
        let (full, inode) = (FullFiles::default(), InodeNumber::new(131));
        assert_eq!(full.check(inode, || 0), Ok(()));
        assert!(!full.refuse(inode, Errno::IO, 5));
        assert_eq!(full.check(inode, || 0), Ok(()));
        assert!(!full.has(inode));
        assert!(
            full.refuse(inode, Errno::NOSPC, 5) && full.has(inode) && full.refuse(inode, Errno::DQUOT, 5)
        );
        assert_eq!(full.check(inode, || 5), Err(Errno::DQUOT));
        assert_eq!(full.check(InodeNumber::new(132), || 5), Ok(()));
        assert_eq!(full.check(inode, || 5 + MORE_BLOCKS), Ok(()));
        assert_eq!(full.check(inode, || 0), Ok(()), "invariant 2");
        assert!(full.refuse(inode, Errno::NOSPC, 0));
        full.forget(inode);
        assert_eq!(full.check(inode, || 0), Ok(()), "invariant 1");
    }
}
