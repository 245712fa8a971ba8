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
    sync::atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use rustix::io::Errno;
use uxfs_format::units::InodeNumber;

/// So many blocks are more room. A few come back whenever a file lets go of what was allocated ahead.
const MORE_BLOCKS: u64 = 64;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_room_is_refused_until_there_is_more() {
        let (full, inode) = (FullFiles::default(), InodeNumber::new(131));
        assert_eq!(full.check(inode, || 0), Ok(()));
        assert!(!full.refuse(inode, Errno::IO, 5));
        assert_eq!(full.check(inode, || 0), Ok(()));
        assert!(full.refuse(inode, Errno::NOSPC, 5) && full.refuse(inode, Errno::DQUOT, 5));
        assert_eq!(full.check(inode, || 5), Err(Errno::DQUOT));
        assert_eq!(full.check(InodeNumber::new(132), || 5), Ok(()));
        assert_eq!(full.check(inode, || 5 + MORE_BLOCKS), Ok(()));
        assert_eq!(full.check(inode, || 0), Ok(()), "invariant 2");
        assert!(full.refuse(inode, Errno::NOSPC, 0));
        full.forget(inode);
        assert_eq!(full.check(inode, || 0), Ok(()), "invariant 1");
    }
}
