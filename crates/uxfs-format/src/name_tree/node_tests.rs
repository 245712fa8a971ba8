use super::*;
use crate::{
    fault::Structure::{AttributeNode, DirectoryNode},
    name_tree::golden::{geometry, golden, patched},
};

#[test]
fn golden_node_reads_as_xfs_db_prints_it() {
    let golden = golden(DirectoryNode);
    let node = NodeBlock::parse(&golden.bytes).unwrap();
    assert_eq!((node.header.count.get(), node.header.level.get()), (3, 1));
    let entries: Vec<_> = node.entries.iter().map(|entry| (entry.hash.get(), entry.child.get())).collect();
    assert_eq!(entries, [(0x7abc_5a90, 0x200_0008), (0x7abd_5a17, 0x200_0004), (0x7abe_dd9d, 0x200_000c)]);
    assert_eq!(node.child_for(0), Some(FileBlock::new(0x200_0008)));
    assert_eq!(node.child_for(0x7abc_5a90), Some(FileBlock::new(0x200_0008)), "a key is in its child");
    assert_eq!(node.child_for(0x7abc_5a91), Some(FileBlock::new(0x200_0004)));
    assert_eq!(node.child_for(0x7abe_dd9e), None);
    assert_eq!(node.first_child(), Some(FileBlock::new(0x200_0008)));
}

#[test]
fn each_check_rejects_its_damage() {
    use NodeFault as F;
    let cases: &[(&str, crate::fault::Structure, usize, &[u8], F)] = &[
        ("level 0", DirectoryNode, 58, &[0, 0], F::Level { level: 0 }),
        ("level 6", AttributeNode, 58, &[0, 6], F::Level { level: 6 }),
        ("no child", DirectoryNode, 56, &[0, 0], F::Count { count: 0, most: 504 }),
        ("too many", AttributeNode, 56, &[0, 121], F::Count { count: 121, most: 120 }),
        ("order", DirectoryNode, 64, &[0x7b, 0, 0, 0], F::HashOrder { index: 1, hash: 0x7abd_5a17 }),
        ("data space", DirectoryNode, 76, &[0, 0, 0, 4], F::Child { index: 1, block: 4 }),
        ("root", DirectoryNode, 76, &[2, 0, 0, 0], F::Child { index: 1, block: 0x200_0000 }),
        ("not aligned", DirectoryNode, 76, &[2, 0, 0, 5], F::Child { index: 1, block: 0x200_0005 }),
        ("free space", DirectoryNode, 76, &[4, 0, 0, 0], F::Child { index: 1, block: 0x400_0000 }),
        ("root of attributes", AttributeNode, 68, &[0, 0, 0, 0], F::Child { index: 0, block: 0 }),
        ("directory", AttributeNode, 68, &[2, 0, 0, 0], F::Child { index: 0, block: 0x200_0000 }),
        ("all ones", AttributeNode, 68, &[0xff; 4], F::Child { index: 0, block: u32::MAX }),
        ("next of attributes", AttributeNode, 0, &[2, 0, 0, 0], F::Neighbour { block: 0x200_0000 }),
        ("next", DirectoryNode, 0, &[0, 0, 0, 8], F::Neighbour { block: 8 }),
        ("previous", DirectoryNode, 4, &[4, 0, 0, 0], F::Neighbour { block: 0x400_0000 }),
    ];
    for (name, structure, offset, value, fault) in cases {
        assert_eq!(patched(*structure, &[(*offset, value)]), Err((*fault).into()), "{name}");
    }
}

/// Whatever a verified interior block says of its children, it is taken for what it is when it is written, too.
#[test]
fn a_verified_node_is_recognised() {
    for structure in [DirectoryNode, AttributeNode] {
        let mut recognised = 0;
        for bit in 0..32 {
            for child in [1_u32 << bit, u32::MAX >> bit, (1 << bit) | 0x200_0000, (1 << bit) | 4] {
                let golden = golden(structure).set(68, &child.to_be_bytes());
                let found = crate::seal::structure_of(&golden.bytes, &geometry());
                if golden.verify().is_ok() {
                    assert_eq!(found, Some(structure), "{child:#x}");
                    recognised += 1;
                }
            }
        }
        assert!(recognised > 0, "{structure:?}");
    }
}
