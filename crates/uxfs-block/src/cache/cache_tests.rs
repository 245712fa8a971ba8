use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::engine::memory::MemoryDevice;

const BLOCK: u32 = 4096;

fn piece(block: u64) -> Piece {
    Piece { offset_bytes: block * u64::from(BLOCK), length_bytes: BLOCK }
}

/// Every block of the device is filled with its number.
fn numbered(blocks: u64) -> Arc<MemoryDevice> {
    let bytes = (0..blocks).flat_map(|block| [block as u8; BLOCK as usize]).collect();
    Arc::new(MemoryDevice::new(bytes))
}

fn cache(blocks: u64, budget_bytes: u64) -> Cache {
    let options = CacheOptions { shards: Some(1), seed: Some(1), ..CacheOptions::with_budget(budget_bytes) };
    Cache::new(numbered(blocks), &options)
}

/// Accepts bytes that are all alike, and counts.
struct AllAlike<'a> {
    kind: u16,
    runs: &'a AtomicUsize,
}

impl BufferVerifier for AllAlike<'_> {
    type Error = String;

    fn kind(&self) -> u16 {
        self.kind
    }

    fn verify(&self, bytes: &[u8], offset_bytes: u64) -> Result<(), String> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let first = bytes[0];
        bytes.iter().all(|byte| *byte == first).then_some(()).ok_or(format!("not alike at {offset_bytes}"))
    }
}

#[test]
fn a_second_lookup_is_a_hit() {
    let cache = cache(8, 1 << 20);
    let first = cache.read(&[piece(3)], &Unverified).unwrap();
    let second = cache.read(&[piece(3)], &Unverified).unwrap();
    assert!(first.iter().all(|byte| *byte == 3));
    assert_eq!(first.as_ptr(), second.as_ptr());
    let counters = cache.counters();
    assert_eq!((counters.hits, counters.misses, counters.resident_buffers), (1, 1, 1));
    assert_eq!(counters.bytes_read, u64::from(BLOCK));
}

#[test]
fn pieces_are_joined_in_their_order() {
    let cache = cache(8, 1 << 20);
    let forward = cache.read(&[piece(5), piece(2)], &Unverified).unwrap();
    assert_eq!((forward[0], forward[BLOCK as usize], forward.len()), (5, 2, 2 * BLOCK as usize));
    assert_eq!(forward.offset_bytes(), 5 * u64::from(BLOCK));
    let other = cache.read(&[piece(5), piece(1)], &Unverified).unwrap();
    assert_eq!(other[BLOCK as usize], 1, "same begin and length, another buffer");
    let whole = Piece { length_bytes: 2 * BLOCK, ..piece(5) };
    assert_eq!(cache.read(&[whole], &Unverified).unwrap()[BLOCK as usize], 6);
    assert_eq!(cache.counters().misses, 3);
    cache.read(&[piece(5), piece(2)], &Unverified).unwrap();
    assert_eq!(cache.counters().hits, 1);
}

/// Invariant 5.
#[test]
fn verifies_once_for_each_kind() {
    let (cache, runs) = (cache(8, 1 << 20), AtomicUsize::new(0));
    for kind in [1, 1, 2, 1, 2] {
        cache.read(&[piece(0)], &AllAlike { kind, runs: &runs }).unwrap();
    }
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert_eq!(cache.counters().verified, 2);
    cache.forget(&[piece(0)]);
    cache.read(&[piece(0)], &AllAlike { kind: 1, runs: &runs }).unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 3, "read again, verified again");
}

/// Invariant 4.
#[test]
fn damaged_buffers_are_not_kept() {
    let (cache, runs) = (cache(8, 1 << 20), AtomicUsize::new(0));
    let device = Arc::clone(cache.device());
    device.write(100, b"x").unwrap();
    let verifier = AllAlike { kind: 1, runs: &runs };
    let error = cache.read(&[piece(0)], &verifier).unwrap_err();
    assert_eq!(error.to_string(), "not alike at 0");
    assert_eq!(cache.counters().resident_buffers, 0);
    device.write(100, &[0]).unwrap();
    cache.read(&[piece(0)], &verifier).unwrap();
    assert_eq!(cache.counters().verification_failures, 1);
}

#[test]
fn lengths_and_ranges_are_checked() {
    let cache = cache(8, 1 << 20);
    let sized = |length_bytes| Piece { offset_bytes: 0, length_bytes };
    for pieces in
        [vec![], vec![sized(0)], vec![sized((1 << 20) + 1)], vec![sized(u32::MAX); 3], vec![piece(8)]]
    {
        assert!(matches!(cache.read(&pieces, &Unverified), Err(ReadError::Device(_))), "{pieces:?}");
    }
    let end = Piece { offset_bytes: u64::MAX - 1, length_bytes: 512 };
    assert!(cache.read(&[end], &Unverified).is_err());
    assert_eq!(cache.counters().resident_bytes, 0);
}

#[test]
fn read_many_answers_in_order_and_each_for_itself() {
    let (cache, runs) = (cache(16, 1 << 20), AtomicUsize::new(0));
    cache.device().write(7 * u64::from(BLOCK), b"x").unwrap();
    cache.read(&[piece(2)], &Unverified).unwrap();
    let pieces: Vec<Piece> = [9, 2, 7, 99, 9, 3].map(piece).into();
    let requests: Vec<_> =
        pieces.iter().map(|piece| (std::slice::from_ref(piece), AllAlike { kind: 1, runs: &runs })).collect();
    let results = cache.read_many(&requests);
    let firsts: Vec<_> = results.iter().map(|result| result.as_ref().ok().map(|buffer| buffer[0])).collect();
    assert_eq!(firsts, [Some(9), Some(2), None, None, Some(9), Some(3)]);
    assert!(matches!(results[2], Err(ReadError::Verify(_))));
    assert!(matches!(results[3], Err(ReadError::Device(_))));
    assert_eq!(cache.counters().batches, 2, "one for block 2, one for the rest");
    assert_eq!(runs.load(Ordering::Relaxed), 4);
}

/// Invariant 1, one thread.
#[test]
fn the_budget_holds() {
    let cache = cache(256, 64 << 10);
    for round in 0..3 {
        for block in 0..256 {
            let buffer = cache.read(&[piece((block * 7 + round) % 256)], &Unverified).unwrap();
            assert_eq!(u64::from(buffer[0]), (block * 7 + round) % 256);
        }
    }
    let counters = cache.counters();
    assert!(counters.peak_bytes <= 64 << 10, "{counters:?}");
    assert!(counters.evictions > 500);
    assert_eq!(counters.resident_buffers, (64 << 10) / (4096 + 256));
}

/// Invariants 1 and 2: what is held stays, and alone may exceed the budget.
#[test]
fn held_buffers_stay() {
    let cache = cache(256, 64 << 10);
    let held: Vec<_> = (0..40).map(|block| cache.read(&[piece(block)], &Unverified).unwrap()).collect();
    assert!(cache.counters().resident_bytes > 64 << 10);
    for block in 40..200 {
        cache.read(&[piece(block)], &Unverified).unwrap();
    }
    assert_eq!(cache.counters().resident_buffers, 41, "those held, and the last one");
    for (block, buffer) in held.iter().enumerate() {
        assert_eq!(cache.read(&[piece(block as u64)], &Unverified).unwrap().as_ptr(), buffer.as_ptr());
    }
    drop(held);
    cache.read(&[piece(201)], &Unverified).unwrap();
    assert!(cache.counters().resident_bytes <= 64 << 10);
}
