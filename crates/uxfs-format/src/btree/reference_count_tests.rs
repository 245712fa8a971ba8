use super::{ReferenceCountFault as F, *};
use crate::{
    btree::{
        block::BtreeBlock,
        check::BtreeFault,
        golden::{REFERENCE_COUNT_LEAF, REFERENCE_COUNT_NODE},
    },
    fault::Fault,
};

fn shared(start: u32, length_blocks: u32, count: u32) -> SharedExtent {
    SharedExtent { start: AgBlock::new(start), length_blocks, count, is_cow_staging: false }
}

/// Puts `extent` in place of the record with this index, counted from 0.
fn with(index: usize, extent: SharedExtent) -> Result<(), Fault> {
    let record = ReferenceCountRecord::from(extent);
    REFERENCE_COUNT_LEAF.patched::<ReferenceCount>(56 + 12 * index, zerocopy::IntoBytes::as_bytes(&record))
}

#[test]
fn golden_blocks_are_accepted_and_read_as_xfs_db_prints_them() {
    assert_eq!(REFERENCE_COUNT_NODE.verify::<ReferenceCount>(), Ok(()));
    assert_eq!(REFERENCE_COUNT_LEAF.verify::<ReferenceCount>(), Ok(()));
    let leaf = BtreeBlock::<ReferenceCount>::parse(REFERENCE_COUNT_LEAF.bytes).unwrap();
    assert_eq!((leaf.len(), leaf.records()[5].get()), (66, shared(78, 1, 2)));
    let node = BtreeBlock::<ReferenceCount>::parse(REFERENCE_COUNT_NODE.bytes).unwrap();
    assert_eq!(ReferenceCount::position_of_key(&node.keys()[7]).start, AgBlock::new(1184));
}

#[test]
fn extents_set_aside_sort_behind_all_others() {
    let staged = SharedExtent { is_cow_staging: true, ..shared(20, 3, 1) };
    assert_eq!(ReferenceCountRecord::from(staged).get(), staged);
    let position = |extent: SharedExtent| ReferenceCount::position_of_record(&extent.into());
    assert!(position(shared(100_000, 1, 2)) < position(staged));
    assert_eq!(with(65, staged), Ok(()), "last in the leaf");
}

#[test]
fn each_check_of_a_record_rejects_its_damage() {
    let fault = |fault: F| Err(Fault::from(BtreeFault::Record { index: 1, fault: fault.into() }));
    for bad in [shared(66, 0, 2), shared(1, 1, 2), shared(66, 153_600, 2)] {
        let (start, length_blocks) = (bad.start, bad.length_blocks);
        assert_eq!(with(0, bad), fault(F::Place { start, length_blocks }));
    }
    for (count, is_cow_staging) in [(1, false), (0, false), (2, true), (0, true)] {
        let start = AgBlock::new(66);
        let bad = SharedExtent { count, is_cow_staging, ..shared(66, 1, 0) };
        assert_eq!(with(0, bad), fault(F::Count { start, count, is_cow_staging }));
    }
    let order = Err(Fault::from(BtreeFault::RecordOrder { index: 2 }));
    assert_eq!(with(0, shared(66, 3, 2)), order);
}
