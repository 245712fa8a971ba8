#![allow(clippy::unwrap_used)]

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

use uxfs_format::{
    inode::Timestamp,
    superblock::{Copy, Superblock},
};

use super::*;
use uxfs_engine::inode::create::NewInode;
use uxfs_volume::error::Error;

fn inode(number: u64, links: u32) -> EditInode {
    let bytes = include_bytes!("../../../../uxfs-format/testdata/superblock.bin");
    let (superblock, sector) = Superblock::parse(bytes).unwrap();
    superblock.verify(sector, Copy::Primary).unwrap();
    let geometry = uxfs_format::geometry::Geometry::new(superblock);
    let new = NewInode::new(0o100_644, Timestamp::default());
    let mut inode = EditInode::new(InodeNumber::new(number), 1, &new, &geometry).unwrap();
    inode.set_link_count(links);
    inode
}

fn open(table: &InodeTable, number: u64) -> InodeHandle {
    table.open(InodeNumber::new(number), || Ok(inode(number, 1))).unwrap()
}

/// Invariant 1.
#[test]
fn threads_that_want_the_same_inode_load_it_once() {
    // Large enough to keep all: one that is given up would be loaded again.
    let (table, loads) = (InodeTable::new(SHARDS * 256), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for number in 1..200 {
                    let load = || {
                        loads.fetch_add(1, Relaxed);
                        thread::yield_now();
                        Ok(inode(number, 1))
                    };
                    let handle = table.open(InodeNumber::new(number), load).unwrap();
                    let mut inode = handle.write();
                    let links = inode.link_count();
                    inode.set_link_count(links + 1);
                }
            });
        }
    });
    assert_eq!(loads.load(Relaxed), 199);
    assert!((1..200).all(|number| open(&table, number).read().link_count() == 9));
}

/// Invariant 6, and that a failed load leaves nothing behind.
#[test]
fn slots_that_nobody_has_open_are_given_up() {
    let table = InodeTable::new(SHARDS * 4);
    let kept: Vec<InodeHandle> = (0..1000).map(|number| open(&table, number)).collect();
    assert_eq!(table.len(), 1000);
    (1000..50_000).for_each(|number| drop(open(&table, number)));
    assert!(table.len() < 1000 + SHARDS * 8, "{}", table.len());
    assert!(kept.iter().all(|handle| {
        let again = table.open(handle.number(), || panic!("in memory")).unwrap();
        again.is_same(handle)
    }));
    drop(kept);
    (50_000..150_000).for_each(|number| drop(open(&table, number)));
    assert!(table.len() < SHARDS * 8, "{}", table.len());
    let before = table.len();
    let failed = table.open(InodeNumber::new(1), || Err(OperationError::NoSuchInode.into()));
    assert!(matches!(failed, Err(Error::Operation(OperationError::NoSuchInode))));
    assert!(table.len() <= before);
    assert!(!table.has_unlinked());
}

/// Invariants 3, 4 and 5.
#[test]
fn an_inode_without_names_goes_with_its_last_handle() {
    let table = InodeTable::default();
    let first = open(&table, 5);
    let second = first.clone();
    first.set_unlinked(true);
    drop(first);
    assert!(table.next_unlinked().is_none());
    drop(second);
    assert!(table.has_unlinked());
    let dying = table.next_unlinked().unwrap();
    assert!(table.next_unlinked().is_none());
    let refused = table.open(InodeNumber::new(5), || Ok(inode(5, 1)));
    assert!(matches!(refused, Err(Error::Operation(OperationError::NoSuchInode))));
    // The number goes to a new inode before the old one has left the table.
    let new = table.insert_new(inode(5, 1));
    drop(new.lock());
    table.end_free(&dying, true);
    drop(dying);
    assert!(open(&table, 5).is_same(new.handle()));
    assert!(table.next_unlinked().is_none());
}

#[test]
fn only_what_nobody_else_has_open_is_freed_at_once() {
    let table = InodeTable::default();
    let handle = open(&table, 5);
    let other = handle.clone();
    assert!(!table.begin_free(&handle));
    drop(other);
    assert!(table.begin_free(&handle));
    table.end_free(&handle, false);
    assert!(open(&table, 5).is_same(&handle));
    // An unlinked inode that a crash left is queued when its handle goes.
    drop(table.open(InodeNumber::new(6), || Ok(inode(6, 0))).unwrap());
    assert_eq!(table.next_unlinked().map(|handle| handle.number().get()), Some(6));
}

#[test]
fn several_are_locked_in_one_order() {
    let table = InodeTable::default();
    let handles: Vec<InodeHandle> = [9, 3, 7].into_iter().map(|number| open(&table, number)).collect();
    thread::scope(|scope| {
        for start in 0..3 {
            let handles = &handles;
            scope.spawn(move || {
                for _ in 0..2000 {
                    let [one, two, three] = std::array::from_fn(|index| &handles[(start + index) % 3]);
                    let guards = lock_in_order([Some(one), Some(two), None, Some(one), Some(three)]);
                    assert_eq!(guards.each_ref().map(Option::is_some), [true, true, false, false, true]);
                }
            });
        }
    });
}
