use proptest::prelude::*;

use super::{ReverseMapFault as F, *};
use crate::{
    btree::{
        block::BtreeBlock,
        check::BtreeFault,
        golden::{REVERSE_MAP_LEAF, REVERSE_MAP_NODE},
    },
    fault::Fault,
};

fn mapping(start: u32, length_blocks: u32, owner: Owner, file_block: u64) -> Mapping {
    Mapping {
        start: AgBlock::new(start),
        length_blocks,
        owner,
        file_block: FileBlock::new(file_block),
        is_attribute_fork: false,
        is_extent_map_block: false,
        is_unwritten: false,
    }
}

fn inode(number: u64) -> Owner {
    Owner::Inode(InodeNumber::new(number))
}

/// Puts `mapping` in place of the first record.
fn first(mapping: Mapping) -> Result<(), Fault> {
    let record = ReverseMapRecord::from(mapping);
    REVERSE_MAP_LEAF.patched::<ReverseMap>(56, zerocopy::IntoBytes::as_bytes(&record))
}

#[test]
fn golden_blocks_are_accepted_and_read_as_xfs_db_prints_them() {
    assert_eq!(REVERSE_MAP_NODE.verify::<ReverseMap>(), Ok(()));
    assert_eq!(REVERSE_MAP_LEAF.verify::<ReverseMap>(), Ok(()));

    let leaf = BtreeBlock::<ReverseMap>::parse(REVERSE_MAP_LEAF.bytes).unwrap();
    assert_eq!(leaf.records()[0].get(), mapping(5688, 1, inode(67), 5624));
    assert_eq!(leaf.records()[1].get(), mapping(5688, 1, inode(69), 5624));
    let node = BtreeBlock::<ReverseMap>::parse(REVERSE_MAP_NODE.bytes).unwrap();
    assert_eq!((node.level(), node.len()), (2, 10));
    let (low, high) = (ReverseMap::position_of_key(&node.keys()[1]), node.keys()[1].high());
    assert_eq!((low.start.get(), Owner::from_raw(low.owner)), (407, Owner::GroupBtrees));
    assert_eq!((high.start.get(), high.owner, high.offset), (926, 69, 862));
    assert_eq!(node.pointers()[0].get(), 9);
}

#[test]
fn capacities_are_those_of_the_format() {
    assert_eq!((ReverseMap::max_leaf_records(4096), ReverseMap::max_node_entries(4096)), (168, 91));
}

#[test]
fn keys_mask_unwritten_and_reach_to_the_last_block() {
    let unwritten = Mapping { is_unwritten: true, ..mapping(10, 5, inode(67), 100) };
    let key = ReverseMap::key_of_record(&unwritten.into());
    assert_eq!((key.low_start.get(), key.low_offset.get()), (10, 100));
    assert_eq!((key.high_start.get(), key.high_offset.get()), (14, 104));
    let key = ReverseMap::key_of_record(&mapping(10, 5, Owner::Log, 0).into());
    assert_eq!((key.high_start.get(), key.high_offset.get()), (14, 0), "no file blocks to count");
}

#[test]
fn each_check_of_a_record_rejects_its_damage() {
    let fault = |fault: F| Err(Fault::from(BtreeFault::Record { index: 1, fault: fault.into() }));
    assert_eq!(first(mapping(0, 2, Owner::GroupHeaders, 0)), Ok(()));
    for bad in [
        mapping(0, 1, Owner::GroupHeaders, 0),
        mapping(0, 2, Owner::Log, 0),
        mapping(5688, 0, inode(67), 5624),
        mapping(5688, 153_600, inode(67), 5624),
    ] {
        let Mapping { start, length_blocks, owner, .. } = bad;
        assert_eq!(first(bad), fault(F::Place { start, length_blocks, owner }));
    }
    let start = AgBlock::new(5688);
    for owner in [Owner::Other(-1), Owner::Other(-2), Owner::Other(-10), inode(3), inode(1 << 40)] {
        assert_eq!(first(mapping(5688, 1, owner, 0)), fault(F::Owner { start, owner }));
    }
    let good = mapping(5688, 1, inode(67), 5624);
    for bad in [
        mapping(5688, 1, Owner::Log, 1),
        mapping(5688, 2, inode(67), (1 << 54) - 1),
        Mapping { is_unwritten: true, ..mapping(5688, 1, Owner::CowStaging, 0) },
        Mapping { is_extent_map_block: true, ..good },
        Mapping { is_extent_map_block: true, is_unwritten: true, ..mapping(5688, 1, inode(67), 0) },
        Mapping { is_attribute_fork: true, is_unwritten: true, ..good },
    ] {
        let offset = ReverseMapRecord::from(bad).offset.get();
        assert_eq!(first(bad), fault(F::Offset { start, owner: bad.owner, offset }));
    }
    // An extent map may have an extent there, and so has its mapping.
    assert_eq!(first(mapping(5688, 1, inode(67), (1 << 54) - 1)), Ok(()));
    let offset = 1 << 54 | 5624;
    let reserved = REVERSE_MAP_LEAF.patched::<ReverseMap>(56 + 16, &u64::to_be_bytes(offset));
    assert_eq!(reserved, fault(F::Offset { start, owner: inode(67), offset }));
    let order = Err(Fault::from(BtreeFault::RecordOrder { index: 2 }));
    assert_eq!(first(mapping(5689, 1, inode(67), 5624)), order);
    let key_order = Err(Fault::from(BtreeFault::KeyOrder { index: 2 }));
    assert_eq!(REVERSE_MAP_NODE.patched::<ReverseMap>(56, &[0, 0, 2, 0]), key_order);
}

proptest! {
    #[test]
    fn owners_keep_their_number(raw: u64) {
        prop_assert_eq!(Owner::from_raw(raw).raw(), raw);
    }

    #[test]
    fn packing_is_the_inverse_of_unpacking(start: u32, length: u32, owner: u64, offset: u64) {
        let record = ReverseMapRecord {
            start: U32::new(start), length_blocks: U32::new(length), owner: U64::new(owner),
            offset: U64::new(offset & !RESERVED),
        };
        prop_assert_eq!(ReverseMapRecord::from(record.get()), record);
    }
}
