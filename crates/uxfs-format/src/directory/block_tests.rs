use super::*;
use crate::{
    fault::Structure::DirectoryBlock,
    name_tree::golden::{geometry, golden, patched},
};

/// Where the index begins.
const INDEX: usize = 0xef8;

#[test]
fn golden_block_reads_as_xfs_db_prints_it() {
    let (golden, geometry) = (golden(DirectoryBlock), geometry());
    let block = SingleBlock::parse(&golden.bytes, &geometry).unwrap();
    assert_eq!((block.tail.count.get(), block.tail.stale.get()), (32, 4));
    assert_eq!(block.data_end_bytes(), 0xef8);
    assert_eq!(block.entry_at(0x40).unwrap().name, b".");
    assert_eq!(block.entry_at(0x50).unwrap().name, b"..");
    let hash = crate::directory::name_hash::hash(b"name_30");
    let pointer = block.pointers_of(hash).next().unwrap();
    let (data_block, offset_bytes) = pointer.split(&geometry);
    assert_eq!((data_block, block.entry_at(offset_bytes).unwrap().name), (0, &b"name_30"[..]));
    let removed = crate::directory::name_hash::hash(b"name_3");
    assert_eq!(block.pointers_of(removed).count(), 0);
}

#[test]
fn each_check_of_the_index_rejects_its_damage() {
    use DirectoryBlockFault as F;
    let cases: &[(&str, usize, &[u8], F)] = &[
        ("count", 0xff8, &[0, 0, 1, 0xf8], F::EntryCount { count: 504, most: 503 }),
        ("huge count", 0xff8, &[0xff; 4], F::EntryCount { count: u32::MAX, most: 503 }),
        ("stale", 0xffc, &[0, 0, 0, 5], F::StaleCount { stale: 5, found: 4 }),
        ("order", INDEX + 8, &[0; 4], F::HashOrder { index: 1, hash: 0 }),
        ("no entry there", INDEX + 4, &[0, 0, 0, 9], F::Address { index: 0, address: 9 }),
        ("beyond the block", INDEX + 4, &[0x40, 0, 0, 8], F::Address { index: 0, address: 0x4000_0008 }),
        ("twice", INDEX + 12, &[0, 0, 0, 8], F::Address { index: 1, address: 8 }),
        ("hash", INDEX, &[0, 0, 0, 0x2d], F::NameHash { index: 0, hash: 0x2d, computed: 0x2e }),
    ];
    for (name, offset, value, fault) in cases {
        assert_eq!(patched(DirectoryBlock, &[(*offset, value)]), Err((*fault).into()), "{name}");
    }
}

#[test]
fn an_entry_that_is_not_indexed_is_rejected() {
    // The last name's index entry becomes a removed one, and the tail counts it.
    let patches: [(usize, &[u8]); 2] = [(0xff4, &[0; 4]), (0xffc, &[0, 0, 0, 5])];
    let fault = DirectoryBlockFault::LiveCount { indexed: 27, found: 28 };
    assert_eq!(patched(DirectoryBlock, &patches), Err(fault.into()));
}

#[test]
fn records_are_checked_here_too() {
    let result = patched(DirectoryBlock, &[(0x4a, &[9])]);
    assert_eq!(result, Err(DirectoryDataFault::FileType { offset_bytes: 0x40, value: 9 }.into()));
}
