use proptest::prelude::*;

use super::*;
use crate::{
    directory::edit_testing::{TestBlock, geometry},
    fault::Structure,
};

fn live(bytes: &[u8]) -> Vec<(u32, u32)> {
    let geometry = geometry(2);
    let leaf = LeafBlock::parse(bytes, &geometry).unwrap();
    let entries = leaf.entries.iter().filter(|entry| entry.pointer().is_some());
    entries.map(|entry| (entry.hash.get(), entry.address.get())).collect()
}

fn bests(block: &TestBlock) -> Vec<u16> {
    let geometry = geometry(2);
    let leaf = LeafBlock::parse(&block.bytes, &geometry).unwrap();
    leaf.bests().unwrap().iter().map(|best| best.get()).collect()
}

fn node_leaf() -> TestBlock {
    let mut block = TestBlock::new(&geometry(2));
    let identity = block.identity();
    LeafEdit::init_node(block.edit(), &identity);
    block
}

#[test]
fn bests_grow_to_the_front_and_holes_at_the_end_go() {
    let mut block = TestBlock::new(&geometry(2));
    let identity = block.identity();
    let mut leaf = LeafEdit::init_single(block.edit(), &identity);
    for best in [8, 16, NO_DATA_BLOCK, 24, NO_DATA_BLOCK] {
        leaf.push_best(best);
    }
    leaf.set_best(1, 32);
    assert_eq!(bests(&block), [8, 32, NO_DATA_BLOCK, 24, NO_DATA_BLOCK]);
    LeafEdit::new(block.edit()).trim_bests();
    assert_eq!(bests(&block), [8, 32, NO_DATA_BLOCK, 24]);
    assert_eq!(block.verify(), Ok(Structure::DirectoryLeaf));
}

#[test]
fn the_one_leaf_is_full_where_entries_meet_bests() {
    let mut block = TestBlock::new(&geometry(2));
    let identity = block.identity();
    let mut leaf = LeafEdit::init_single(block.edit(), &identity);
    leaf.push_best(0);
    let mut count = 0;
    while leaf.insert(count, DataPointer::new(8 + count % 400)) != Inserted::Full {
        count += 1;
    }
    // 64 bytes of header, 4 of tail, 2 of best.
    assert_eq!(count, (4096 - 64 - 4 - 2) / 8);
    assert!(!leaf.has_room(0));
    leaf.remove(0);
    leaf.remove(1);
    assert!(leaf.has_room(1) && leaf.has_room(5) && !leaf.has_room(6 + 4));
    leaf.make_room(5);
    for _ in 0..5 {
        leaf.push_best(0);
    }
    assert_eq!(leaf.insert(9, DataPointer::new(8)), Inserted::Done { new_last: None });
    assert_eq!(leaf.insert(9, DataPointer::new(8)), Inserted::Full);
    assert_eq!(block.verify(), Ok(Structure::DirectoryLeaf));
}

#[test]
fn leaves_change_kind_both_ways() {
    let mut block = node_leaf();
    let mut leaf = LeafEdit::new(block.edit());
    for number in 0..480 {
        leaf.insert(number, DataPointer::new(8 + number % 400));
    }
    leaf.remove(7);
    let bests_of = |count| vec![U16::new(64); count];
    assert!(!leaf.become_single(&bests_of(99)), "479 entries leave 200 bytes, 4 of them for the tail");
    assert!(leaf.become_single(&bests_of(98)));
    assert_eq!(block.verify(), Ok(Structure::DirectoryLeaf));
    assert_eq!((bests(&block).len(), live(&block.bytes).len()), (98, 479));
    LeafEdit::new(block.edit()).become_node();
    assert_eq!(block.verify(), Ok(Structure::DirectoryLeafNode));
    assert_eq!(live(&block.bytes).len(), 479);
}

#[test]
fn a_leaf_splits_and_joins_without_its_removed_entries() {
    let (mut left, mut right) = (node_leaf(), node_leaf());
    let mut leaf = LeafEdit::new(left.edit());
    for number in 0..504 {
        assert_eq!(
            leaf.insert(number, DataPointer::new(8 + number % 400)),
            Inserted::Done { new_last: Some(number) }
        );
    }
    assert_eq!(leaf.insert(3, DataPointer::new(9)), Inserted::Full);
    (0..100).for_each(|index| leaf.remove(index));
    leaf.split_off(&mut LeafEdit::new(right.edit()));
    assert_eq!(
        (left.verify(), right.verify()),
        (Ok(Structure::DirectoryLeafNode), Ok(Structure::DirectoryLeafNode))
    );
    assert_eq!((fill(&left.bytes), fill(&right.bytes)), ((202, 504), (202, 504)));
    assert_eq!((last_hash(&left.bytes), last_hash(&right.bytes)), (Some(301), Some(503)));
    let mut front = node_leaf();
    LeafEdit::new(front.edit()).take_all(&right.bytes, MoveSide::Front);
    LeafEdit::new(front.edit()).remove(0);
    LeafEdit::new(front.edit()).take_all(&left.bytes, MoveSide::Front);
    assert_eq!(front.verify(), Ok(Structure::DirectoryLeafNode));
    assert_eq!(live(&front.bytes).len(), 403);
    LeafEdit::new(left.edit()).take_all(&right.bytes, MoveSide::Back);
    assert_eq!(live(&left.bytes).len(), 404);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(25))]
    #[test]
    fn changes_equal_the_model(steps in prop::collection::vec((prop::bool::weighted(0.5), 0_u32..600), 1..1500)) {
        let mut block = node_leaf();
        let mut model: Vec<(u32, u32)> = Vec::new();
        let geometry = geometry(2);
        for (number, (is_removal, hash)) in steps.into_iter().enumerate() {
            let address = 8 + number as u32 % 400;
            let first = LeafBlock::parse(&block.bytes, &geometry).unwrap().matches(hash).next();
            match (is_removal, first) {
                (true, Some((index, pointer))) => {
                    LeafEdit::new(block.edit()).remove(index);
                    let place = model.iter().position(|entry| *entry == (hash, pointer.get())).unwrap();
                    model.remove(place);
                }
                _ => {
                    let before = last_hash(&block.bytes);
                    match LeafEdit::new(block.edit()).insert(hash, DataPointer::new(address)) {
                        Inserted::Done { new_last } => {
                            model.push((hash, address));
                            let last = last_hash(&block.bytes);
                            prop_assert_eq!(new_last, last.filter(|_| last != before));
                        }
                        Inserted::Full => prop_assert_eq!(model.len(), 504),
                    }
                }
            }
            if number % 97 == 0 {
                LeafEdit::new(block.edit()).squeeze();
            }
            prop_assert_eq!(block.verify(), Ok(Structure::DirectoryLeafNode));
            let (mut found, mut expected) = (live(&block.bytes), model.clone());
            found.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
