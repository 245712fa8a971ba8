use super::*;
use crate::{
    fault::Structure::DirectoryFreeIndex,
    name_tree::golden::{geometry, golden, patched},
};

#[test]
fn golden_block_reads_as_xfs_db_prints_it() {
    let (golden, geometry) = (golden(DirectoryFreeIndex), geometry());
    let free = FreeIndexBlock::parse(&golden.bytes, &geometry).unwrap();
    let header = free.header;
    assert_eq!((header.first_data_block.get(), header.valid.get(), header.used.get()), (0, 10, 10));
    let bests: Vec<u16> = free.bests.iter().map(|best| best.get()).collect();
    assert_eq!(bests, [0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x780]);
}

#[test]
fn each_check_rejects_its_damage() {
    use FreeIndexFault as F;
    let cases: &[(&str, usize, &[u8], F)] = &[
        ("first", 48, &[0, 0, 0, 1], F::First { first: 1, per_block: 2016 }),
        ("valid", 52, &[0, 0, 7, 0xe1], F::Valid { valid: 2017, most: 2016 }),
        ("used", 56, &[0, 0, 0, 9], F::Used { used: 9, found: 10 }),
        ("hole", 64, &[0xff, 0xff], F::Used { used: 10, found: 9 }),
        ("best", 66, &[0, 0x21], F::Best { index: 1, length_bytes: 0x21 }),
    ];
    for (name, offset, value, fault) in cases {
        assert_eq!(patched(DirectoryFreeIndex, &[(*offset, value)]), Err((*fault).into()), "{name}");
    }
}
