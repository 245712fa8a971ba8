use proptest::prelude::*;

use super::*;
use crate::btree::{
    block::BtreeBlock,
    block_header::BlockHeader,
    golden::{self, EXTENT_MAP_LEAF, EXTENT_MAP_NODE, EXTENT_MAP_ROOT, EXTENT_MAP_UNWRITTEN_LEAF},
};
use crate::fault::Fault;

fn extent(file_block: u64, start: u64, length_blocks: u64, is_unwritten: bool) -> Extent {
    Extent { file_block: FileBlock::new(file_block), start: FsBlock::new(start), length_blocks, is_unwritten }
}

#[test]
fn golden_blocks_are_accepted() {
    assert_eq!(EXTENT_MAP_NODE.verify::<ExtentMap>(), Ok(()));
    assert_eq!(EXTENT_MAP_LEAF.verify::<ExtentMap>(), Ok(()));
    assert_eq!(EXTENT_MAP_UNWRITTEN_LEAF.verify::<ExtentMap>(), Ok(()));
}

#[test]
fn leaves_read_as_xfs_db_prints_them() {
    let leaf = BtreeBlock::<ExtentMap>::parse(EXTENT_MAP_LEAF.bytes).unwrap();
    assert_eq!((leaf.level(), leaf.len(), leaf.capacity()), (0, 59, 59));
    assert_eq!(leaf.left_sibling(), None);
    assert_eq!(leaf.right_sibling(), Some(FsBlock::new(30)));
    assert_eq!(leaf.header().owner(), 67);
    assert_eq!(leaf.records()[58].get(), extent(116, 180, 1, false));
    assert!(leaf.keys().is_empty() && leaf.pointers().is_empty());

    let leaf = BtreeBlock::<ExtentMap>::parse(EXTENT_MAP_UNWRITTEN_LEAF.bytes).unwrap();
    let first: Vec<_> = leaf.records().iter().take(3).map(ExtentRecord::get).collect();
    assert_eq!(first, [extent(0, 14383, 1, false), extent(1, 14384, 1, true), extent(2, 14385, 1, false)]);
}

#[test]
fn nodes_have_their_pointers_behind_room_for_all_keys() {
    let node = BtreeBlock::<ExtentMap>::parse(EXTENT_MAP_NODE.bytes).unwrap();
    assert_eq!((node.level(), node.len(), node.capacity()), (1, 51, 59));
    let keys: Vec<_> = node.keys().iter().map(|key| key.file_block.get()).collect();
    assert_eq!((keys[1], keys[50]), (118, 5884));
    let pointers: Vec<_> = node.pointers().iter().map(|pointer| pointer.get()).collect();
    assert_eq!(pointers[..5], [31, 30, 29, 14208, 14211]);
    assert!(node.records().is_empty());
}

#[test]
fn roots_in_inodes_read_as_xfs_db_prints_them() {
    let root = ExtentMapRoot::parse(EXTENT_MAP_ROOT.bytes).unwrap();
    assert_eq!(root.verify(&golden::geometry(), ForkRoom::Data), Ok(()));
    assert_eq!(ExtentMapRoot::capacity(192), 11);
    assert_eq!((root.level(), root.keys().len()), (2, 1));
    assert_eq!((root.keys()[0].file_block.get(), root.pointers()[0].get()), (0, 14237));
}

#[test]
fn damaged_roots_are_rejected() {
    let damaged = |offset: usize, value: &[u8]| {
        let mut bytes = EXTENT_MAP_ROOT.bytes.to_vec();
        bytes[offset..offset + value.len()].copy_from_slice(value);
        ExtentMapRoot::parse(&bytes)?.verify(&golden::geometry(), ForkRoom::Data)
    };
    use ExtentMapFault as F;
    assert_eq!(damaged(0, &[0, 0]), Err(F::RootLevel { level: 0, max_level: 9 }.into()));
    assert_eq!(damaged(0, &[0, 10]), Err(F::RootLevel { level: 10, max_level: 9 }.into()));
    assert_eq!(damaged(2, &[0, 0]), Err(F::RootCount { count: 0, capacity: 11 }.into()));
    assert_eq!(damaged(2, &[0, 12]), Err(F::RootCount { count: 12, capacity: 11 }.into()));
    assert_eq!(damaged(2, &[0, 2]), Err(BtreeFault::KeyOrder { index: 2 }.into()));
    assert_eq!(damaged(92, &[1]), Err(BtreeFault::Pointer { index: 1, block: 1 << 56 | 14237 }.into()));
    let truncated = HeaderFault::Truncated { length_bytes: 3, needed_bytes: 4 };
    assert_eq!(ExtentMapRoot::parse(&[0; 3]).map(|_| ()), Err(truncated.into()));
}

#[test]
fn each_check_of_a_block_rejects_its_damage() {
    let leaf = |offset, value: &[u8]| EXTENT_MAP_LEAF.patched::<ExtentMap>(offset, value);
    let node = |offset, value: &[u8]| EXTENT_MAP_NODE.patched::<ExtentMap>(offset, value);
    use BtreeFault as F;
    let found = u32::from_be_bytes(*b"BMA4");
    assert_eq!(leaf(3, b"4"), Err(HeaderFault::BadMagic { found, expected: MAGIC }.into()));
    assert!(matches!(leaf(40, &[0xee]), Err(Fault::Header(HeaderFault::WrongUuid { .. }))));
    let (found, expected) = (crate::units::Sector::new(63), crate::units::Sector::new(62));
    assert_eq!(leaf(31, &[63]), Err(HeaderFault::WrongSector { found, expected }.into()));
    assert_eq!(leaf(4, &[0, 10]), Err(F::Level { level: 10, max_levels: 10 }.into()));
    assert_eq!(leaf(6, &[0, 60]), Err(F::TooManyRecords { count: 60, level: 0, capacity: 59 }.into()));
    assert_eq!(node(6, &[0, 60]), Err(F::TooManyRecords { count: 60, level: 1, capacity: 59 }.into()));
    assert_eq!(leaf(6, &[0, 0]), Err(F::Empty { level: 0 }.into()), "it has a sibling");
    assert_eq!(node(6, &[0, 0]), Err(F::Empty { level: 1 }.into()));
    assert_eq!(leaf(16, &[0; 8]), Err(F::Sibling { side: "right", block: 0 }.into()), "a group header");
    assert_eq!(leaf(15, &[31]), Err(F::Sibling { side: "left", block: 0xffff_ffff_ffff_ff1f }.into()));
    assert_eq!(leaf(16, &31u64.to_be_bytes()), Err(F::Sibling { side: "right", block: 31 }.into()), "itself");
    assert_eq!(node(72 + 8 + 6, &[0, 0]), Err(F::KeyOrder { index: 2 }.into()));
    assert_eq!(node(72 + 59 * 8, &[0; 8]), Err(F::Pointer { index: 1, block: 0 }.into()));
    assert_eq!(leaf(72 + 16 + 6, &[0, 0]), Err(F::RecordOrder { index: 2 }.into()));
}

#[test]
fn each_check_of_an_extent_rejects_its_damage() {
    let with = |record: Extent| {
        let record = ExtentRecord::new(&record).unwrap();
        EXTENT_MAP_LEAF.patched::<ExtentMap>(72 + 58 * 16, zerocopy::IntoBytes::as_bytes(&record))
    };
    assert_eq!(with(extent(116, 180, 1, false)), Ok(()));
    let fault = |fault: ExtentMapFault| Err(BtreeFault::Record { index: 59, fault: fault.into() }.into());
    let file_block = FileBlock::new(116);
    assert_eq!(with(extent(116, 180, 0, false)), fault(ExtentMapFault::NoLength { file_block }));
    let file_block = FileBlock::new(MAX_FILE_BLOCKS - 1);
    let past_end = ExtentMapFault::PastEnd { file_block, length_blocks: 2 };
    assert_eq!(with(extent(MAX_FILE_BLOCKS - 1, 180, 2, false)), fault(past_end));

    let geometry = golden::geometry();
    assert_eq!(extent(0, 180, 1, false).verify_place(&geometry), Ok(()));
    for (start, length_blocks) in [(1, 1), (1 << 40, 1), (180, 1 << 20)] {
        let fault = ExtentMapFault::Place { start: FsBlock::new(start), length_blocks };
        assert_eq!(extent(0, start, length_blocks, false).verify_place(&geometry), Err(fault));
    }
}

proptest! {
    #[test]
    fn packing_is_the_inverse_of_unpacking(high: u64, low: u64) {
        let record = ExtentRecord { high: U64::new(high), low: U64::new(low) };
        prop_assert_eq!(ExtentRecord::new(&record.get()), Some(record));
    }

    #[test]
    fn no_fork_makes_the_root_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), level in 0u16..4, count in 0u16..30) {
        let mut bytes = bytes;
        if let Some(header) = bytes.get_mut(..4) {
            header.copy_from_slice(&[0, level as u8, 0, count as u8]);
        }
        if let Ok(root) = ExtentMapRoot::parse(&bytes) {
            prop_assert_eq!(root.keys().len(), root.pointers().len());
            let _ = root.verify(&golden::geometry(), ForkRoom::Attribute);
        }
    }
}
