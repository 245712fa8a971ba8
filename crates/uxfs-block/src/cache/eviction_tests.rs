use super::*;

const TARGET: u64 = 10;

fn never(_: u32) -> bool {
    false
}

fn filled(count: u32) -> Policy {
    let mut policy = Policy::default();
    for index in 0..count {
        policy.insert(index, u64::from(index), 1, TARGET);
    }
    policy
}

#[test]
fn unused_buffers_leave_in_their_order() {
    let mut policy = filled(100);
    for index in 0..100 {
        assert_eq!(policy.evict(TARGET, never), Some(index));
    }
    assert_eq!((policy.evict(TARGET, never), policy.len()), (None, 0));
}

#[test]
fn used_buffers_move_to_the_main_queue() {
    let mut policy = filled(100);
    policy.touch(3);
    assert_eq!((0..4).map(|_| policy.evict(TARGET, never).unwrap()).collect::<Vec<_>>(), [0, 1, 2, 4]);
    assert_eq!(policy.main.count, 1);
    let mut left: Vec<_> = std::iter::from_fn(|| policy.evict(TARGET, never)).collect();
    assert!(
        left.iter().position(|index| *index == 3).unwrap() >= 85,
        "it outlives the rest of probation: {left:?}"
    );
    left.sort_unstable();
    assert_eq!(left.len(), 96);
}

/// Invariant 7: a burst of uses right after it came in counts as one.
#[test]
fn bursts_count_once() {
    let mut policy = Policy::default();
    for index in 0..100 {
        policy.insert(index, u64::from(index), 1, TARGET);
        (0..64).for_each(|_| policy.touch(index));
    }
    let order: Vec<_> = std::iter::from_fn(|| policy.evict(TARGET, never)).collect();
    assert_eq!(order, (0..100).collect::<Vec<_>>());
}

#[test]
fn ghosts_come_back_into_the_main_queue() {
    let mut policy = filled(50);
    assert_eq!(policy.evict(TARGET, never), Some(0));
    assert!(policy.insert(0, 0, 1, TARGET), "remembered");
    assert_eq!((policy.main.count, policy.main.bytes), (1, 1));
    assert!(!policy.insert(60, 60, 1, TARGET));
    assert_eq!(policy.evict(TARGET, never), Some(1));
    policy.remove(2);
    assert!(!policy.insert(2, 2, 1, TARGET), "forgetting is not giving up");
}

#[test]
fn ghosts_are_bounded() {
    let mut policy = Policy::default();
    for index in 0..100_000_u32 {
        policy.insert(0, index.into(), 1, TARGET);
        policy.evict(TARGET, never);
    }
    assert!(policy.ghosts.order.len() <= MIN_GHOSTS && policy.ghosts.known.len() <= MIN_GHOSTS);
}

/// Invariant 2.
#[test]
fn pinned_buffers_are_passed_over() {
    let mut policy = filled(40);
    (20..40).for_each(|index| policy.touch(index));
    let is_pinned = |index: u32| index.is_multiple_of(2);
    let mut order: Vec<_> = std::iter::from_fn(|| policy.evict(TARGET, is_pinned)).collect();
    order.sort_unstable();
    assert_eq!(order, (0..40).filter(|index| index % 2 == 1).collect::<Vec<_>>());
    assert_eq!(policy.len(), 20);
    assert_eq!(policy.evict(TARGET, |_| true), None);
    assert_eq!(std::iter::from_fn(|| policy.evict(TARGET, never)).count(), 20);
}

#[test]
fn the_main_queue_gives_further_rounds_to_what_is_used() {
    let mut policy = filled(30);
    (0..20).for_each(|index| policy.touch(index));
    // All of probation is seen: 0..20 move on, 20..30 fit its target.
    assert_eq!(policy.evict(TARGET, never), Some(0), "probation holds what it may, so the main queue gives");
    (1..10).for_each(|index| policy.touch(index));
    let order: Vec<_> = (0..10).map(|_| policy.evict(TARGET, never).unwrap()).collect();
    assert_eq!(order, (10..20).collect::<Vec<_>>());
}

#[test]
fn sizes_are_kept_account_of() {
    let mut policy = Policy::default();
    let mut bytes = 0;
    for index in 0..200_u32 {
        policy.insert(index, index.into(), u64::from(index % 7) * 512, TARGET * 512);
        bytes += u64::from(index % 7) * 512;
        if index % 3 == 0 {
            policy.touch(index / 2);
        }
        if index % 4 == 0 {
            bytes -= u64::from(policy.evict(TARGET * 512, never).unwrap() % 7) * 512;
        }
    }
    assert_eq!(policy.probation.bytes + policy.main.bytes, bytes);
    assert_eq!(policy.len(), 150);
}
