//! A superblock in the log.

use std::fs;

use uxfs_engine::options::MountOptions;
use uxfs_filesystem::recovery;
use uxfs_format::{field_table::OnDisk, superblock::Superblock, units::Sector};
use uxfs_testkit::{image::TestImage, judges::all_present};
use uxfs_volume::error::Error;

use super::{
    JUDGES,
    logs::{buffer, device, read, replay, write},
};

/// With another place of the log its log would not be found again.
#[test]
fn a_superblock_in_the_log_does_not_move_the_log() {
    type Change = fn(&mut Superblock);
    let changes: [(Change, bool); 7] = [
        (|superblock| superblock.log_start.set(superblock.log_start.get() + 8), false),
        (|superblock| superblock.log_start.set(superblock.log_start.get() - 8), false),
        (|superblock| superblock.log_blocks.set(superblock.log_blocks.get() - 8), false),
        (|superblock| superblock.root_inode.set(superblock.root_inode.get() + 1), false),
        (|superblock| superblock.inode_alignment_blocks.set(16), false),
        (|superblock| superblock.log_stripe_unit_bytes.set(65536), false),
        (|superblock| superblock.label = *b"a new label\0", true),
    ];
    for options in [&[][..], &["-m", "rmapbt=0"]] {
        if !all_present(&JUDGES, "superblock-in-log") {
            return;
        }
        for (change, is_allowed) in changes {
            let image = TestImage::new("superblock-in-log", 64, options, 6);
            let mut sector = read(&image.path, Sector::new(0), 512);
            change(Superblock::prefix_of_mut(&mut sector).unwrap());
            write(&image.path, &[vec![buffer(0, 1, 18 << 11, 0, &sector)]]);
            let before = fs::read(&image.path).unwrap();
            let options = MountOptions::default();
            let read = recovery::mount_recovered(&device(&image.path), &options).map(drop);
            assert!(fs::read(&image.path).unwrap() == before);
            let replayed = replay(&image.path).map(drop);
            assert_eq!((read.is_ok(), replayed.is_ok()), (is_allowed, is_allowed), "{replayed:?}");
            if is_allowed {
                image.must_satisfy_repair();
                continue;
            }
            assert!(matches!(replayed, Err(Error::Corrupt(_))), "{replayed:?}");
            assert!(fs::read(&image.path).unwrap() == before);
        }
    }
}
