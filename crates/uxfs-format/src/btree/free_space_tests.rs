use super::*;
use crate::{
    btree::{
        block::BtreeBlock,
        check::BtreeFault,
        golden::{
            FREE_SPACE_BY_BLOCK_LEAF, FREE_SPACE_BY_BLOCK_NODE, FREE_SPACE_BY_LENGTH_LEAF,
            FREE_SPACE_BY_LENGTH_NODE,
        },
    },
    fault::Fault,
};

fn extent(start: u32, length_blocks: u32) -> FreeExtent {
    FreeExtent { start: AgBlock::new(start), length_blocks }
}

#[test]
fn golden_blocks_are_accepted_and_read_as_xfs_db_prints_them() {
    assert_eq!(FREE_SPACE_BY_BLOCK_NODE.verify::<ByBlock>(), Ok(()));
    assert_eq!(FREE_SPACE_BY_BLOCK_LEAF.verify::<ByBlock>(), Ok(()));
    assert_eq!(FREE_SPACE_BY_LENGTH_NODE.verify::<ByLength>(), Ok(()));
    assert_eq!(FREE_SPACE_BY_LENGTH_LEAF.verify::<ByLength>(), Ok(()));

    let leaf = BtreeBlock::<ByBlock>::parse(FREE_SPACE_BY_BLOCK_LEAF.bytes).unwrap();
    assert_eq!((leaf.len(), leaf.right_sibling()), (60, Some(AgBlock::new(19))));
    assert_eq!(leaf.records()[2].get(), extent(439, 1));
    let node = BtreeBlock::<ByLength>::parse(FREE_SPACE_BY_LENGTH_NODE.bytes).unwrap();
    assert_eq!(ByLength::position_of_key(&node.keys()[1]), (1, AgBlock::new(631)));
    assert_eq!(node.pointers()[0].get(), 3);
}

#[test]
fn capacities_are_those_of_the_format() {
    assert_eq!((ByBlock::max_leaf_records(4096), ByBlock::max_node_entries(4096)), (505, 336));
    assert_eq!((ByBlock::max_leaf_records(1024), ByBlock::max_node_entries(1024)), (121, 80));
}

#[test]
fn each_check_of_a_record_rejects_its_damage() {
    let first = |start: u32, length: u32| {
        let bytes = (u64::from(start) << 32 | u64::from(length)).to_be_bytes();
        FREE_SPACE_BY_BLOCK_LEAF.patched::<ByBlock>(56, &bytes)
    };
    assert_eq!(first(415, 1), Ok(()));
    for (start, length_blocks) in [(415, 0), (1, 1), (415, 200_000), (u32::MAX, 2)] {
        let fault = FreeSpaceFault::Place { start: AgBlock::new(start), length_blocks }.into();
        assert_eq!(first(start, length_blocks), Err(BtreeFault::Record { index: 1, fault }.into()));
    }
    let order = |index| Err(Fault::from(BtreeFault::RecordOrder { index }));
    assert_eq!(first(428, 2), order(2), "overlaps block 429");
    assert_eq!(FREE_SPACE_BY_LENGTH_LEAF.patched::<ByLength>(56 + 4, &[0, 0, 0, 2]), order(2));
}
