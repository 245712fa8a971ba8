//! Files and directories that are open.
//!
//! An open file holds its inode in memory, and with it the space that was allocated ahead; its handle is a number that says in which part
//! of the table it lies.
//!
//! Invariants:
//! 1. Where the kernel may have bytes of a file that were not sent, a handle that can write is here: the kernel writes back before it
//!    releases one.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::atomic::{AtomicUsize, Ordering},
};

use parking_lot::{Mutex, RwLock};
use uxfs_filesystem::inode::table::InodeHandle;
use uxfs_format::units::InodeNumber;

/// Parts of the table, each with a lock of its own.
const SHARDS: usize = 16;

/// The open files of a mount.
#[derive(Debug)]
pub struct OpenFiles {
    shards: Box<[RwLock<Shard>]>,
    next: AtomicUsize,
    /// How many handles of an inode can write.
    writers: Box<[Mutex<HashMap<InodeNumber, u32>>]>,
}

#[derive(Debug, Default)]
struct Shard {
    files: Vec<Option<OpenFile>>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct OpenFile {
    inode: InodeHandle,
    can_write: bool,
}

impl Default for OpenFiles {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| RwLock::default()).collect();
        let writers = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, next: AtomicUsize::new(0), writers }
    }
}

impl OpenFiles {
    /// Adds an open file. Gives its handle, which is never 0.
    pub fn insert(&self, inode: InodeHandle, can_write: bool) -> u64 {
        if can_write {
            self.change_writers(inode.number(), |writers| *writers = writers.saturating_add(1));
        }
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
            *place = Some(OpenFile { inode, can_write });
        }
        ((index as u64 + 1) * SHARDS as u64) | number as u64
    }

    /// The file with this handle.
    pub fn get(&self, handle: u64) -> Option<InodeHandle> {
        let (number, index) = Self::place(handle)?;
        self.shards.get(number)?.read().files.get(index)?.as_ref().map(|file| file.inode.clone())
    }

    /// Takes a file out.
    pub fn remove(&self, handle: u64) -> Option<InodeHandle> {
        let (number, index) = Self::place(handle)?;
        let file = {
            let mut shard = self.shards.get(number)?.write();
            let file = shard.files.get_mut(index)?.take()?;
            shard.free.push(index);
            file
        };
        if file.can_write {
            self.change_writers(file.inode.number(), |writers| *writers = writers.saturating_sub(1));
        }
        Some(file.inode)
    }

    /// Whether the kernel may have bytes of this inode that it has not sent.
    pub fn have_writer(&self, inode: InodeNumber) -> bool {
        self.writers_of(inode).is_none_or(|writers| writers.lock().contains_key(&inode))
    }

    fn change_writers(&self, inode: InodeNumber, change: impl FnOnce(&mut u32)) {
        let Some(writers) = self.writers_of(inode) else { return };
        match writers.lock().entry(inode) {
            Entry::Occupied(mut entry) => {
                change(entry.get_mut());
                if *entry.get() == 0 {
                    entry.remove();
                }
            }
            Entry::Vacant(entry) => change(entry.insert(0)),
        }
    }

    fn writers_of(&self, inode: InodeNumber) -> Option<&Mutex<HashMap<InodeNumber, u32>>> {
        self.writers.get(inode.get() as usize % SHARDS)
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
        self.writers.iter().for_each(|writers| writers.lock().clear());
    }

    fn place(handle: u64) -> Option<(usize, usize)> {
        let (number, index) = (handle % SHARDS as u64, (handle / SHARDS as u64).checked_sub(1)?);
        Some((usize::try_from(number).ok()?, usize::try_from(index).ok()?))
    }
}
