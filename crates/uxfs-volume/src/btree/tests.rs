use std::sync::Arc;

use uxfs_block::engine::sync::SyncDevice;
use uxfs_format::{
    btree::check::BtreeFault,
    fault::Fault,
    units::{AgBlock, AgNumber},
};
use uxfs_testkit::golden::GoldenImage;

use crate::{
    error::Error,
    volume::{Volume, VolumeOptions},
};

/// Group 1 of this image has trees of two levels.
fn volume() -> Volume {
    let image = GoldenImage::named("block-1k").unwrap().unpacked().unwrap();
    let device = Arc::new(SyncDevice::open_read_only(&image, 0).unwrap());
    Volume::open(device, &VolumeOptions::default()).unwrap()
}

#[test]
fn a_walk_over_more_blocks_than_there_are_ends() {
    let volume = volume();
    let tree = volume.group(AgNumber::new(1)).free_space_by_block().unwrap();
    let mut cursor = tree.cursor();
    assert!(cursor.first().unwrap().is_some());
    cursor.path.blocks_left = 0;
    let budget = tree.most_blocks();
    match cursor.next_leaf() {
        Err(Error::Corrupt(corruption)) => {
            assert_eq!(corruption.fault, Fault::from(BtreeFault::TooManyBlocks { budget }));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(cursor.record(), None, "nowhere after an error");
    assert!(cursor.next().unwrap().is_none());
}

#[test]
fn lookups_between_before_and_behind_all_records() {
    let volume = volume();
    let tree = volume.group(AgNumber::new(1)).free_space_by_block().unwrap();
    let extents: Vec<_> = tree.records().map(|record| record.unwrap().get()).collect();
    let mut cursor = tree.cursor();
    let mut lookup = |block: u32| {
        let block = AgBlock::new(block);
        let before = cursor.at_or_before(block).unwrap().map(|record| record.get());
        let after = cursor.at_or_after(block).unwrap().map(|record| record.get());
        (before, after)
    };
    let (first, last) = (extents[0], *extents.last().unwrap());
    assert_eq!(lookup(0), (None, Some(first)));
    assert_eq!(lookup(u32::MAX), (Some(last), None));
    // Free extents do not touch, so the block behind one lies between two.
    for pair in extents.windows(2) {
        assert_eq!(lookup(pair[0].end().get()), (Some(pair[0]), Some(pair[1])));
    }
}
