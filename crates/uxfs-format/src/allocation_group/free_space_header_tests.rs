use super::{FreeSpaceHeaderFault as F, *};
use crate::fault::Fault;
use crate::{btree::golden::FREE_SPACE_HEADER, units::AgBlock};

fn patched(offset: usize, value: u32) -> Result<(), Fault> {
    let structure = Structure::FreeSpaceHeader;
    FREE_SPACE_HEADER.patched_as(structure, CHECKSUM_OFFSET_BYTES, offset, &value.to_be_bytes())
}

#[test]
fn golden_header_is_accepted_and_reads_as_xfs_db_prints_it() {
    assert_eq!(FREE_SPACE_HEADER.verify_as(Structure::FreeSpaceHeader), Ok(()));
    let header = FreeSpaceHeader::parse(FREE_SPACE_HEADER.bytes).unwrap();
    assert_eq!((header.free_blocks.get(), header.longest_blocks.get()), (144_213, 127_616));
    assert_eq!((header.reverse_map_root.get(), header.reverse_map_levels.get()), (14233, 3));
    assert_eq!((header.reference_count_root.get(), header.reference_count_blocks.get()), (85, 39));
}

#[test]
fn common_checks_reject_their_damage() {
    let magic = HeaderFault::BadMagic { found: 0, expected: MAGIC };
    assert_eq!(patched(0, 0), Err(magic.into()));
    assert_eq!(patched(8, 1), Err(HeaderFault::WrongOwner { found: 1, expected: 0 }.into()));
    assert!(matches!(patched(64, 0), Err(Fault::Header(HeaderFault::WrongUuid { .. }))));
}

#[test]
fn each_check_rejects_its_damage() {
    assert_eq!(patched(4, 2), Err(F::Version { version: 2 }.into()));
    let length = F::Length { length_blocks: 153_599, expected_blocks: 153_600 };
    assert_eq!(patched(12, 153_599), Err(length.into()));
    let slots = |first, last, count| Err(F::FreeListSlots { first, last, count, slots: 119 }.into());
    assert_eq!(patched(40, 119), slots(119, 43, 14));
    assert_eq!(patched(44, 119), slots(30, 119, 14));
    assert_eq!(patched(48, 120), slots(30, 43, 120));
    let free = F::FreeBlocks { free_blocks: 153_601, length_blocks: 153_600 };
    assert_eq!(patched(52, 153_601), Err(free.into()));
    let longest = F::Longest { longest_blocks: 144_214, free_blocks: 144_213 };
    assert_eq!(patched(56, 144_214), Err(longest.into()));
    use Structure as S;
    for (root, levels, tree, max_levels) in [
        (16, 28, S::FreeSpaceByBlock, 3),
        (20, 32, S::FreeSpaceByLength, 3),
        (24, 36, S::ReverseMap, 6),
        (88, 92, S::ReferenceCount, 4),
    ] {
        let block = AgBlock::new(1);
        assert_eq!(
            patched(root, 1),
            Err(F::Tree(TreeRootFault::Block { tree, block }).into()),
            "a header block"
        );
        let block = AgBlock::new(153_600);
        assert_eq!(patched(root, 153_600), Err(F::Tree(TreeRootFault::Block { tree, block }).into()));
        assert_eq!(
            patched(levels, 0),
            Err(F::Tree(TreeRootFault::Levels { tree, levels: 0, max_levels }).into())
        );
        let too_high = F::Tree(TreeRootFault::Levels { tree, levels: max_levels + 1, max_levels });
        assert_eq!(patched(levels, max_levels + 1), Err(too_high.into()));
    }
    for (offset, tree) in [(60, S::FreeSpaceByBlock), (80, S::ReverseMap), (84, S::ReferenceCount)] {
        let fault = F::TreeBlocks { tree, count: 153_601, length_blocks: 153_600 };
        assert_eq!(patched(offset, 153_601), Err(fault.into()));
    }
}
