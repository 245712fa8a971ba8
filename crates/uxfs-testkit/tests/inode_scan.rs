//! The bulk scan of every golden image finds as many inodes in use as the superblock counts: the kernel's own figures.

use std::{collections::BTreeSet, num::NonZeroUsize, ops::ControlFlow, sync::Arc};

use uxfs_block::engine::sync::SyncDevice;
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::mount;
use uxfs_testkit::golden::GoldenImage;
use uxfs_volume::inode::scan::{ScanEvent, ScanOptions};

#[test]
fn scans_of_golden_images_find_what_the_superblock_counts() {
    let images = GoldenImage::all().unwrap();
    assert!(!images.is_empty());
    for image in images {
        let device = Arc::new(SyncDevice::open_read_only(&image.unpacked().unwrap(), 0).unwrap());
        let file_system = mount::open_volume(device, &MountOptions::default()).unwrap();
        let options = ScanOptions { threads: NonZeroUsize::new(3).unwrap(), helpers: 0 };
        let (summary, numbers) = file_system.scan_inodes(&options, BTreeSet::new, |numbers, event| {
            match event {
                ScanEvent::Inode(inode) => {
                    inode
                        .core
                        .unwrap_or_else(|fault| panic!("{}: inode {}: {fault}", image.name(), inode.number));
                    assert!(numbers.insert(inode.number));
                }
                other => panic!("{}: {other:?}", image.name()),
            }
            ControlFlow::Continue(())
        });
        let superblock = file_system.superblock();
        let counted = superblock.inode_count.get() - superblock.free_inodes.get();
        assert_eq!(summary.inodes, counted, "{}", image.name());
        let numbers: BTreeSet<_> = numbers.into_iter().flatten().collect();
        assert_eq!(numbers.len() as u64, counted, "{}: an inode was seen twice", image.name());
        for number in numbers {
            file_system.inode(number).unwrap();
        }
    }
}
