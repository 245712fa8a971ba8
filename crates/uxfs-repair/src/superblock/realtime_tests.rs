use uxfs_format::field_table::OnDisk;
use zerocopy::FromZeros;

use super::*;

fn superblock(blocks: u64, extent_blocks: u32, counts: (u64, u8, u32)) -> Superblock {
    let mut superblock = Superblock::new_zeroed();
    superblock.block_size_bytes.set(4096);
    superblock.realtime_blocks.set(blocks);
    superblock.realtime_extent_size_blocks.set(extent_blocks);
    superblock.realtime_extents.set(counts.0);
    superblock.realtime_extents_log = counts.1;
    superblock.realtime_bitmap_blocks.set(counts.2);
    superblock
}

/// As mkfs.xfs 7.2 makes them.
#[test]
fn sound_counts_are_left_alone() {
    for sound in [
        superblock(0, 1, (0, 0, 0)),
        superblock(0, 262_144, (0, 0, 0)),
        superblock(16_384, 1, (16_384, 14, 1)),
        superblock(16_384, 7, (2340, 11, 1)),
    ] {
        let mut made = sound;
        make_fit(&mut made);
        assert_eq!((unfit(&sound), made.disk_bytes()), (None, sound.disk_bytes()));
    }
}

#[test]
fn counts_follow_from_each_other() {
    for (wrong, right) in [
        (superblock(1, 1, (0, 0, 0)), superblock(0, 1, (0, 0, 0))),
        (superblock(0, 0, (0, 0, 0)), superblock(0, 1, (0, 0, 0))),
        (superblock(0, u32::MAX, (0, 0, 0)), superblock(0, 1, (0, 0, 0))),
        (superblock(0, 1, (5, 0, 0)), superblock(0, 1, (0, 0, 0))),
        (superblock(16_384, 7, (2340, 12, 1)), superblock(16_384, 7, (2340, 11, 1))),
        (superblock(16_384, 7, (0, 11, 1)), superblock(16_384, 7, (2340, 11, 1))),
        (superblock(16_384, 0, (2340, 11, 1)), superblock(16_384, 7, (2340, 11, 1))),
        (superblock(3, 7, (2340, 11, 1)), superblock(0, 7, (0, 0, 0))),
    ] {
        assert_ne!(unfit(&wrong), None);
        let mut made = wrong;
        make_fit(&mut made);
        assert_eq!((unfit(&made), made.disk_bytes()), (None, right.disk_bytes()));
    }
}
