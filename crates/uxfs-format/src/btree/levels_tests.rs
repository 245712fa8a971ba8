use super::*;
use crate::{
    btree::{
        free_space::ByBlock, inode_index::InodeIndex, reference_count::ReferenceCount,
        reverse_map::ReverseMap,
    },
    superblock::{Copy, Superblock},
};

/// A 512 MiB image of mkfs.xfs 7.2.0; group sizes are replaced below.
fn geometry(ag_blocks: u32, ag_block_log: u32) -> Geometry {
    let bytes = include_bytes!("../../testdata/superblock.bin");
    let (superblock, sector) = Superblock::parse(bytes).unwrap();
    superblock.verify(sector, Copy::Primary).unwrap();
    let mut geometry = Geometry::new(superblock);
    (geometry.ag_blocks, geometry.ag_block_log) = (ag_blocks, ag_block_log);
    geometry
}

#[test]
fn heights_of_a_default_file_system_of_1_gib() {
    // The numbers from which mkfs computes the least log of a default image.
    let geometry = geometry(65536, 16);
    assert_eq!(ByBlock::max_levels(&geometry), 2);
    assert_eq!(ReverseMap::max_levels(&geometry), 4);
    assert_eq!(ReferenceCount::max_levels(&geometry), 3);
    assert_eq!(InodeIndex::max_levels(&geometry), 2);
    assert_eq!(of_extent_map(&geometry, ForkRoom::Data), 7);
    assert_eq!(of_extent_map(&geometry, ForkRoom::Attribute), 5);
}

#[test]
fn the_highest_trees_of_the_smallest_blocks_fit_the_bound_for_cursors() {
    let mut geometry = geometry(1 << 30, 30);
    geometry.block_size_bytes = 1024;
    geometry.inodes_per_block_log = 1;
    for levels in [
        ByBlock::max_levels(&geometry),
        ReverseMap::max_levels(&geometry),
        ReferenceCount::max_levels(&geometry),
        InodeIndex::max_levels(&geometry),
        of_extent_map(&geometry, ForkRoom::Data),
        of_extent_map(&geometry, ForkRoom::Attribute),
    ] {
        assert!(levels <= MAX_LEVELS, "{levels}");
    }
}

#[test]
fn trees_of_blocks_grow_by_a_level_when_the_one_below_is_full() {
    let geometry = geometry(65536, 16);
    // Nodes hold at least 45 entries at 4 KiB, the root at least two.
    let levels = |blocks| for_blocks::<ReverseMap>(&geometry, blocks);
    assert_eq!((levels(0), levels(1), levels(3), levels(4)), (0, 1, 1, 2));
    assert_eq!((levels(93), levels(94)), (2, 3));
}

#[test]
fn heights_with_blocks_of_1_kib() {
    // mkfs.xfs 7.2 computes the log that atomic writes of 64 MiB need, 204932 blocks, from these two.
    let mut geometry = geometry(262_144, 18);
    geometry.block_size_bytes = 1024;
    assert_eq!(ByBlock::max_levels(&geometry), 4);
    assert_eq!(ReverseMap::max_levels(&geometry), 6);
}
