//! Times that are written late: the option `lazytime`.
//!
//! A change of nothing but times stays in memory until its inode changes otherwise, is synced, or is forgotten by the kernel, a day is over, or
//! the file system is unmounted.
//!
//! Invariants:
//! 1. What is kept here is shown: every reply with attributes has it.
//! 2. It is written before the next change of its inode, so it is never newer than what the inode itself has.
//! 3. Only a crash loses it. An inode that goes has nothing here: the kernel forgets it before.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use uxfs_filesystem::{
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::{live::Status, set_attributes::AttributeChanges},
};
use uxfs_format::{inode::Timestamp, units::InodeNumber};

use super::nodes::Nodes;
use crate::protocol::{
    flags::AttributeChanges as Asked,
    request::{
        Operation,
        operation::{SetAttributes, TimeChange},
    },
};

/// Times are kept for so long.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Inodes whose times are kept, at most: a further one has them written.
const MOST_INODES: usize = 1 << 20;

/// Times of one inode; those that are `None` are as the inode has them.
#[derive(Debug, Clone, Copy)]
struct Times {
    access: Option<Timestamp>,
    modification: Option<Timestamp>,
    change: Option<Timestamp>,
    since: Instant,
}

impl Times {
    fn new() -> Self {
        Self { access: None, modification: None, change: None, since: Instant::now() }
    }

    fn changes(self, status: &Status) -> AttributeChanges {
        AttributeChanges {
            access_time: self.access,
            modification_time: self.modification,
            // A new access time alone is no change.
            change_time: Some(self.change_after(status)),
            ..AttributeChanges::default()
        }
    }

    /// A name of the inode may have changed later, and with it the inode.
    fn change_after(self, status: &Status) -> Timestamp {
        self.change.map_or(status.change_time, |change| change.max(status.change_time))
    }
}

/// The times that are written late.
#[derive(Debug, Default)]
pub struct LazyTimes {
    /// The mount asks for it.
    is_on: bool,
    times: Mutex<HashMap<InodeNumber, Times>>,
    /// As many as there are: without the option there are none, and no lock is taken.
    count: AtomicUsize,
}

impl LazyTimes {
    pub(super) fn new(is_on: bool) -> Self {
        Self { is_on, ..Self::default() }
    }

    fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Gives whether there is room.
    fn change(&self, inode: InodeNumber, change: impl FnOnce(&mut Times)) -> bool {
        let mut times = self.times.lock();
        let is_full = times.len() >= MOST_INODES;
        match times.entry(inode) {
            Entry::Occupied(mut entry) => change(entry.get_mut()),
            Entry::Vacant(_) if is_full => return false,
            Entry::Vacant(entry) => change(entry.insert(Times::new())),
        }
        self.count.store(times.len(), Relaxed);
        true
    }

    fn take(&self, inode: InodeNumber) -> Option<Times> {
        if self.is_empty() {
            return None;
        }
        let mut times = self.times.lock();
        let taken = times.remove(&inode);
        self.count.store(times.len(), Relaxed);
        taken
    }

    /// Inodes whose times have been kept for so long.
    fn older_than(&self, age: Duration) -> Vec<InodeNumber> {
        let times = self.times.lock();
        times.iter().filter(|(_, times)| times.since.elapsed() >= age).map(|(inode, _)| *inode).collect()
    }

    /// The times of an inode as they are shown: last access, change of contents, change.
    pub(super) fn shown(&self, status: &Status) -> [Timestamp; 3] {
        let of_inode = [status.access_time, status.modification_time, status.change_time];
        if self.is_empty() {
            return of_inode;
        }
        match self.times.lock().get(&status.number) {
            None => of_inode,
            Some(times) => [
                times.access.unwrap_or(status.access_time),
                times.modification.unwrap_or(status.modification_time),
                times.change_after(status),
            ],
        }
    }
}

impl LazyTimes {
    /// Keeps the time of an access. Gives whether it is kept.
    pub(super) fn keep_access(&self, inode: &InodeHandle, time: Timestamp) -> bool {
        self.is_on && self.change(inode.number(), |times| times.access = Some(time))
    }

    /// Keeps the times of contents that the kernel has changed in its cache. Where other changes of the inode are not in the log yet, its times
    /// go with them. Gives whether they are kept.
    pub(super) fn keep(&self, file_system: &FileSystem, inode: &InodeHandle, asked: &SetAttributes) -> bool {
        let of_cache = Asked::MODIFICATION_TIME | Asked::CHANGE_TIME;
        let is_of_cache = of_cache.contains(asked.changes & !Asked::HANDLE);
        let Some(TimeChange::At(modification)) = asked.modification else { return false };
        if !self.is_on || !is_of_cache {
            return false;
        }
        let stable = file_system.journal().map_or(0, |journal| journal.stable());
        if inode.read().commits.data > stable {
            return false;
        }
        self.change(inode.number(), |times| {
            times.modification = Some(modification);
            times.change = asked.change.or(times.change);
        })
    }

    /// Writes the times of an inode that are kept, before another change of it, or because they are to be durable.
    pub(super) fn write(&self, file_system: &FileSystem, inode: InodeNumber) {
        let Some(times) = self.take(inode) else { return };
        let written = file_system.open(inode).and_then(|handle| {
            let status = file_system.stat(&handle)?;
            file_system.set_attributes(&handle, &times.changes(&status))
        });
        // There is no request to fail: the inode is damaged, or nothing can be changed any more, which is told.
        drop(written);
    }

    /// Writes all times that have been kept for a day.
    pub fn write_old(&self, file_system: &FileSystem) {
        if !self.is_empty() {
            self.older_than(LONGEST).into_iter().for_each(|inode| self.write(file_system, inode));
        }
    }

    /// Writes all times.
    pub(super) fn write_all(&self, file_system: &FileSystem) {
        self.older_than(Duration::ZERO).into_iter().for_each(|inode| self.write(file_system, inode));
    }

    /// Before an operation: writes the times of the inodes that it changes or makes durable.
    #[inline]
    pub(super) fn write_before(
        &self,
        file_system: &FileSystem,
        nodes: &Nodes,
        node: u64,
        operation: &Operation<'_>,
    ) {
        if self.is_empty() {
            return;
        }
        if matches!(operation, Operation::SyncFileSystem | Operation::Destroy) {
            self.write_all(file_system);
        }
        let changed = changed_nodes(node, operation).into_iter().flatten();
        changed.for_each(|node| self.write(file_system, nodes.inode_of(node)));
    }
}

/// The nodes that an operation changes or makes durable. Names that go lead to further inodes, whose change times come from the operation: they
/// keep what they have here until the kernel forgets them.
fn changed_nodes(node: u64, operation: &Operation<'_>) -> [Option<u64>; 2] {
    use Operation as O;
    match operation {
        O::SymbolicLink(_)
        | O::MakeNode(_)
        | O::MakeDirectory(_)
        | O::Create(_)
        | O::TemporaryFile(_)
        | O::Unlink(_)
        | O::RemoveDirectory(_)
        | O::Write(_)
        | O::Fsync(_)
        | O::FsyncDirectory(_)
        | O::Fallocate(_)
        | O::SetExtendedAttribute(_)
        | O::RemoveExtendedAttribute(_)
        | O::Ioctl(_) => [Some(node), None],
        O::Rename(rename) | O::Rename2(rename) => [Some(node), Some(rename.new_parent)],
        O::Link(link) => [Some(node), Some(link.old_node_id)],
        O::CopyFileRange(copy) | O::CopyFileRange64(copy) => [Some(node), Some(copy.target_node_id)],
        _ => [None, None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_until_they_are_taken() {
        let lazy = LazyTimes::default();
        let (inode, time) = (InodeNumber::new(131), Timestamp { seconds: 7, nanoseconds: 8 });
        assert!(lazy.is_empty() && lazy.take(inode).is_none());
        assert!(lazy.change(inode, |times| times.access = Some(time)));
        assert!(lazy.change(inode, |times| times.modification = Some(time)));
        assert_eq!(lazy.older_than(Duration::ZERO), [inode]);
        assert!(lazy.older_than(LONGEST).is_empty());
        let times = lazy.take(inode).unwrap();
        assert_eq!((times.access, times.modification, times.change), (Some(time), Some(time), None));
        assert!(lazy.is_empty());
    }
}
