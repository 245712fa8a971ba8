use super::*;
use crate::{
    fault::Structure::AttributeLeaf,
    name_tree::golden::{geometry, golden, patched},
};

#[test]
fn golden_leaf_reads_as_xfs_db_prints_it() {
    let (golden, geometry) = (golden(AttributeLeaf), geometry());
    let leaf = LeafBlock::parse(&golden.bytes, &geometry).unwrap();
    let header = leaf.header;
    assert_eq!((header.count.get(), header.used_bytes.get(), leaf.first_used()), (10, 0x120, 0x2c4));
    let all: Vec<_> = leaf.attributes().map(Result::unwrap).collect();
    assert_eq!((all[0].name, all[0].flags), (&b"t"[..], AttributeFlags::LOCAL | AttributeFlags::ROOT));
    assert_eq!(all[0].value, LeafValue::Local(&[]));
    let remote = LeafValue::Remote { first_block: FileBlock::new(1), length_bytes: 2560 };
    assert_eq!((all[1].name, all[1].value, all[1].stored_bytes()), (&b"remote"[..], remote, 20));
    assert_eq!((all[2].name, all[2].stored_bytes()), (&b"attr_leaf"[..], 24));
    let found: Vec<_> = leaf.attributes_of(0xfc78_7553).map(Result::unwrap).collect();
    assert_eq!((found.len(), found[0].name), (1, &b"local5"[..]));
}

#[test]
fn each_check_rejects_its_damage() {
    use AttributeLeafFault as F;
    let cases: &[(&str, usize, &[u8], F)] = &[
        ("count", 56, &[0, 119], F::EntryCount { count: 119, most: 118 }),
        ("first used", 60, &[0, 0x98], F::FirstUsed { first_used: 0x98, entries_end_bytes: 160 }),
        ("first used", 60, &[4, 4], F::FirstUsed { first_used: 0x404, entries_end_bytes: 160 }),
        ("zero is 65536", 60, &[0, 0], F::FirstUsed { first_used: 65536, entries_end_bytes: 160 }),
        ("order", 88, &[0; 4], F::HashOrder { index: 1, hash: 0 }),
        ("before the first", 84, &[2, 0xc0], F::NameOffset { index: 0, offset_bytes: 0x2c0 }),
        ("not aligned", 84, &[3, 0x71], F::NameOffset { index: 0, offset_bytes: 0x371 }),
        ("past the end", 0x3dc, &[36], F::NamePastEnd { index: 1, offset_bytes: 0x3d4 }),
        ("value past the end", 0x3e8, &[1], F::NamePastEnd { index: 2, offset_bytes: 0x3e8 }),
        ("no name", 0x372, &[0], F::NameLength { index: 0 }),
        ("zero byte", 0x373, &[0], F::NameCharacter { index: 0 }),
        ("two namespaces", 86, &[7], F::Flags { index: 0, flags: 7 }),
        ("unknown flag", 86, &[0x13], F::Flags { index: 0, flags: 0x13 }),
        ("hash", 80, &[0, 0, 0, 0x73], F::NameHash { index: 0, hash: 0x73, computed: 0x74 }),
        ("used bytes", 58, &[1, 0x24], F::UsedBytes { used_bytes: 0x124, found: 0x120 }),
        ("free region", 64, &[0, 0xa2], F::FreeRegion { index: 0, base_bytes: 0xa2, size_bytes: 0x224 }),
        ("free region", 70, &[0, 0xb0], F::FreeRegion { index: 1, base_bytes: 0x354, size_bytes: 0xb0 }),
    ];
    for (name, offset, value, fault) in cases {
        let result = patched(AttributeLeaf, &[(*offset, value)]);
        assert_eq!(result, Err((*fault).into()), "{name}");
    }
}

#[test]
fn names_that_overlap_are_rejected() {
    // local1's entry leads to local0's name, with its hash, which lies one after the other.
    let patches: [(usize, &[u8]); 1] = [(0x98 + 4, &[0x03, 0xb4])];
    let again: [(usize, &[u8]); 1] = [(0x98, &[0xfc, 0x78, 0x75, 0x56])];
    let result = patched(AttributeLeaf, &[patches, again].concat());
    assert_eq!(result, Err(AttributeLeafFault::Overlap { index: 9 }.into()));
}

/// The entry of "remote" lies at 0x58, its name at 0x3d4.
#[test]
fn remote_values_have_blocks_and_a_length_unless_half_made() {
    use AttributeLeafFault as F;
    let long = 0x1_0001;
    let cases: &[(usize, &[u8], F)] = &[
        (0x3d4, &[0; 4], F::RemoteBlock { index: 1 }),
        (0x3d8, &[0; 4], F::RemoteLength { index: 1, length_bytes: 0 }),
        (0x3d8, &[0, 1, 0, 1], F::RemoteLength { index: 1, length_bytes: long }),
    ];
    for (offset, value, fault) in cases {
        assert_eq!(patched(AttributeLeaf, &[(*offset, value)]), Err((*fault).into()));
        assert_eq!(patched(AttributeLeaf, &[(*offset, value), (0x5e, &[0x80])]), Ok(()));
    }
}
