//! Files and directories that are open.
//!
//! An open file holds its inode in memory, and with it the space that was allocated ahead; its handle is a number that says in which part
//! of the table it lies.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use uxfs_filesystem::inode::table::InodeHandle;

/// Parts of the table, each with a lock of its own.
const SHARDS: usize = 16;

/// The open files of a mount.
#[derive(Debug)]
pub struct OpenFiles {
    shards: Box<[RwLock<Shard>]>,
    next: AtomicUsize,
}

#[derive(Debug, Default)]
struct Shard {
    files: Vec<Option<InodeHandle>>,
    free: Vec<usize>,
}

impl Default for OpenFiles {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| RwLock::default()).collect(), next: AtomicUsize::new(0) }
    }
}

impl OpenFiles {
    /// Adds an open file. Gives its handle, which is never 0.
    pub fn insert(&self, file: InodeHandle) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed) % SHARDS;
        let Some(shard) = self.shards.get(number) else { return 0 };
        let mut shard = shard.write();
        let index = match shard.free.pop() {
            Some(index) => index,
            None => {
                shard.files.push(None);
                shard.files.len() - 1
            }
        };
        if let Some(place) = shard.files.get_mut(index) {
            *place = Some(file);
        }
        ((index as u64 + 1) * SHARDS as u64) | number as u64
    }

    /// The file with this handle.
    pub fn get(&self, handle: u64) -> Option<InodeHandle> {
        let (number, index) = Self::place(handle)?;
        self.shards.get(number)?.read().files.get(index)?.clone()
    }

    /// Takes a file out.
    pub fn remove(&self, handle: u64) -> Option<InodeHandle> {
        let (number, index) = Self::place(handle)?;
        let mut shard = self.shards.get(number)?.write();
        let file = shard.files.get_mut(index)?.take()?;
        shard.free.push(index);
        Some(file)
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.read()).map(|shard| shard.files.len() - shard.free.len()).sum()
    }

    /// Closes all.
    pub fn clear(&self) {
        for shard in &self.shards {
            let files = std::mem::take(&mut *shard.write());
            drop(files);
        }
    }

    fn place(handle: u64) -> Option<(usize, usize)> {
        let (number, index) = (handle % SHARDS as u64, (handle / SHARDS as u64).checked_sub(1)?);
        Some((usize::try_from(number).ok()?, usize::try_from(index).ok()?))
    }
}
