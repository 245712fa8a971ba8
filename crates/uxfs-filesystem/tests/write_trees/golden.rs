//! The trees that mkfs and the kernel made satisfy the invariants that the tests here check: the check is right.

use std::sync::Arc;

use uxfs_block::engine::sync::SyncDevice;
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::mount;
use uxfs_format::btree::{
    free_space::{ByBlock, ByLength},
    inode_index::{FreeInodeIndex, InodeIndex},
    reference_count::ReferenceCount,
    reverse_map::ReverseMap,
};
use uxfs_testkit::golden::GoldenImage;

use super::check::check_blocks;

#[test]
fn trees_of_golden_images_keep_the_invariants() {
    let mut highest = [0; 6];
    for image in GoldenImage::all().unwrap() {
        let device = SyncDevice::open_read_only(&image.unpacked().unwrap(), 0).unwrap();
        let options = MountOptions { ignore_dirty_log: true, ..MountOptions::default() };
        let file_system = mount::open_volume(Arc::new(device), &options).unwrap();
        let features = &file_system.geometry().features;
        for group in file_system.geometry().groups() {
            let header = file_system.group(group).free_space_header().unwrap();
            let inodes = file_system.group(group).inode_header().unwrap();
            macro_rules! check {
                ($index:literal, $kind:ty, $root:expr, $levels:expr) => {{
                    let levels = $levels.get();
                    highest[$index] = levels.max(highest[$index]);
                    check_blocks::<$kind>(&file_system, group, $root.get(), levels)
                }};
            }
            let by_block = check!(0, ByBlock, header.by_block_root, header.by_block_levels);
            let by_length = check!(1, ByLength, header.by_length_root, header.by_length_levels);
            let mut blocks = by_block.blocks + by_length.blocks - 2;
            check!(2, InodeIndex, inodes.root, inodes.levels);
            if features.has_free_inode_btree() {
                check!(3, FreeInodeIndex, inodes.free_root, inodes.free_levels);
            }
            if features.has_reverse_map() {
                let owners = check!(4, ReverseMap, header.reverse_map_root, header.reverse_map_levels);
                assert_eq!(owners.blocks, header.reverse_map_blocks.get());
                blocks += owners.blocks - 1;
            }
            if features.has_reflink() {
                let shared =
                    check!(5, ReferenceCount, header.reference_count_root, header.reference_count_levels);
                assert_eq!(shared.blocks, header.reference_count_blocks.get());
            }
            assert_eq!(blocks, header.btree_blocks.get());
        }
    }
    assert!(
        highest.iter().filter(|levels| **levels >= 2).count() >= 5,
        "levels of the trees seen: {highest:?}"
    );
}
