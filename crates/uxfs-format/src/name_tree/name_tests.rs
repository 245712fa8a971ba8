//! Tests that hold for every structure of directories and attributes.

use proptest::prelude::*;

use super::golden::{ALL, geometry, golden, patched};
use crate::{
    attribute, directory,
    fault::{Fault, HeaderFault, Structure},
    name_tree::node::NodeBlock,
    units::{Sector, Uuid},
    verify::{self, VerifyContext},
};

#[test]
fn golden_blocks_are_accepted_as_they_are() {
    for structure in ALL {
        assert_eq!(golden(structure).verify_unsealed(), Ok(()), "{structure:?}");
        let sealed = golden(structure);
        assert_eq!(sealed.verify(), Ok(()), "{structure:?} sealed again");
    }
}

/// Blocks with a header: where magic, uuid and sector lie.
const HEADERS: [(Structure, usize, usize, usize); 9] = [
    (Structure::DirectoryBlock, 0, 24, 8),
    (Structure::DirectoryData, 0, 24, 8),
    (Structure::DirectoryFreeIndex, 0, 24, 8),
    (Structure::DirectoryLeaf, 8, 32, 16),
    (Structure::DirectoryLeafNode, 8, 32, 16),
    (Structure::DirectoryNode, 8, 32, 16),
    (Structure::AttributeLeaf, 8, 32, 16),
    (Structure::AttributeNode, 8, 32, 16),
    (Structure::AttributeRemoteValue, 0, 16, 40),
];

#[test]
fn every_header_check_rejects_its_damage() {
    for (structure, magic, uuid, sector) in HEADERS {
        let bad_magic = patched(structure, &[(magic, &[0, 1])]);
        assert!(matches!(bad_magic, Err(Fault::Header(HeaderFault::BadMagic { .. }))), "{structure:?}");
        let expected = geometry().metadata_uuid;
        assert_eq!(
            patched(structure, &[(uuid, &[7; 16])]),
            Err(HeaderFault::WrongUuid { found: Uuid([7; 16]), expected }.into()),
            "{structure:?}"
        );
        let expected = golden(structure).sector;
        assert_eq!(
            patched(structure, &[(sector, &[0, 0, 0, 0, 0, 0, 0, 9])]),
            Err(HeaderFault::WrongSector { found: Sector::new(9), expected }.into()),
            "{structure:?}"
        );
        let mut changed = golden(structure);
        changed.bytes[1000] ^= 1;
        let result = changed.verify_unsealed();
        assert!(matches!(result, Err(Fault::Header(HeaderFault::BadChecksum { .. }))), "{structure:?}");
    }
}

#[test]
fn too_few_bytes_are_truncated_never_a_panic() {
    for structure in ALL {
        let whole = golden(structure);
        for length in [0, 1, 3, 4, 40, 63, 64, 100, whole.bytes.len() - 1] {
            if length >= whole.bytes.len() {
                continue;
            }
            let mut short = golden(structure);
            short.bytes.truncate(length);
            let result = short.verify_unsealed();
            // Shortform attributes end before their fork does.
            let may_fit = structure == Structure::AttributeShortform;
            assert!(result.is_err() || may_fit, "{structure:?} of {length} bytes");
        }
    }
}

#[test]
fn a_block_of_either_kind_is_recognised_by_its_magic() {
    let any = [
        (Structure::DirectoryBlock, Structure::DirectoryAnyData),
        (Structure::DirectoryData, Structure::DirectoryAnyData),
        (Structure::DirectoryLeaf, Structure::DirectoryAnyIndex),
        (Structure::DirectoryLeafNode, Structure::DirectoryAnyIndex),
        (Structure::DirectoryNode, Structure::DirectoryAnyIndex),
        (Structure::AttributeLeaf, Structure::AttributeAnyIndex),
        (Structure::AttributeNode, Structure::AttributeAnyIndex),
    ];
    for (structure, wider) in any {
        let mut block = golden(structure);
        block.structure = wider;
        assert_eq!(block.verify_unsealed(), Ok(()), "{structure:?}");
        block.bytes[if block.checksum_offset == Some(4) { 0 } else { 8 }] = 0;
        assert!(block.verify().is_err(), "{structure:?}");
    }
}

#[test]
fn field_tables_cover_their_structure_without_gap_or_overlap() {
    use crate::field_table::{Field, OnDisk, bits};
    fn check<T: OnDisk>() {
        let mut next = 0;
        for Field { name, bit_offset, bit_length, count, .. } in T::FIELDS {
            assert_eq!(*bit_offset, next, "{name}");
            next += bit_length * count;
        }
        assert_eq!(next, bits(T::SIZE_BYTES));
    }
    check::<super::node::NodeHeader>();
    check::<directory::data::DataHeader>();
    check::<directory::leaf::LeafHeader>();
    check::<directory::free_index::FreeIndexHeader>();
    check::<attribute::shortform::ShortformEntryHead>();
    check::<attribute::leaf::LeafHeader>();
    check::<attribute::leaf::LeafEntry>();
}

/// Uses every view and iterator on bytes that no verifier has seen.
fn walk_views(bytes: &[u8]) {
    let geometry = geometry();
    if let Ok(block) = directory::block::SingleBlock::parse(bytes, &geometry) {
        assert!(block.records().count() <= bytes.len());
        block.entries.iter().for_each(|entry| {
            block.pointers_of(entry.hash.get()).take(4).for_each(|pointer| {
                let (_, offset) = pointer.split(&geometry);
                let _ = block.entry_at(offset);
            });
        });
    }
    if let Ok(block) = directory::data::DataBlock::parse(bytes, &geometry) {
        assert!(block.records().count() <= bytes.len());
    }
    if let Ok(leaf) = directory::leaf::LeafBlock::parse(bytes, &geometry) {
        let _ = leaf.bests();
        assert!(leaf.pointers_of(leaf.last_hash().unwrap_or(0)).count() <= leaf.entries.len());
    }
    if let Ok(directory) = directory::shortform::Shortform::parse(bytes, &geometry) {
        assert!(directory.entries().count() <= 256);
    }
    if let Ok(attributes) = attribute::shortform::Shortform::parse(bytes) {
        assert!(attributes.attributes().count() <= 256);
    }
    if let Ok(leaf) = attribute::leaf::LeafBlock::parse(bytes, &geometry) {
        assert_eq!(leaf.attributes().count(), leaf.entries.len());
        let _ = leaf.attributes_of(leaf.last_hash().unwrap_or(0)).count();
    }
    let _ = attribute::remote::RemoteBlock::parse(bytes, &geometry).map(|remote| remote.part.len());
    let _ = directory::free_index::FreeIndexBlock::parse(bytes, &geometry).map(|free| free.bests.len());
    let _ = NodeBlock::parse(bytes).map(|node| node.child_for(0x8000_0000));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn no_damage_panics(
        which in 0..ALL.len(),
        patches in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        shorten in prop::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        let mut block = golden(ALL[which]);
        for (at, value) in &patches {
            let index = at.index(block.bytes.len());
            block.bytes[index] = *value;
        }
        if let Some(length) = shorten {
            let length = length.index(block.bytes.len());
            block.bytes.truncate(length);
            block.checksum_offset = None;
        }
        walk_views(&block.bytes);
        let _ = block.verify();
    }

    #[test]
    fn no_garbage_panics(bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
        let geometry = geometry();
        let context = VerifyContext::new(&geometry, Sector::new(8));
        for structure in ALL {
            let _ = verify::verify(structure, &bytes, &context);
        }
        walk_views(&bytes);
    }
}
