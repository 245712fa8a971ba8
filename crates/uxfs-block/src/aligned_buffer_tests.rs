use super::*;

fn address(buffer: &AlignedBuffer) -> usize {
    buffer.as_ptr() as usize
}

/// Invariants 1 and 3: what one buffer is filled with shows in no other, and fresh memory is readable.
#[test]
fn buffers_do_not_overlap() {
    let pool = BufferPool::new(1 << 16, 512);
    let lengths = [1, 511, 512, 513, 4096, 5000, 16384, 65536, 65537, 200_000];
    // Miri takes its time over each byte.
    let lengths = if cfg!(miri) { &lengths[..4] } else { &lengths[..] };
    let mut buffers: Vec<AlignedBuffer> =
        lengths.iter().cycle().take(40).map(|length| pool.allocate(*length).unwrap()).collect();
    for (index, buffer) in buffers.iter_mut().enumerate() {
        buffer.fill(index as u8);
    }
    for (index, buffer) in buffers.iter().enumerate() {
        assert_eq!(buffer.len(), lengths[index % lengths.len()]);
        assert!(buffer.iter().all(|byte| *byte == index as u8));
    }
}

/// Invariant 4.
#[test]
fn slots_are_aligned_to_their_size() {
    let pool = BufferPool::new(1 << 18, 512);
    for length in [512, 1024, 4096, 16384, 65536] {
        let buffers: Vec<_> = (0..5).map(|_| pool.allocate(length).unwrap()).collect();
        assert!(buffers.iter().all(|buffer| address(buffer).is_multiple_of(length.min(4096))));
    }
    let direct = BufferPool::new(1 << 18, 4096);
    let buffers: Vec<_> = (0..5).map(|_| direct.allocate(512).unwrap()).collect();
    assert!(buffers.iter().all(|buffer| address(buffer).is_multiple_of(4096)));
    assert_eq!(direct.footprint_bytes(512), 4096);
}

/// Invariant 2, and that memory goes back to the system.
#[test]
fn free_chunks_are_unmapped() {
    let pool = BufferPool::new(1 << 16, 512);
    let buffers: Vec<_> = (0..160).map(|_| pool.allocate(4096).unwrap()).collect();
    assert_eq!(pool.mapped_bytes(), 10 << 16);
    let large = pool.allocate(100_000).unwrap();
    assert_eq!(pool.mapped_bytes(), (10 << 16) + 25 * 4096);
    drop(large);
    let last = buffers.into_iter().next_back();
    assert_eq!(pool.mapped_bytes(), 3 << 16, "one chunk in use and two spare");
    drop(last);
    pool.trim();
    assert_eq!(pool.mapped_bytes(), 0);
    let buffer = pool.allocate(512).unwrap();
    drop(pool);
    assert_eq!(buffer.len(), 512, "a buffer outlives the pool's handle");
}

/// A free chunk serves any size.
#[test]
fn sizes_share_chunks() {
    let pool = BufferPool::new(1 << 16, 512);
    let large: Vec<_> = (0..8).map(|_| pool.allocate(16384).unwrap()).collect();
    assert_eq!(pool.mapped_bytes(), 2 << 16);
    let kept: Vec<_> = large.into_iter().step_by(2).collect();
    let small: Vec<_> = (0..128).map(|_| pool.allocate(512).unwrap()).collect();
    assert_eq!(pool.mapped_bytes(), 2 << 16, "between the large ones");
    drop(small);
    let large: Vec<_> = (0..4).map(|_| pool.allocate(16384).unwrap()).collect();
    assert_eq!(pool.mapped_bytes(), 2 << 16, "joined again");
    drop((kept, large));
    let whole = pool.allocate(65536).unwrap();
    assert_eq!((whole.len(), pool.mapped_bytes()), (65536, 2 << 16));
}

/// Invariants 1 and 3 while free pages go back to the system.
#[test]
fn trimming_leaves_buffers_in_use_alone() {
    let pool = BufferPool::new(1 << 18, 512);
    let mut buffers: Vec<_> = (0..if cfg!(miri) { 15 } else { 200 })
        .map(|index| pool.allocate(512 << (index % 5)).unwrap())
        .collect();
    buffers.iter_mut().for_each(|buffer| buffer.fill(7));
    let kept: Vec<_> = buffers.into_iter().step_by(3).collect();
    pool.trim();
    assert!(kept.iter().all(|buffer| buffer.iter().all(|byte| *byte == 7)));
    let again: Vec<_> = (0..if cfg!(miri) { 3 } else { 100 }).map(|_| pool.allocate(4096).unwrap()).collect();
    assert!(again.iter().flat_map(|buffer| buffer.iter()).all(|byte| [0, 7].contains(byte)));
    assert!(kept.iter().all(|buffer| buffer.iter().all(|byte| *byte == 7)));
}

#[test]
fn mapping_can_be_limited() {
    let pool = BufferPool::new(1 << 16, 512);
    assert!(pool.allocate_within(100_000, 1 << 16).unwrap().is_none());
    let first = pool.allocate_within(40_000, 1 << 16).unwrap();
    assert!(
        first.is_some() && pool.allocate_within(4096, 1 << 16).unwrap().is_none(),
        "it has a whole chunk"
    );
    drop(first);
    assert!(pool.allocate_within(4096, 0).unwrap().is_some(), "a spare chunk is mapped already");
}

#[test]
fn threads_share_a_pool() {
    let pool = BufferPool::new(1 << 16, 512);
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let pool = pool.clone();
            scope.spawn(move || {
                let mut kept = std::collections::VecDeque::new();
                let (rounds, largest) = if cfg!(miri) { (60, 1500) } else { (3000, 20_000) };
                for round in 0..rounds {
                    let mut buffer = pool.allocate(1 + (round * 769) % largest).unwrap();
                    buffer.fill(thread);
                    kept.push_back(buffer);
                    if kept.len() > 20 {
                        assert!(kept.pop_front().unwrap().iter().all(|byte| *byte == thread));
                    }
                }
            });
        }
    });
    pool.trim();
    assert_eq!(pool.mapped_bytes(), 0);
}
