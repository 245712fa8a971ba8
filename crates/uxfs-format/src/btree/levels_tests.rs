use super::*;
use crate::superblock::{Copy, Superblock};

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
fn extent_maps_of_a_default_file_system() {
    // The numbers from which mkfs computes the least log of a default image.
    let geometry = geometry(65536, 16);
    assert_eq!(of_extent_map(&geometry, ForkRoom::Data), 7);
    assert_eq!(of_extent_map(&geometry, ForkRoom::Attribute), 5);
}

#[test]
fn the_highest_trees_of_the_smallest_blocks_fit_the_bound_for_cursors() {
    let mut geometry = geometry(1 << 30, 30);
    geometry.block_size_bytes = 1024;
    assert!(of_extent_map(&geometry, ForkRoom::Data) <= MAX_LEVELS);
}
