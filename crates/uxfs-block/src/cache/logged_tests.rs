//! Logged changes: invariants 13 to 15.

use std::{convert::Infallible, rc::Rc, sync::Arc};

use super::*;
use crate::{
    cache::{
        CacheOptions, Unverified,
        logged_write_back::{MAX_BATCH_BYTES, WriteBackLimits},
    },
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

fn take(buffer: &ChangedBuffer, sequence: u64, keep_before: u64) -> (Option<(Vec<u8>, u32)>, Taken) {
    let mut bytes = None;
    let taken = buffer.take(
        sequence,
        keep_before,
        |change| {
            bytes = Some((change.bytes.to_vec(), change.changes.count()));
            Ok::<Taking, Infallible>(Taking::Logged)
        },
        |taken| {
            // Nothing counts as sealed that only a copy could seal.
            if let SealableBytes::InCache(bytes) = taken.bytes {
                bytes[SEAL_AT] = taken.changes.count() as u8;
            }
            Ok(())
        },
    );
    (bytes, taken.unwrap())
}

/// The byte in which these tests put the number of runs that were sealed.
const SEAL_AT: usize = 2000;

fn no_seal(_: &mut [u8], _: u64, _: u64, _: &DirtyMap) -> Result<(), Infallible> {
    Ok(())
}

fn write_back(cache: &Cache, stable: u64) -> (usize, Vec<u64>) {
    let mut released = Vec::new();
    let which = WriteBackLimits { stable, first_at_most: u64::MAX };
    let written = cache.logged_write_back(&no_seal, &mut released).all(which).unwrap();
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
    assert_eq!((accounting.entered, accounting.is_relogged), (Some(1), false));
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
    assert_eq!((accounting.entered, accounting.is_relogged), (None, true), "the first is still the oldest");
    assert_eq!(write_back(&cache, 1), (0, vec![]), "what is in memory is of the second");
    assert_eq!(write_back(&cache, 2), (1, vec![1]));
}

#[test]
fn what_changes_again_and_again_goes_home_as_a_checkpoint_left_it_invariants_13_and_15() {
    let (device, cache) = cache();
    let first = change(&cache, 1, 0, 1);
    take(&first[0], 1, 0);
    let fifth = change(&cache, 5, 4000, 1);
    let sixth = change(&cache, 6, 0, 2);
    let (bytes, taken) = take(&fifth[0], 5, 3);
    assert_eq!(bytes.unwrap().1, 1, "only what this checkpoint has changed");
    assert_eq!((taken.entered, taken.is_relogged), (None, true));
    assert_eq!(write_back(&cache, 5), (0, vec![]), "the sixth has begun to change it");
    let mut released = Vec::new();
    let mut versions = vec![taken.version.unwrap()];
    let seal = |bytes: &mut [u8], offset: u64, sequence: u64, changes: &DirtyMap| {
        assert_eq!((offset, sequence, changes.count()), (8192, 5, 2));
        bytes[1] = 77;
        Ok::<(), Infallible>(())
    };
    assert_eq!(
        cache.logged_write_back(&seal, &mut released).versions(std::mem::take(&mut versions)).unwrap(),
        1
    );
    assert_eq!((home(&device, 0), home(&device, 1), home(&device, 4000), released), (1, 77, 1, vec![1]));
    // It is still changed, for the sixth.
    let (bytes, taken) = take(&sixth[0], 6, 3);
    assert_eq!(bytes.unwrap().0[..2], [2, 0], "what was sealed was a copy");
    assert_eq!((taken.entered, taken.version.is_none()), (Some(6), true));
    let seal = |_: &mut [u8], _: u64, _: u64, _: &DirtyMap| -> Result<(), Infallible> {
        panic!("the sixth checkpoint has sealed it")
    };
    let mut released = Vec::new();
    let which = WriteBackLimits { stable: 6, first_at_most: u64::MAX };
    assert_eq!(cache.logged_write_back(&seal, &mut released).all(which).unwrap(), (1, 0));
    // The runs of the first two checkpoints had not been sealed in memory.
    assert_eq!((home(&device, 0), home(&device, SEAL_AT as u64), released), (2, 2, vec![6]));
}

#[test]
fn a_version_that_its_checkpoint_sealed_is_written_as_it_is_invariant_16() {
    let (device, cache) = cache();
    let refuse = |_: &mut [u8], _: u64, _: u64, _: &DirtyMap| -> Result<(), Infallible> {
        panic!("it has been sealed")
    };
    let all = |stable| WriteBackLimits { stable, first_at_most: u64::MAX };
    let first = change(&cache, 1, 0, 1);
    take(&first[0], 1, 0);
    assert_eq!(cache.logged_write_back(&refuse, &mut Vec::new()).all(all(1)).unwrap(), (1, 0));
    assert_eq!(home(&device, SEAL_AT as u64), 1);
    // A reader has the bytes when they are taken: write-back seals them.
    let second = change(&cache, 2, 0, 2);
    let reader = cache.read(&PIECE, &Unverified).unwrap();
    take(&second[0], 2, 0);
    drop(reader);
    let count = Cell::new(0);
    let seal = |_: &mut [u8], _: u64, sequence: u64, _: &DirtyMap| {
        count.set(sequence);
        Ok::<(), Infallible>(())
    };
    assert_eq!(cache.logged_write_back(&seal, &mut Vec::new()).all(all(2)).unwrap(), (1, 0));
    assert_eq!(count.take(), 2);
    // What changes again before it is written back is not sealed each time: write-back seals all of its runs.
    let third = change(&cache, 3, 0, 3);
    let fourth = change(&cache, 4, 300, 4);
    take(&third[0], 3, 0);
    take(&fourth[0], 4, 0);
    let seal = |bytes: &mut [u8], _: u64, sequence: u64, changes: &DirtyMap| {
        assert_eq!((sequence, changes.count()), (4, 2));
        bytes[SEAL_AT] = 44;
        Ok::<(), Infallible>(())
    };
    assert_eq!(cache.logged_write_back(&seal, &mut Vec::new()).all(all(4)).unwrap(), (1, 0));
    assert_eq!((home(&device, 0), home(&device, 300), home(&device, SEAL_AT as u64)), (3, 4, 44));
    // Written back: the next checkpoint that changes it seals it.
    let fifth = change(&cache, 5, 0, 5);
    take(&fifth[0], 5, 0);
    assert_eq!(cache.logged_write_back(&refuse, &mut Vec::new()).all(all(5)).unwrap(), (1, 0));
}

#[test]
fn where_one_kept_version_fails_the_others_stay_as_they_were_invariant_15() {
    let (device, cache) = cache();
    const OTHER: [Piece; 1] = [Piece { offset_bytes: 16384, length_bytes: 4096 }];
    let change_other = |sequence: u64| {
        let log = Rc::new(EditLog::new(sequence));
        cache.edit_logged(&OTHER, &Unverified, &log).unwrap().edit().put(0, &[9]);
        std::mem::take(&mut *log.touched())
    };
    take(&change(&cache, 1, 0, 1)[0], 1, 0);
    take(&change_other(1)[0], 1, 0);
    let (_, first) = take(&change(&cache, 2, 0, 2)[0], 2, 2);
    let (_, second) = take(&change_other(2)[0], 2, 2);
    let seal =
        |_: &mut [u8], offset: u64, _: u64, _: &DirtyMap| if offset == 8192 { Ok(()) } else { Err(()) };
    let mut released = Vec::new();
    let versions = vec![first.version.unwrap(), second.version.unwrap()];
    assert!(cache.logged_write_back(&seal, &mut released).versions(versions).is_err());
    assert_eq!((home(&device, 0), released), (0, vec![]));
    // Both still hold the first checkpoint.
    assert_eq!(write_back(&cache, 2), (2, vec![1, 1]));
}

#[test]
fn a_kept_version_of_a_freed_buffer_stays_away_invariant_9() {
    let (device, cache) = cache();
    let first = change(&cache, 1, 0, 1);
    take(&first[0], 1, 0);
    let second = change(&cache, 2, 0, 2);
    let (_, taken) = take(&second[0], 2, 2);
    assert_eq!(cache.invalidate_logged(&PIECE, 3, &|_| panic!("it has been entered")), Some(1));
    let mut released = Vec::new();
    let versions = vec![taken.version.unwrap()];
    assert_eq!(cache.logged_write_back(&no_seal, &mut released).versions(versions).unwrap(), 0);
    assert_eq!((home(&device, 0), released), (0, vec![]));
}

#[test]
fn an_invalidated_buffer_holds_back_what_it_held() {
    let (device, cache) = cache();
    let first = change(&cache, 1, 0, 1);
    take(&first[0], 1, 0);
    let held = Cell::new(0);
    let hold = |sequence| held.set(sequence);
    assert_eq!((cache.invalidate_logged(&PIECE, 2, &hold), held.take()), (Some(1), 0));
    assert_eq!(write_back(&cache, 9), (0, vec![]));
    // Changed in one checkpoint, freed in the next before the journal came to take it.
    let third = change(&cache, 3, 1, 3);
    assert_eq!((cache.invalidate_logged(&PIECE, 4, &hold), held.take()), (Some(3), 3));
    let (taken, accounting) = take(&third[0], 3, 0);
    assert_eq!(taken.unwrap().0[1], 3);
    assert_eq!((accounting.entered, accounting.is_relogged), (None, false));
    // Changed and freed in one: nothing to log.
    let fifth = change(&cache, 5, 1, 3);
    assert_eq!((cache.invalidate_logged(&PIECE, 5, &hold), held.take()), (None, 0));
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
    let which = WriteBackLimits { stable: 1, first_at_most: 1 };
    cache.logged_write_back(&no_seal, &mut released).all(which).unwrap();
    second.borrow_mut().extend(change(&cache, 2, 1, 2));
    assert_eq!((home(&device, 0), home(&device, 1)), (1, 0));
    let (_, accounting) = take(&second.borrow()[0], 2, 0);
    assert_eq!(accounting.entered, Some(2));
    assert_eq!(write_back(&cache, 2), (1, vec![2]));
    assert_eq!(home(&device, 1), 2);
}

#[test]
fn between_two_parts_of_the_way_home_buffers_may_change_and_go_invariants_13_and_15() {
    const BUFFER_BYTES: u32 = 64 << 10;
    const IN_A_BATCH: u64 = MAX_BATCH_BYTES as u64 / BUFFER_BYTES as u64;
    let device: Arc<MemoryDevice> = Arc::new(MemoryDevice::new(vec![0; 16 << 20]));
    let options = CacheOptions::with_budget(32 << 20);
    let cache = Cache::new(Arc::clone(&device) as Arc<dyn BlockDevice>, &options);
    let place =
        |index: u64| [Piece { offset_bytes: index * u64::from(BUFFER_BYTES), length_bytes: BUFFER_BYTES }];
    let change = |index: u64, sequence: u64| {
        let log = Rc::new(EditLog::new(sequence));
        cache.edit_logged(&place(index), &Unverified, &log).unwrap().edit().put(0, &[sequence as u8]);
        std::mem::take(&mut *log.touched())
    };
    let count = IN_A_BATCH + 10;
    for index in 0..count {
        take(&change(index, 1)[0], 1, 0);
    }
    let mut cursor = cache.write_back_cursor();
    let (which, mut released) = (WriteBackLimits { stable: 1, first_at_most: u64::MAX }, Vec::new());
    let part = cache.logged_write_back(&no_seal, &mut released).part(&mut cursor, which, || true).unwrap();
    assert_eq!(
        (part, cursor.is_at_end()),
        ((IN_A_BATCH as usize, 0), false),
        "a batch, because that is enough"
    );
    assert_eq!(released.len() as u64, IN_A_BATCH);
    // Of those that are left one is changed for another checkpoint, one is freed, and eight go home another way.
    let changed = change(count - 1, 2);
    assert_eq!(cache.invalidate_logged(&place(count - 2), 2, &|_| {}), Some(1));
    let first = WriteBackLimits { stable: 1, first_at_most: 1 };
    let others = cache.logged_write_back(&no_seal, &mut Vec::new()).all(first).unwrap();
    assert_eq!(others, (8, 1));
    let part = cache.logged_write_back(&no_seal, &mut released).part(&mut cursor, which, || true).unwrap();
    assert_eq!((part, cursor.is_at_end()), ((0, 1), true), "the changed one waits for its checkpoint");
    let (_, taken) = take(&changed[0], 2, 0);
    assert_eq!((taken.entered, taken.is_relogged), (None, true), "it still holds the first");
    let which = WriteBackLimits { stable: 2, first_at_most: u64::MAX };
    assert_eq!(cache.logged_write_back(&no_seal, &mut Vec::new()).all(which).unwrap(), (1, 0));
    let byte = |index: u64| {
        let mut byte = [0];
        device.read(index * u64::from(BUFFER_BYTES), &mut byte).unwrap();
        byte[0]
    };
    assert_eq!([byte(0), byte(count - 3), byte(count - 2), byte(count - 1)], [1, 1, 0, 2]);
}

/// Takes the changes that are not logged, as their checkpoint does.
fn take_ordered(buffer: &ChangedBuffer, sequence: u64) -> Taken {
    let refuse = |_: TakenBytes<'_>| panic!("what is not logged is sealed when it is written");
    buffer.take(sequence, 0, |_| Ok::<Taking, Infallible>(Taking::Ordered), refuse).unwrap()
}

fn write_ordered(cache: &Cache, taken: Taken) -> Vec<u64> {
    let mut released = Vec::new();
    cache.logged_write_back(&no_seal, &mut released).ordered(vec![taken.ordered.unwrap()]).unwrap();
    released
}

#[test]
fn what_is_not_logged_goes_home_before_its_checkpoint_is_stable_invariant_13() {
    let (device, cache) = cache();
    let first = change(&cache, 1, 0, 1);
    let taken = take_ordered(&first[0], 1);
    assert_eq!(taken.entered, Some(1));
    assert_eq!((write_ordered(&cache, taken), home(&device, 0)), (vec![1], 1));
    assert_eq!(write_back(&cache, 9), (0, vec![]));
}

#[test]
fn what_is_not_logged_goes_home_although_it_is_freed_meanwhile_invariant_14() {
    let (device, cache) = cache();
    // Freed after the journal has taken it, and before it has written it.
    let first = change(&cache, 1, 0, 1);
    let taken = take_ordered(&first[0], 1);
    assert_eq!(cache.invalidate_logged(&PIECE, 2, &|_| panic!("it has been entered")), Some(1));
    assert_eq!((write_ordered(&cache, taken), home(&device, 0)), (vec![], 1));
    // Freed before the journal takes it.
    let third = change(&cache, 3, 0, 3);
    assert_eq!(cache.invalidate_logged(&PIECE, 4, &|_| {}), Some(3));
    let taken = take_ordered(&third[0], 3);
    assert_eq!((taken.entered, write_ordered(&cache, taken), home(&device, 0)), (None, vec![], 3));
}

#[test]
fn what_is_not_logged_goes_home_although_it_changes_meanwhile_invariants_14_and_15() {
    let (device, cache) = cache();
    let first = change(&cache, 1, 0, 1);
    let taken = take_ordered(&first[0], 1);
    let second = change(&cache, 2, 0, 2);
    assert_eq!((write_ordered(&cache, taken), home(&device, 0)), (vec![], 1), "the oldest is not all home");
    assert_eq!(take(&second[0], 2, 0).1.entered, None);
    assert_eq!((write_back(&cache, 2), home(&device, 0)), ((1, vec![1]), 2));
}
