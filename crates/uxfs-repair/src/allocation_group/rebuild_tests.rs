#![allow(clippy::unwrap_used)]

use uxfs_block::{device::BlockDevice, engine::overlay::OverlayDevice, engine::sync::SyncDevice};
use uxfs_testkit::{image, judges::Judge, require};
use uxfs_volume::volume::{Volume, VolumeOptions};

use super::*;

/// Many chunks side by side are few records of the reverse map, so that far fewer blocks are needed than there are chunks to tell of.
#[test]
fn a_group_with_many_chunks_side_by_side_is_laid_out() {
    require!(Judge::Mkfs);
    let folder = tempfile::tempdir_in(image::memory_folder()).unwrap();
    let path = folder.path().join("image");
    image::make(&path, 16 << 30, &[]).unwrap();
    let device: std::sync::Arc<dyn BlockDevice> =
        std::sync::Arc::new(SyncDevice::open_read_only(&path, 0).unwrap());
    let volume = Volume::open(std::sync::Arc::clone(&device), &VolumeOptions::default()).unwrap();
    let geometry = volume.geometry().clone();
    let stage =
        Stage::new(std::sync::Arc::new(OverlayDevice::new(device)), geometry, std::sync::Arc::default());
    let chunks: Vec<_> = (0..30_000)
        .map(|index| InodeChunk {
            start: AgInode::new(128 + index * 64),
            hole_mask: 0,
            count: 64,
            free_count: 0,
            free: 0,
        })
        .collect();
    let contents = GroupContents { chunks, files: Vec::new(), unlinked: Vec::new() };
    let counts = rebuild(&stage, AgNumber::new(1), contents).unwrap().unwrap();
    assert_eq!(counts.inodes, 30_000 * 64);
}
