//! Logged changes: invariants 13 to 15.

use std::{convert::Infallible, rc::Rc, sync::Arc};

use super::*;
use crate::{
    cache::{CacheOptions, Unverified},
    device::BlockDevice,
    engine::memory::MemoryDevice,
};

fn cache() -> (Arc<MemoryDevice>, Cache) {
    let device = Arc::new(MemoryDevice::new(vec![0; 1 << 20]));
    let cache = Cache::new(Arc::clone(&device) as Arc<dyn BlockDevice>, &CacheOptions::with_budget(1 << 20));
    (device, cache)
}

const PIECE: [Piece; 1] = [Piece { offset_bytes: 8192, length_bytes: 4096 }];

fn change(cache: &Cache, sequence: u64, offset: usize, byte: u8) -> Vec<ChangedBuffer> {
    let log = Rc::new(EditLog::new(sequence));
    cache.edit_logged(&PIECE, &Unverified, &log).unwrap().edit().put(offset, &[byte]);
    std::mem::take(&mut *log.touched())
}

fn take(buffer: &ChangedBuffer, sequence: u64, relog_before: u64) -> (Option<(Vec<u8>, u32)>, Accounting) {
    let mut taken = None;
    let accounting = buffer.take(sequence, relog_before, |change| {
        taken = Some((change.bytes.to_vec(), change.changes.count()));
        Ok::<(), Infallible>(())
    });
    (taken, accounting.unwrap())
}

fn write_back(cache: &Cache, stable: u64) -> (usize, Vec<u64>) {
    let mut released = Vec::new();
    let which = LoggedWriteBack { stable, first_at_most: u64::MAX };
    let written =
        cache.write_back_logged(which, &|_, _, _, _| Ok::<(), Infallible>(()), &mut released).unwrap();
    (written.0, released)
}

fn home(device: &MemoryDevice, offset: u64) -> u8 {
    let mut byte = [0];
    device.read(8192 + offset, &mut byte).unwrap();
    byte[0]
}

#[test]
fn a_buffer_waits_for_its_checkpoint_invariant_13() {
    let (device, cache) = cache();
    let touched = change(&cache, 1, 0, 7);
    assert_eq!(write_back(&cache, 9), (0, vec![]), "not taken yet");
    let (taken, accounting) = take(&touched[0], 1, 0);
    assert_eq!(taken.unwrap().1, 1);
    assert_eq!(accounting, Accounting { entered: Some(1), released: None });
    assert_eq!(write_back(&cache, 0), (0, vec![]), "taken, not stable");
    assert_eq!(write_back(&cache, 1), (1, vec![1]));
    assert_eq!(home(&device, 0), 7);
    assert_eq!(write_back(&cache, 9), (0, vec![]));
}

#[test]
fn each_checkpoint_gets_its_own_version_invariant_14() {
    let (_, cache) = cache();
    let first = change(&cache, 1, 0, 1);
    assert!(change(&cache, 1, 1, 1).is_empty(), "one checkpoint lists a buffer once");
    let second = change(&cache, 2, 2, 2);
    let (taken, accounting) = take(&first[0], 1, 0);
    assert_eq!(taken.unwrap().0[..3], [1, 1, 0]);
    assert_eq!(accounting.entered, Some(1));
    let (taken, accounting) = take(&second[0], 2, 0);
    assert_eq!(taken.unwrap().0[..3], [1, 1, 2]);
    assert_eq!(accounting, Accounting::default(), "the first is still the oldest");
    assert_eq!(write_back(&cache, 1), (0, vec![]), "what is in memory is of the second");
    assert_eq!(write_back(&cache, 2), (1, vec![1]));
}

#[test]
fn old_changes_are_logged_again_invariant_15() {
    let (_, cache) = cache();
    let first = change(&cache, 1, 0, 1);
    take(&first[0], 1, 0);
    let fifth = change(&cache, 5, 4000, 1);
    let (taken, accounting) = take(&fifth[0], 5, 3);
    assert_eq!(taken.unwrap().1, 2, "both runs");
    assert_eq!(accounting, Accounting { entered: Some(5), released: Some(1) });
    assert_eq!(write_back(&cache, 5), (1, vec![5]));
}

#[test]
fn what_an_item_made_is_not_logged_again_invariant_15() {
    let (_, cache) = cache();
    let log = Rc::new(EditLog::new(1));
    let (mut buffer, _) = cache.create_logged(&PIECE, 1, &log).unwrap();
    buffer.edit().put(0, &[1]);
    buffer.made_by_item();
    drop(buffer);
    let first = std::mem::take(&mut *log.touched());
    assert_eq!(take(&first[0], 1, 0).1.entered, Some(1));
    let fifth = change(&cache, 5, 4000, 1);
    let (taken, accounting) = take(&fifth[0], 5, 3);
    assert_eq!((taken.unwrap().1, accounting), (1, Accounting::default()), "the first is needed still");
    assert_eq!(write_back(&cache, 5), (1, vec![1]));
    let sixth = change(&cache, 6, 4000, 1);
    take(&sixth[0], 6, 0);
    let ninth = change(&cache, 9, 0, 1);
    assert_eq!(take(&ninth[0], 9, 8).1.released, Some(6), "at home all is like the device");
}

#[test]
fn an_invalidated_buffer_holds_back_what_it_held() {
    let (device, cache) = cache();
    let first = change(&cache, 1, 0, 1);
    take(&first[0], 1, 0);
    let invalidated = cache.invalidate_logged(&PIECE, 2);
    assert_eq!(invalidated, Invalidated { release: Some(1), hold: None });
    assert_eq!(write_back(&cache, 9), (0, vec![]));
    // Changed in one checkpoint, freed in the next before the journal came to take it.
    let third = change(&cache, 3, 1, 3);
    assert_eq!(cache.invalidate_logged(&PIECE, 4), Invalidated { release: None, hold: Some(3) });
    let (taken, accounting) = take(&third[0], 3, 0);
    assert_eq!(taken.unwrap().0[1], 3);
    assert_eq!(accounting, Accounting::default());
    // Changed and freed in one: nothing to log.
    let fifth = change(&cache, 5, 1, 3);
    assert_eq!(cache.invalidate_logged(&PIECE, 5), Invalidated::default());
    assert!(take(&fifth[0], 5, 0).0.is_none());
    assert_eq!(home(&device, 1), 0);
}

#[test]
fn a_change_during_a_write_stays() {
    let (device, cache) = cache();
    let first = change(&cache, 1, 0, 1);
    take(&first[0], 1, 0);
    let second = std::cell::RefCell::new(Vec::new());
    let mut released = Vec::new();
    let which = LoggedWriteBack { stable: 1, first_at_most: 1 };
    cache.write_back_logged(which, &|_, _, _, _| Ok::<(), Infallible>(()), &mut released).unwrap();
    second.borrow_mut().extend(change(&cache, 2, 1, 2));
    assert_eq!((home(&device, 0), home(&device, 1)), (1, 0));
    let (_, accounting) = take(&second.borrow()[0], 2, 0);
    assert_eq!(accounting.entered, Some(2));
    assert_eq!(write_back(&cache, 2), (1, vec![2]));
    assert_eq!(home(&device, 1), 2);
}
