//! Changed buffers: invariants 9 to 12.

use std::sync::Arc;

use uxfs_format::edit::DirtyMap;

use super::*;
use crate::{cache::edit::BufferSealer, device::BlockDevice, engine::memory::MemoryDevice};

const KIND: u16 = 3;

/// Accepts bytes whose last byte is the sum of the others.
struct Sum;

fn sum(bytes: &[u8]) -> u8 {
    bytes[..bytes.len() - 1].iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

impl BufferVerifier for Sum {
    type Error = String;

    fn kind(&self) -> u16 {
        KIND + 1
    }

    fn verify(&self, bytes: &[u8], _: u64) -> Result<(), String> {
        if bytes.last() == Some(&sum(bytes)) { Ok(()) } else { Err("sum".into()) }
    }

    fn seal(&self, bytes: &mut [u8]) {
        let sum = sum(bytes);
        *bytes.last_mut().unwrap() = sum;
    }
}

impl BufferSealer for Sum {
    type Error = String;

    fn seal(&self, bytes: &mut [u8], _: u64, _: &DirtyMap) -> Result<(), String> {
        BufferVerifier::seal(self, bytes);
        Ok(())
    }
}

fn cache(budget_bytes: u64) -> (Arc<MemoryDevice>, Cache) {
    let device = Arc::new(MemoryDevice::new(vec![0; 1 << 20]));
    let cache =
        Cache::new(Arc::clone(&device) as Arc<dyn BlockDevice>, &CacheOptions::with_budget(budget_bytes));
    (device, cache)
}

fn piece(block: u64) -> [Piece; 1] {
    [Piece { offset_bytes: block * 4096, length_bytes: 4096 }]
}

fn on_device(device: &MemoryDevice, block: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    device.read(block * 4096, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_change_is_seen_by_readers_at_once_and_by_the_device_after_write_back() {
    let (device, cache) = cache(1 << 20);
    let before = cache.read(&piece(3), &Sum).unwrap();
    let mut buffer = cache.edit(&piece(3), &Sum).unwrap();
    buffer.edit().put(100, b"new");
    drop(buffer);
    assert_eq!(&before[100..103], [0; 3], "who looked it up before keeps what he saw");
    assert_eq!(&cache.read(&piece(3), &Sum).unwrap()[100..103], b"new");
    assert_eq!(&on_device(&device, 3)[100..103], [0; 3]);
    assert!(cache.dirty_bytes() > 0);
    assert_eq!(cache.write_back(WriteBack::All, &Sum).unwrap(), 1);
    let written = on_device(&device, 3);
    assert_eq!(&written[100..103], b"new");
    assert_eq!(Sum.verify(&written, 0), Ok(()), "invariant 12");
    assert_eq!(cache.dirty_bytes(), 0);
    assert_eq!(cache.write_back(WriteBack::All, &Sum).unwrap(), 0);
}

#[test]
fn dirty_buffers_survive_any_pressure() {
    let (_, cache) = cache(64 << 10);
    for block in 0..8 {
        cache.edit(&piece(block), &Sum).unwrap().edit().put(0, &[block as u8 + 1]);
    }
    cache.clear();
    for block in 100..200 {
        cache.read(&piece(block), &Sum).unwrap();
    }
    for block in 0..8 {
        assert_eq!(cache.read(&piece(block), &Sum).unwrap()[0], block as u8 + 1, "invariant 9");
    }
    cache.write_back(WriteBack::All, &Sum).unwrap();
    cache.clear();
    assert_eq!(cache.counters().resident_buffers, 0, "clean again, they may go");
}

#[test]
fn a_created_buffer_is_zero_whatever_lay_there_and_another_kind_judges_it_sealed() {
    let (device, cache) = cache(1 << 20);
    device.write(5 * 4096, &[9; 4096]).unwrap();
    cache.read(&piece(5), &Unverified).unwrap();
    let mut buffer = cache.create(&piece(5), KIND).unwrap();
    assert!(buffer.iter().all(|byte| *byte == 0));
    buffer.edit().put(7, &[7]);
    drop(buffer);
    let read = cache.read(&piece(5), &Sum).unwrap();
    assert_eq!((read[7], read[4095]), (7, 7));
}

#[test]
fn invalidated_buffers_are_not_written() {
    let (device, cache) = cache(1 << 20);
    cache.edit(&piece(1), &Sum).unwrap().edit().put(0, b"x");
    cache.invalidate(&piece(1));
    assert_eq!(cache.write_back(WriteBack::All, &Sum).unwrap(), 0);
    assert_eq!(on_device(&device, 1)[0], 0);
    assert_eq!(cache.read(&piece(1), &Sum).unwrap()[0], 0);
    assert_eq!(cache.dirty_bytes(), 0);
}

#[test]
fn discontiguous_buffers_go_home_in_pieces() {
    let (device, cache) = cache(1 << 20);
    let pieces =
        [Piece { offset_bytes: 8192, length_bytes: 1024 }, Piece { offset_bytes: 65536, length_bytes: 1024 }];
    let mut buffer = cache.create(&pieces, KIND).unwrap();
    buffer.edit().put(0, b"one");
    buffer.edit().put(1024, b"two");
    drop(buffer);
    cache.write_back(WriteBack::All, &Sum).unwrap();
    assert_eq!(&on_device(&device, 2)[..3], b"one");
    assert_eq!(&on_device(&device, 16)[..3], b"two");
}

#[test]
fn many_threads_change_and_write_the_same_buffers() {
    let (device, cache) = cache(256 << 10);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..500_u64 {
                    let mut buffer = cache.edit(&piece(round % 10), &Sum).unwrap();
                    let count = u32::from_le_bytes(*buffer[8..].first_chunk().unwrap());
                    buffer.edit().put(8, &(count + 1).to_le_bytes());
                    drop(buffer);
                    if round % 17 == 0 {
                        cache.write_back(WriteBack::Cold, &Sum).unwrap();
                    }
                }
            });
        }
    });
    cache.write_back(WriteBack::All, &Sum).unwrap();
    let counts =
        (0..10).map(|block| u32::from_le_bytes(*on_device(&device, block)[8..].first_chunk().unwrap()));
    assert_eq!(counts.sum::<u32>(), 2000, "invariants 10 and 11: no change is lost");
    assert_eq!(cache.dirty_bytes(), 0);
}

#[test]
fn a_thread_does_not_wait_for_itself() {
    let (_, cache) = cache(1 << 20);
    let mut held = cache.edit(&piece(1), &Unverified).unwrap();
    held.edit().put(0, &[1]);
    let error = cache.edit(&piece(1), &Unverified).unwrap_err();
    assert!(error.to_string().contains("two structures claim this block"), "{error}");
    assert!(cache.read(&piece(1), &Unverified).is_err());
    cache.invalidate(&piece(1));
    drop(held);
    assert_eq!(cache.dirty_bytes(), 0);
    assert_eq!(cache.read(&piece(1), &Unverified).unwrap()[0], 0, "what was invalid is gone");
}
