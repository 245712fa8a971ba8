//! Work that only one test at a time may do, also where tests run in several processes.

use std::fs::{File, OpenOptions};

use anyhow::Result;
use rustix::fs::{FlockOperation, flock};

use crate::image::cache_folder;

/// Others wait for the same name as long as this lives, and until its process ends at the latest.
#[derive(Debug)]
pub struct Exclusive {
    _lock: File,
}

impl Exclusive {
    /// Waits until no other test has `name`.
    ///
    /// # Errors
    /// The lock's file cannot be made.
    pub fn wait_for(name: &str) -> Result<Self> {
        let path = cache_folder()?.join(format!("{name}.lock"));
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(Self { _lock: lock })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
    };

    use super::*;

    #[test]
    fn one_at_a_time() {
        let inside = AtomicUsize::new(0);
        let work = || {
            for _ in 0..50 {
                let _one = Exclusive::wait_for("test-of-exclusive").unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
            }
        };
        thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(work))));
    }
}
