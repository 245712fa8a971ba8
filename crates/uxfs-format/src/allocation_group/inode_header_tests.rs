use super::{InodeHeaderFault as F, *};
use crate::btree::golden::INODE_HEADER;
use crate::fault::Fault;

fn patched(offset: usize, value: u32) -> Result<(), Fault> {
    INODE_HEADER.patched_as(Structure::InodeHeader, CHECKSUM_OFFSET_BYTES, offset, &value.to_be_bytes())
}

#[test]
fn golden_header_is_accepted_and_reads_as_xfs_db_prints_it() {
    assert_eq!(INODE_HEADER.verify_as(Structure::InodeHeader), Ok(()));
    let header = InodeHeader::parse(INODE_HEADER.bytes).unwrap();
    assert_eq!((header.count.get(), header.free_count.get()), (10048, 4032));
    assert_eq!((header.free_root.get(), header.free_blocks.get()), (503, 4));
    assert!(header.unlinked.iter().all(|head| AgInode::new(head.get()).is_null()));
}

#[test]
fn each_check_rejects_its_damage() {
    assert_eq!(patched(0, 0), Err(HeaderFault::BadMagic { found: 0, expected: MAGIC }.into()));
    assert_eq!(patched(4, 2), Err(F::Version { version: 2 }.into()));
    assert_eq!(patched(8, 1), Err(HeaderFault::WrongOwner { found: 1, expected: 0 }.into()));
    assert_eq!(patched(12, 9), Err(F::Length { length_blocks: 9, expected_blocks: 153_600 }.into()));
    assert_eq!(patched(16, 307_201), Err(F::Count { count: 307_201, capacity: 307_200 }.into()));
    assert_eq!(patched(28, 10049), Err(F::FreeCount { free_count: 10049, count: 10048 }.into()));
    use Structure as S;
    for (root, levels, tree, max_levels) in [(20, 24, S::InodeIndex, 3), (328, 332, S::FreeInodeIndex, 3)] {
        let block = AgBlock::new(0);
        assert_eq!(patched(root, 0), Err(F::Tree(TreeRootFault::Block { tree, block }).into()));
        assert_eq!(
            patched(levels, 0),
            Err(F::Tree(TreeRootFault::Levels { tree, levels: 0, max_levels }).into())
        );
        let too_high = F::Tree(TreeRootFault::Levels { tree, levels: max_levels + 1, max_levels });
        assert_eq!(patched(levels, max_levels + 1), Err(too_high.into()));
    }
    for (offset, tree) in [(336, S::InodeIndex), (340, S::FreeInodeIndex)] {
        let fault = F::TreeBlocks { tree, count: 153_601, length_blocks: 153_600 };
        assert_eq!(patched(offset, 153_601), Err(fault.into()));
    }
}

#[test]
fn unlinked_lists_hold_inodes_of_their_own_bucket() {
    assert_eq!(patched(40 + 4 * 3, 67), Ok(()));
    for (bucket, inode) in [(3u32, 68u32), (0, 0), (63, 0x3fff_ffff)] {
        let fault = F::Unlinked { bucket, inode: AgInode::new(inode) };
        assert_eq!(patched(40 + 4 * bucket as usize, inode), Err(fault.into()));
    }
}
