#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use uxfs_format::{
    btree::extent_map::Extent,
    inode::Timestamp,
    superblock::{Copy, Superblock},
    units::{FileBlock, FsBlock, InodeNumber},
};

use super::*;
use crate::inode::create::NewInode;
use crate::inode::edit::ExtentRoot;
use uxfs_volume::extent_map::ExtentMap;

/// Of a default image: 336 bytes for both forks.
fn geometry() -> Geometry {
    let bytes = include_bytes!("../../../../uxfs-format/testdata/superblock.bin");
    let (superblock, sector) = Superblock::parse(bytes).unwrap();
    superblock.verify(sector, Copy::Primary).unwrap();
    Geometry::new(superblock)
}

/// Without an attribute fork.
fn inode(data: InodeFork) -> EditInode {
    let new = NewInode::new(0o100_644, Timestamp::default());
    let mut inode = EditInode::new(InodeNumber::new(131), 0, &new, &geometry()).unwrap();
    inode.data = data;
    (inode.attribute, inode.attribute_offset_bytes) = (None, 0);
    inode
}

fn extents(count: u64) -> InodeFork {
    let extent = |index: u64| Extent {
        file_block: FileBlock::new(index * 2),
        start: FsBlock::new(1000 + index * 2),
        length_blocks: 1,
        is_unwritten: false,
    };
    InodeFork::Extents(ForkExtents::new(ExtentMap::of((0..count).map(extent)).unwrap(), None))
}

fn tree(entries: u64) -> InodeFork {
    let root = ExtentRoot {
        level: 1,
        keys: (0..entries).collect(),
        pointers: (0..entries).map(FsBlock::new).collect(),
    };
    InodeFork::Extents(ForkExtents::new(ExtentMap::EMPTY, Some(root)))
}

#[test]
fn the_border_lies_where_linux_puts_it() {
    let geometry = geometry();
    let offset = |data, bytes| inode(data).attribute_offset_for(bytes, &geometry);
    // The root directory with one attribute of 25 bytes: room for a root of two entries is left. mkfs does the same.
    assert_eq!(offset(InodeFork::Local(vec![0; 6]), 25), Some(37 * 8));
    assert_eq!(offset(InodeFork::Local(vec![0; 6]), 100), Some(29 * 8));
    assert_eq!(offset(InodeFork::Local(vec![0; 250]), 100), None);
    assert_eq!(offset(InodeFork::empty(), 280), Some(56));
    assert_eq!(offset(InodeFork::empty(), 337), None);
    // Twelve extents stay in the inode; of more, a tree may be made.
    assert_eq!(offset(extents(12), 144), Some(192));
    assert_eq!(offset(extents(12), 145), None);
    assert_eq!(offset(extents(13), 280), Some(56));
    assert_eq!(offset(tree(11), 152), Some(184));
}

#[test]
fn a_fork_that_is_large_enough_stays() {
    let geometry = geometry();
    let mut inode = inode(extents(3));
    (inode.attribute, inode.attribute_offset_bytes) = (Some(InodeFork::empty()), 192);
    assert_eq!(inode.attribute_offset_for(144, &geometry), Some(192));
    assert_eq!(inode.attribute_offset_for(145, &geometry), Some(184));
    assert_eq!(inode.attribute_offset_for(300, &geometry), None);
    inode.data = tree(2);
    assert_eq!(inode.attribute_offset_for(145, &geometry), None);
    inode.data = InodeFork::Device(0);
    inode.attribute_offset_bytes = 8;
    assert_eq!(inode.attribute_offset_for(328, &geometry), Some(8));
    assert_eq!(inode.attribute_offset_for(329, &geometry), None);
}

proptest! {
    #[test]
    fn both_forks_have_room(data in 0..400usize, count in 0..30u64, bytes in 0..400u32, current in 0..41u32) {
        let geometry = geometry();
        for fork in [InodeFork::Local(vec![0; data.min(300)]), extents(count.min(21)), tree(count.clamp(1, 20))] {
            let mut inode = inode(fork);
            if current * 8 >= inode.data.used_bytes().max(8) {
                (inode.attribute, inode.attribute_offset_bytes) = (Some(InodeFork::empty()), current * 8);
            }
            if let Some(offset) = inode.attribute_offset_for(bytes, &geometry) {
                prop_assert!(offset % 8 == 0 && offset > 0);
                prop_assert!(bytes <= 336 - offset);
                let may_become_tree = matches!(&inode.data, InodeFork::Extents(fork) if fork.root.is_none());
                prop_assert!(inode.data.used_bytes() <= offset || may_become_tree && offset >= MIN_DATA_ROOT_BYTES);
            }
        }
    }
}
