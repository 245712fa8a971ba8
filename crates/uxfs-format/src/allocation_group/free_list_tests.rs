use super::*;
use crate::fault::Fault;
use crate::{
    btree::golden::{FREE_LIST, FREE_SPACE_HEADER},
    fault::Structure,
};

fn patched(offset: usize, value: u32) -> Result<(), Fault> {
    FREE_LIST.patched_as(Structure::FreeList, CHECKSUM_OFFSET_BYTES, offset, &value.to_be_bytes())
}

/// The golden free space header with other numbers for the ring.
fn active(first: u32, last: u32, count: u32) -> Vec<u32> {
    let mut header = *FreeSpaceHeader::parse(FREE_SPACE_HEADER.bytes).unwrap();
    header.free_list_first.set(first);
    header.free_list_last.set(last);
    header.free_list_count.set(count);
    FreeList::parse(FREE_LIST.bytes).unwrap().active(&header).map(|(_, block)| block.get()).collect()
}

#[test]
fn golden_list_is_accepted_and_gives_its_active_slots() {
    assert_eq!(FREE_LIST.verify_as(Structure::FreeList), Ok(()));
    assert_eq!(
        active(30, 43, 14)[..],
        [487, 491, 495, 499, 20542, 20543, 507, 509, 511, 513, 515, 517, 519, 521]
    );
}

#[test]
fn the_ring_wraps_and_may_be_empty_or_full() {
    assert_eq!(active(117, 1, 4), [387, 393, 395, 401]);
    assert_eq!(active(1, 0, 0), [0u32; 0], "as mkfs leaves it before the first block");
    assert_eq!(active(1, 0, 119).len(), 119);
    assert_eq!(active(5, 5, 1), [413]);
    assert_eq!(active(30, 43, 13), [0u32; 0], "numbers that disagree make the list count as empty");
    assert_eq!(active(u32::MAX, 3, 119), [0u32; 0]);
}

#[test]
fn each_check_rejects_its_damage() {
    assert_eq!(patched(0, 0), Err(HeaderFault::BadMagic { found: 0, expected: MAGIC }.into()));
    assert_eq!(patched(4, 7), Err(HeaderFault::WrongOwner { found: 7, expected: 0 }.into()));
    let fault = |block| Err(FreeListFault::Block { slot: 118, block: AgBlock::new(block) }.into());
    assert_eq!(patched(508, 153_599), Ok(()));
    assert_eq!(patched(508, 153_600), fault(153_600));
    assert_eq!(patched(508, u32::MAX), Ok(()));
    assert_eq!(slots(4096), 1015);
}
