//! No bytes make a verifier or a view of the structures of a group panic, whatever they hold and however short they
//! are. The checksums are right, so that the damage reaches what lies behind them.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use uxfs_format::{
    allocation_group::{free_list::FreeList, free_space_header::FreeSpaceHeader},
    btree::{
        BtreeKind,
        block::BtreeBlock,
        extent_map::{ExtentMap, ExtentMapRoot},
        free_space::{ByBlock, ByLength},
        inode_index::{FreeInodeIndex, InodeIndex},
        levels::ForkRoom,
        reference_count::ReferenceCount,
        reverse_map::ReverseMap,
    },
    checksum,
    fault::{Fault, Structure},
    features::{Incompatible, RoCompatible},
    geometry::Geometry,
    quota, realtime,
    superblock::Superblock,
    units::Sector,
    verify::{VerifyContext, verify},
};

/// A structure made by mkfs or the kernel.
struct Golden {
    structure: Structure,
    bytes: &'static [u8],
    sector: u64,
    checksum_offset: u32,
    look: fn(&[u8], &Geometry),
}

macro_rules! golden {
    ($($structure:ident $file:literal $sector:literal $checksum:literal $look:expr;)*) => {
        &[$(Golden {
            structure: Structure::$structure,
            bytes: include_bytes!(concat!("../testdata/", $file, ".bin")),
            sector: $sector,
            checksum_offset: $checksum,
            look: $look,
        },)*]
    };
}

const GOLDEN: &[Golden] = golden! {
    FreeSpaceHeader "group/free_space_header" 1 216 look_at_header;
    InodeHeader "group/inode_header" 2 312 |_, _| ();
    FreeList "group/free_list" 3 32 |_, _| ();
    FreeSpaceByBlock "group/free_space_by_block_node" 26 52 look_at_block::<ByBlock>;
    FreeSpaceByBlock "group/free_space_by_block_leaf" 4 52 look_at_block::<ByBlock>;
    FreeSpaceByLength "group/free_space_by_length_node" 30 52 look_at_block::<ByLength>;
    FreeSpaceByLength "group/free_space_by_length_leaf" 6 52 look_at_block::<ByLength>;
    InodeIndex "group/inode_index_node" 986 52 look_at_block::<InodeIndex>;
    InodeIndex "group/inode_index_leaf" 8 52 look_at_chunks;
    FreeInodeIndex "group/free_inode_index_node" 1006 52 look_at_block::<FreeInodeIndex>;
    FreeInodeIndex "group/free_inode_index_leaf" 10 52 look_at_block::<FreeInodeIndex>;
    ReverseMap "group/reverse_map_node" 28466 52 look_at_block::<ReverseMap>;
    ReverseMap "group/reverse_map_leaf" 670 52 look_at_block::<ReverseMap>;
    ReferenceCount "group/reference_count_node" 170 52 look_at_block::<ReferenceCount>;
    ReferenceCount "group/reference_count_leaf" 14 52 look_at_block::<ReferenceCount>;
    ExtentMap "group/extent_map_node" 28474 64 look_at_block::<ExtentMap>;
    ExtentMap "group/extent_map_leaf" 62 64 look_at_block::<ExtentMap>;
    Quota "quota/block" 62 108 look_at_quota;
    QuotaBlock "quota/block" 62 108 look_at_quota;
    RealtimeBitmap "realtime/bitmap" 540784 4 |bytes, _| drop(realtime::block::words(bytes).to_vec());
    RealtimeSummary "realtime/summary" 540776 4 |bytes, _| drop(realtime::block::words(bytes).to_vec());
    RealtimeSuperblock "realtime/group_superblock" 0 4 |_, _| ();
};

/// Goes over everything that a view gives.
fn look_at_block<K: BtreeKind>(bytes: &[u8], geometry: &Geometry) {
    let Ok(block) = BtreeBlock::<K>::parse(bytes) else { return };
    assert!(block.records().len() <= K::max_leaf_records(bytes.len() as u32) as usize);
    assert_eq!(block.keys().len(), block.pointers().len());
    let _ = (block.left_sibling(), block.right_sibling(), block.is_empty());
    for record in block.records() {
        let _ = (K::position_of_record(record), K::verify_record(record, geometry, None));
        let _ = K::position_of_key(&K::key_of_record(record));
    }
    block.keys().iter().for_each(|key| drop(format!("{:?}", K::position_of_key(key))));
}

fn look_at_chunks(bytes: &[u8], geometry: &Geometry) {
    look_at_block::<InodeIndex>(bytes, geometry);
    let Ok(block) = BtreeBlock::<InodeIndex>::parse(bytes) else { return };
    for chunk in block.records().iter().map(|record| record.get(geometry)) {
        assert!(chunk.allocated_inodes().count() <= 64);
        assert_eq!(chunk.allocated() & !chunk.existing(), 0);
    }
}

fn look_at_header(bytes: &[u8], _: &Geometry) {
    let list = FreeList::parse(include_bytes!("../testdata/group/free_list.bin")).unwrap();
    if let Ok(header) = FreeSpaceHeader::parse(bytes) {
        assert!(list.active(header).count() <= list.slots().len());
    }
}

fn look_at_quota(bytes: &[u8], _: &Geometry) {
    for record in quota::records_of(bytes) {
        let _ = (record.record_type(), record.timer_seconds(record.block_timer));
    }
}

/// File systems to which the bytes may be said to belong.
fn geometries() -> Vec<Geometry> {
    let of = |bytes: &[u8]| Geometry::new(Superblock::parse(bytes).unwrap().0);
    let first = of(include_bytes!("../testdata/group/superblock.bin"));
    let mut plain = first.clone();
    plain.features.incompatible.remove(Incompatible::SPARSE_INODES | Incompatible::LARGE_EXTENT_COUNTS);
    plain.features.ro_compatible = RoCompatible::empty();
    let mut large = first.clone();
    (large.block_size_bytes, large.block_log, large.sector_size_bytes) = (4096, 12, 4096);
    let others = [
        of(include_bytes!("../testdata/superblock.bin")),
        of(include_bytes!("../testdata/realtime/superblock.bin")),
    ];
    [first, plain, large].into_iter().chain(others).collect()
}

fn check(golden: &Golden, bytes: &[u8]) {
    for geometry in geometries() {
        for sector in [golden.sector, u64::MAX] {
            let context = VerifyContext::new(&geometry, Sector::new(sector));
            let result: Result<(), Fault> = verify(golden.structure, bytes, &context);
            if let Err(fault) = result {
                drop(fault.to_string());
            }
        }
        (golden.look)(bytes, &geometry);
    }
}

/// Numbers that break things more often than others.
fn number() -> impl Strategy<Value = u32> {
    let special =
        prop::sample::select(vec![0, 1, 2, 63, 64, u32::MAX, u32::MAX - 1, 1 << 31, i32::MAX as u32]);
    prop_oneof![special, 0u32..200_000, any::<u32>()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500.max(ProptestConfig::default().cases), ..ProptestConfig::default() })]

    #[test]
    fn changed_words(
        index in 0..GOLDEN.len(),
        changes in prop::collection::vec((0usize..1024, number()), 1..12),
    ) {
        let golden = &GOLDEN[index];
        let mut bytes = golden.bytes.to_vec();
        for (word, value) in changes {
            let offset = (word * 4) % (bytes.len() - 3);
            bytes[offset..offset + 4].copy_from_slice(&value.to_be_bytes());
        }
        checksum::seal(&mut bytes, golden.checksum_offset);
        check(golden, &bytes);
    }

    #[test]
    fn any_bytes(
        index in 0..GOLDEN.len(),
        bytes in prop::collection::vec(any::<u8>(), 0..5000),
        keep in 0usize..72,
    ) {
        let golden = &GOLDEN[index];
        let mut bytes = bytes;
        let keep = keep.min(bytes.len());
        bytes[..keep].copy_from_slice(&golden.bytes[..keep]);
        checksum::seal(&mut bytes, golden.checksum_offset);
        check(golden, &bytes);
        for geometry in geometries() {
            if let Ok(root) = ExtentMapRoot::parse(&bytes) {
                let _ = root.verify(&geometry, ForkRoom::Data);
            }
        }
    }
}

#[test]
fn the_structures_are_accepted_as_they_are() {
    let geometries = geometries();
    for golden in GOLDEN {
        let accepted = geometries.iter().any(|geometry| {
            let context = VerifyContext::new(geometry, Sector::new(golden.sector));
            verify(golden.structure, golden.bytes, &context).is_ok()
        });
        assert!(accepted, "{:?}: otherwise these tests aren't testing anything", golden.structure);
        check(golden, golden.bytes);
    }
}
