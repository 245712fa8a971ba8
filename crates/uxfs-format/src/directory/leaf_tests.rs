use super::*;
use crate::{
    fault::Structure::{DirectoryLeaf, DirectoryLeafNode},
    name_tree::golden::{geometry, golden, patched},
    units::FileBlock,
};

#[test]
fn golden_leaves_read_as_xfs_db_prints_them() {
    let (single, geometry) = (golden(DirectoryLeaf), geometry());
    let leaf = LeafBlock::parse(&single.bytes, &geometry).unwrap();
    assert_eq!((leaf.header.count.get(), leaf.header.stale.get()), (242, 3));
    let bests: Vec<u16> = leaf.bests().unwrap().iter().map(|best| best.get()).collect();
    assert_eq!(bests, [0x40, 0x160]);
    let pointers: Vec<u32> = leaf.pointers_of(0x172e).map(DataPointer::get).collect();
    assert_eq!(pointers, [0xa]);

    let node = golden(DirectoryLeafNode);
    let leaf = LeafBlock::parse(&node.bytes, &geometry).unwrap();
    assert_eq!((leaf.header.count.get(), leaf.header.stale.get()), (0x129, 0x2b));
    let neighbours = (leaf.header.info.next(), leaf.header.info.previous());
    let expected = (0x200_000c, 0x200_0008);
    assert_eq!(neighbours, (Some(FileBlock::new(expected.0)), Some(FileBlock::new(expected.1))));
    assert_eq!(leaf.last_hash(), Some(0x7abd_5a17));
    assert_eq!(leaf.pointers_of(0x7abc_5a96).count(), 0, "a removed entry");
    assert_eq!(leaf.first_at_or_after(0x7abc_5a92), 1);
}

#[test]
fn each_check_of_entries_rejects_its_damage() {
    use DirectoryLeafFault as F;
    for structure in [DirectoryLeaf, DirectoryLeafNode] {
        let whole = golden(structure);
        let geometry = geometry();
        let leaf = LeafBlock::parse(&whole.bytes, &geometry).unwrap();
        let (stale, second) = (leaf.header.stale.get(), leaf.entries[1].hash.get());
        let more = (stale + 1).to_be_bytes();
        let miscounted = F::StaleCount { stale: stale + 1, found: stale.into() };
        let cases: &[(&str, usize, &[u8], F)] = &[
            ("count", 56, &[1, 0xf9], F::EntryCount { count: 505, most: 504 }),
            ("stale", 58, &more, miscounted),
            ("order", 64, &[0xff; 4], F::HashOrder { index: 1, hash: second }),
            ("header", 68, &[0, 0, 0, 7], F::Address { index: 0, address: 7 }),
            ("header of a later block", 68, &[0, 0, 2, 1], F::Address { index: 0, address: 0x201 }),
        ];
        for (name, offset, value, fault) in cases {
            assert_eq!(patched(structure, &[(*offset, value)]), Err((*fault).into()), "{structure:?} {name}");
        }
    }
}

#[test]
fn each_check_of_bests_and_neighbours_rejects_its_damage() {
    use DirectoryLeafFault as F;
    let most = (504 - 242) * 4 - 2;
    let cases: &[(&str, crate::fault::Structure, usize, &[u8], F)] = &[
        ("bests", DirectoryLeaf, 0xffc, &[0, 0, 4, 0x17], F::BestCount { count: 0x417, most }),
        ("many bests", DirectoryLeaf, 0xffc, &[0xff; 4], F::BestCount { count: u32::MAX, most }),
        ("odd best", DirectoryLeaf, 0xff8, &[0, 0x41], F::Best { index: 0, length_bytes: 0x41 }),
        ("long best", DirectoryLeaf, 0xffa, &[0x0f, 0xc8], F::Best { index: 1, length_bytes: 0xfc8 }),
        ("no such block", DirectoryLeaf, 68, &[0, 0, 4, 8], F::Address { index: 0, address: 0x408 }),
        ("neighbour", DirectoryLeaf, 0, &[2, 0, 0, 4], F::Neighbour { block: 0x200_0004 }),
        ("neighbour's place", DirectoryLeafNode, 4, &[0, 0, 0, 4], F::Neighbour { block: 4 }),
    ];
    for (name, structure, offset, value, fault) in cases {
        assert_eq!(patched(*structure, &[(*offset, value)]), Err((*fault).into()), "{name}");
    }
}

#[test]
fn an_entry_in_a_data_block_that_is_a_hole_is_rejected() {
    let result = patched(DirectoryLeaf, &[(0xff8, &[0xff, 0xff])]);
    assert_eq!(result, Err(DirectoryLeafFault::Address { index: 0, address: 8 }.into()));
}
