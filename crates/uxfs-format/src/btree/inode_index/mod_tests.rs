use super::{InodeIndexFault as F, *};
use crate::{
    btree::{
        block::BtreeBlock,
        check::BtreeFault,
        golden::{self, FREE_INODE_INDEX_LEAF, FREE_INODE_INDEX_NODE, INODE_INDEX_LEAF, INODE_INDEX_NODE},
    },
    fault::Fault,
};

fn chunk(start: u32, hole_mask: u16, count: u32, free_count: u32, free: u64) -> InodeChunk {
    InodeChunk { start: AgInode::new(start), hole_mask, count, free_count, free }
}

#[test]
fn golden_blocks_are_accepted_and_read_as_xfs_db_prints_them() {
    assert_eq!(INODE_INDEX_NODE.verify::<InodeIndex>(), Ok(()));
    assert_eq!(INODE_INDEX_LEAF.verify::<InodeIndex>(), Ok(()));
    assert_eq!(FREE_INODE_INDEX_NODE.verify::<FreeInodeIndex>(), Ok(()));
    assert_eq!(FREE_INODE_INDEX_LEAF.verify::<FreeInodeIndex>(), Ok(()));

    let leaf = BtreeBlock::<InodeIndex>::parse(INODE_INDEX_LEAF.bytes).unwrap();
    let first = leaf.records()[0].get(&golden::geometry());
    assert_eq!(first, chunk(64, 0, 64, 23, 0x5294_a529_4a52_9480));
    let node = BtreeBlock::<InodeIndex>::parse(INODE_INDEX_NODE.bytes).unwrap();
    assert_eq!(node.keys()[1].start.get(), 45184);
    assert_eq!(node.pointers().iter().map(|pointer| pointer.get()).collect::<Vec<_>>(), [4, 489, 497]);
}

#[test]
fn holes_are_neither_free_nor_allocated() {
    let chunk = chunk(64, 0b0110, 56, 2, 0xffff_0ff0 | 0b11);
    assert_eq!(chunk.existing(), !0xff0);
    assert!(chunk.exists(3) && !chunk.exists(4) && !chunk.exists(11) && chunk.exists(12));
    assert!(!chunk.is_allocated(0) && chunk.is_allocated(2) && !chunk.is_allocated(4));
    assert!(!chunk.exists(64) && !chunk.is_allocated(u32::MAX));
    let first: Vec<_> = chunk.allocated_inodes().take(3).map(AgInode::get).collect();
    assert_eq!(first, [66, 67, 76]);
    assert_eq!(chunk.index_of(AgInode::new(127)), Some(63));
    assert_eq!(chunk.index_of(AgInode::new(128)), None);
    assert_eq!(chunk.index_of(AgInode::new(63)), None);
}

#[test]
fn records_without_holes_have_a_wide_free_count() {
    let record = InodeIndexRecord {
        start: U32::new(64),
        hole_mask: U16::new(0),
        count: 0,
        free_count: 61,
        free: U64::new(!7),
    };
    assert_eq!(record.unpack(false), chunk(64, 0, 64, 61, !7));
    assert_eq!(record.unpack(true), chunk(64, 0, 0, 61, !7));
}

#[test]
fn each_check_of_a_record_rejects_its_damage() {
    let first = |record: InodeChunk| {
        let mut bytes = record.start.get().to_be_bytes().to_vec();
        bytes.extend(record.hole_mask.to_be_bytes());
        bytes.extend([record.count as u8, record.free_count as u8]);
        bytes.extend(record.free.to_be_bytes());
        INODE_INDEX_LEAF.patched::<InodeIndex>(56, &bytes)
    };
    let fault = |fault: F| Err(Fault::from(BtreeFault::Record { index: 1, fault: fault.into() }));
    let free = 0x5294_a529_4a52_9480;
    assert_eq!(first(chunk(64, 0, 64, 23, free)), Ok(()));
    assert_eq!(first(chunk(65, 0, 64, 23, free)), fault(F::Alignment { start: AgInode::new(65) }));
    assert_eq!(first(chunk(66, 0, 64, 23, free)), fault(F::Alignment { start: AgInode::new(66) }));
    let (start, last) = (AgInode::new(0), AgInode::new(63));
    assert_eq!(first(chunk(0, 0, 64, 23, free)), fault(F::Place { start, last }));
    assert_eq!(first(chunk(64, 1, 64, 23, free)), fault(F::Count { count: 64, hole_mask: 1 }));
    assert_eq!(first(chunk(64, 0xffff, 0, 0, !0)), fault(F::Count { count: 0, hole_mask: 0xffff }));
    let masked = F::FreeCount { free_count: 24, free, masked: 23 };
    assert_eq!(first(chunk(64, 0, 64, 24, free)), fault(masked));
    let bytes = [0, 0, 0, 64, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let none_free = fault(F::NoneFree { start: AgInode::new(64) });
    assert_eq!(FREE_INODE_INDEX_LEAF.patched::<FreeInodeIndex>(56, &bytes), none_free);
    assert_eq!(INODE_INDEX_LEAF.patched::<InodeIndex>(56, &bytes), Ok(()));
    let order = Err(Fault::from(BtreeFault::RecordOrder { index: 2 }));
    assert_eq!(first(chunk(41088, 0, 64, 23, free)), order);
}

#[test]
fn chunks_are_aligned_where_the_kernel_aligns_them() {
    let mut geometry = golden::geometry();
    let group = Some(AgNumber::new(0));
    let unaligned = chunk(66, 0, 64, 0, 0);
    let fault = F::Alignment { start: AgInode::new(66) };
    assert_eq!(unaligned.verify(&geometry, group), Err(fault));
    geometry.inode_alignment_blocks = 7; // Clusters of 8 KiB are 8 blocks.
    assert_eq!(unaligned.verify(&geometry, group), Ok(()));
    let start = AgInode::new(65);
    assert_eq!(chunk(65, 0, 64, 0, 0).verify(&geometry, group), Err(F::Alignment { start }), "half a block");
}

#[test]
fn holes_may_reach_over_the_end_of_a_group() {
    let mut geometry = golden::geometry();
    geometry.data_blocks -= 16;
    let at_end = 153_600 * 2 - 64;
    let verify = |chunk: InodeChunk| chunk.verify(&geometry, Some(AgNumber::new(1)));
    assert_eq!(verify(chunk(at_end, 0xff00, 32, 0, 0xffff_ffff_0000_0000)), Ok(()));
    let (start, last) = (AgInode::new(at_end), AgInode::new(at_end + 63));
    assert_eq!(verify(chunk(at_end, 0x00ff, 32, 0, 0xffff_ffff)), Err(F::Place { start, last }));
}
