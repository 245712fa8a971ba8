//! Beside a naive model that counts the owners of each block.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use proptest::prelude::*;
use uxfs_format::fault::Fault;
use uxfs_testkit::ownership::ReferenceModel;

use super::*;
use crate::allocation_group::record_tree::list::ListTree;
use uxfs_volume::error::Error;

type Tree = ListTree<ReferenceCount>;

fn read(tree: &Tree) -> Vec<SharedExtent> {
    tree.records.iter().map(ReferenceCountRecord::get).collect()
}

fn tree_of(model: &ReferenceModel) -> Tree {
    let mut tree = Tree::new();
    tree.records = model.extents().into_iter().map(ReferenceCountRecord::from).collect();
    tree
}

fn block(number: u32) -> AgBlock {
    AgBlock::new(number)
}

/// Adjusts in pieces of at most `most_changes`; gives the blocks that have no owner any more.
fn adjust_all(tree: &mut Tree, start: u32, length: u32, change: Change, most_changes: u32) -> Vec<u32> {
    let mut unowned = Vec::new();
    let mut done = 0;
    while done < length {
        let free = |start: AgBlock, length: u32| unowned.extend(start.get()..start.get() + length);
        let step = adjust(tree, block(start + done), length - done, change, most_changes, free).unwrap();
        assert!(step > 0, "each step goes on");
        done += step;
    }
    unowned
}

#[test]
fn all_changes_of_all_states_of_four_blocks_end_merged() {
    let counts = [1, 2, 3, u32::MAX - 1, u32::MAX];
    for number in 0..5u32.pow(4) {
        let mut model = ReferenceModel::default();
        for index in 0..4 {
            model.set_count(10 + index, counts[(number / 5u32.pow(index) % 5) as usize]);
        }
        for start in 9..14 {
            for length in 1..=(15 - start) {
                for most_changes in [1, u32::MAX] {
                    let (mut changed, mut tree) = (model.clone(), tree_of(&model));
                    assert!(adjust_all(&mut tree, start, length, Change::Increase, most_changes).is_empty());
                    changed.increase(block(start), length);
                    assert_eq!(read(&tree), changed.extents(), "{start}+{length} from {:?}", model.extents());
                    let (mut changed, mut tree) = (model.clone(), tree_of(&model));
                    let unowned = adjust_all(&mut tree, start, length, Change::Decrease, most_changes);
                    assert_eq!(unowned, changed.decrease(block(start), length));
                    assert_eq!(read(&tree), changed.extents(), "{start}+{length} from {:?}", model.extents());
                }
                let mut tree = tree_of(&model);
                let found = find_shared(&mut tree, block(start), length).unwrap();
                assert_eq!(found, model.find_shared(block(start), length));
            }
        }
    }
}

#[test]
fn blocks_are_set_aside_once() {
    let mut tree = Tree::new();
    let fault = |result: Result<()>| match result {
        Err(Error::Corrupt(corruption)) => corruption.fault,
        other => panic!("{other:?}"),
    };
    stage(&mut tree, block(10), 5).unwrap();
    for (start, length_blocks) in [(14, 1), (8, 3), (10, 5), (5, 20)] {
        let start = block(start);
        let expected = Fault::from(ReferenceCountFault::AlreadyStaged { start, length_blocks });
        assert_eq!(fault(stage(&mut tree, start, length_blocks)), expected);
    }
    for (start, length_blocks) in [(15, 1), (9, 2), (14, 2), (5, 20)] {
        let start = block(start);
        let expected = Fault::from(ReferenceCountFault::NotStaged { start, length_blocks });
        assert_eq!(fault(unstage(&mut tree, start, length_blocks)), expected);
    }
    assert_eq!(tree.changes, 1);
    // Sharing the same blocks is another matter: a file may be cloned while a copy-on-write is being prepared.
    adjust_all(&mut tree, 12, 10, Change::Increase, u32::MAX);
    assert_eq!(read(&tree).len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn histories_end_as_the_model_says(
        steps in proptest::collection::vec((0..5u8, 1..80u32, 1..20u32, 1..4u32), 1..150)
    ) {
        let (mut model, mut tree) = (ReferenceModel::default(), Tree::new());
        for (kind, start, length, most_changes) in steps {
            let first = block(start);
            match kind {
                0 | 1 => {
                    adjust_all(&mut tree, start, length, Change::Increase, most_changes);
                    model.increase(first, length);
                }
                2 => {
                    let unowned = adjust_all(&mut tree, start, length, Change::Decrease, most_changes);
                    prop_assert_eq!(unowned, model.decrease(first, length));
                }
                3 if !model.is_any_staged(first, length) => {
                    stage(&mut tree, first, length).unwrap();
                    model.stage(first, length);
                }
                _ if model.are_staged(first, length) => {
                    unstage(&mut tree, first, length).unwrap();
                    model.unstage(first, length);
                }
                _ => {}
            }
            prop_assert_eq!(read(&tree), model.extents());
            prop_assert_eq!(find_shared(&mut tree, first, length).unwrap(), model.find_shared(first, length));
        }
    }
}
