#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use uxfs_format::{
    btree::reverse_map::Owner,
    units::{FileBlock, InodeNumber},
};

use super::*;

fn map(group: u32, start: u32, length_blocks: u32, file_block: u64) -> Work {
    let mapping = Mapping {
        file_block: FileBlock::new(file_block),
        owner: Owner::Inode(InodeNumber::new(133)),
        ..Mapping::of_group(AgBlock::new(start), length_blocks, Owner::Log)
    };
    Work::Owners { operation: ReverseMapOperation::Map, group: AgNumber::new(group), mapping }
}

fn free(group: u32, start: u32, length_blocks: u32) -> Work {
    let owner = FreedOwner::NoOwner;
    Work::Free { group: AgNumber::new(group), start: AgBlock::new(start), length_blocks, owner }
}

fn decrease(group: u32, start: u32) -> Work {
    let operation = ReferenceCountOperation::Decrease;
    let (group, start) = (AgNumber::new(group), AgBlock::new(start));
    Work::References { operation, group, start, length_blocks: 1 }
}

/// Does everything; `follow_up` says what comes up with each piece of work.
fn run(queue: &mut DeferredWork, follow_up: impl Fn(&Work) -> Vec<Work>) -> Vec<Vec<Work>> {
    let mut steps = Vec::new();
    while let Some(step) = queue.begin_step() {
        for work in &step {
            follow_up(work).into_iter().for_each(|work| queue.push(work));
        }
        steps.push(step.clone());
        queue.end_step(step);
    }
    assert!(queue.is_empty());
    steps
}

#[test]
fn steps_are_of_one_kind_and_group() {
    let mut queue = DeferredWork::default();
    let work =
        [map(3, 10, 1, 0), map(3, 5, 1, 3), map(1, 50, 1, 9), free(1, 9, 1), free(0, 4, 1), map(0, 7, 1, 1)];
    work.into_iter().for_each(|work| queue.push(work));
    let (first, works, waiting) = queue.next_step().unwrap();
    assert_eq!((*first, works, waiting), (work[0], 2, 4));
    let steps = run(&mut queue, |_| Vec::new());
    let single = work[2..].iter().map(|work| vec![*work]);
    assert_eq!(steps, std::iter::once(vec![work[0], work[1]]).chain(single).collect::<Vec<_>>());
    assert!(queue.next_step().is_none());
}

#[test]
fn follow_up_work_is_done_before_older_work() {
    let mut queue = DeferredWork::default();
    let work = [map(1, 10, 1, 0), decrease(1, 10), map(1, 30, 1, 7)];
    work.into_iter().for_each(|work| queue.push(work));
    let steps = run(&mut queue, |work| match work {
        Work::References { start, .. } if start.get() == 10 => vec![free(1, 10, 1), decrease(0, 99)],
        Work::Free { .. } => vec![map(2, 1, 1, 1)],
        _ => Vec::new(),
    });
    let order: Vec<Work> = steps.into_iter().flatten().take(5).collect();
    assert_eq!(order, [work[0], work[1], free(1, 10, 1), map(2, 1, 1, 1), decrease(0, 99)]);
}

#[test]
fn a_step_ends_at_its_limit() {
    let mut queue = DeferredWork::default();
    (0..40).for_each(|index| queue.push(map(0, index * 10, 1, 0)));
    let lengths: Vec<usize> = run(&mut queue, |_| Vec::new()).iter().map(Vec::len).collect();
    assert_eq!(lengths, [16, 16, 8]);
}

#[test]
fn what_goes_on_becomes_one_piece_of_work() {
    let mut queue = DeferredWork::default();
    let pieces = [map(1, 10, 2, 0), map(1, 12, 3, 2), map(1, 15, 1, 6), map(2, 16, 1, 7)];
    pieces.into_iter().for_each(|work| queue.push(work));
    [free(1, 10, 1), free(1, 11, 4), free(1, 16, 1), free(0, 17, 1)]
        .into_iter()
        .for_each(|work| queue.push(work));
    [decrease(1, 1), decrease(1, 2)].into_iter().for_each(|work| queue.push(work));
    let steps = run(&mut queue, |_| Vec::new());
    assert_eq!(steps[0], [map(1, 10, 5, 0), pieces[2]]);
    assert_eq!(steps[1], [pieces[3]]);
    assert_eq!(steps[2], [free(1, 10, 5), free(1, 16, 1)]);
    assert_eq!(steps[3], [free(0, 17, 1)]);
    assert_eq!(steps[4].len(), 1);
}

#[test]
fn promises_are_of_one_step_and_can_be_renewed() {
    let intent =
        |id, sequence| LoggedIntent { end: ItemType::FreeExtentDone, id, extents: Vec::new(), sequence };
    let mut queue = DeferredWork::default();
    assert!(!queue.push_with_intent([free(1, 9, 1), free(2, 4, 1), free(2, 5, 1)], &intent(7, 3)));
    assert_eq!(queue.oldest_intent(), None);
    let mut ids = 10..;
    queue
        .log_all_intents(|works, _| Ok::<_, ()>(intent(ids.next().unwrap() + 100 * works.len() as u64, 3)))
        .unwrap();
    assert!(queue.push_with_intent([free(3, 5, 1), free(3, 6, 1)], &intent(8, 2)));
    queue.push(decrease(0, 4));
    assert_eq!(queue.oldest_intent(), Some(2));
    let mut renewed = Vec::new();
    for (newest, most) in [(1, 9), (2, 9), (3, 1), (3, 9)] {
        queue
            .renew(newest, most, |works, _, old| {
                renewed.push((works.to_vec(), old.id));
                *old = intent(old.id + 1000, 9);
                Ok::<_, ()>(())
            })
            .unwrap();
    }
    // The oldest came first.
    renewed.rotate_left(1);
    let works = [vec![free(1, 9, 1)], vec![free(2, 4, 1), free(2, 5, 1)], vec![free(3, 5, 1), free(3, 6, 1)]];
    let expected: Vec<_> = works.iter().cloned().zip([110, 211, 8]).collect();
    assert_eq!(renewed, expected);
    assert_eq!(queue.oldest_intent(), Some(9));
    for (works, id) in expected {
        let step = queue.begin_step().unwrap();
        assert_eq!(step, works);
        assert_eq!(queue.end_step(step), Some(intent(id + 1000, 9)));
    }
    assert_eq!(queue.begin_step().unwrap(), [decrease(0, 4)]);
}
