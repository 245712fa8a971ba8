//! Inodes that share a cluster with one that is changed.

use std::sync::Arc;

use uxfs_block::device::BlockDevice;
use uxfs_engine::{bulk::create::NewKind, options::MountOptions};
use uxfs_filesystem::{filesystem::FileSystem, inode::table::InodeHandle, operations::create::NewFile};
use uxfs_format::{geometry::Geometry, units::InodeNumber};
use uxfs_lab::crash::{geometry::Shape, image::ImageDevice};

use super::images::How;

fn mount(device: &Arc<ImageDevice>, how: How) -> Arc<FileSystem> {
    let options = MountOptions::default();
    match how {
        How::Bulk => Arc::new(FileSystem::mount_bulk(device.clone(), &options).unwrap()),
        How::Logged => FileSystem::mount_logged(device.clone(), &options).unwrap(),
    }
}

fn offset_of(fs: &FileSystem, number: InodeNumber) -> u64 {
    let place = fs.geometry().inode_place(number).unwrap();
    let sector = fs.geometry().sector_of_group_block(place.group, place.block).unwrap();
    Geometry::byte_of_sector(sector) + u64::from(place.offset_bytes)
}

/// An inode with a wrong checksum is not trusted: a change of another inode in its cluster must not seal it.
#[test]
fn a_damaged_inode_stays_damaged_when_its_neighbour_changes() {
    for how in [How::Bulk, How::Logged] {
        let device = Arc::new(ImageDevice::new(Shape::named("default").unwrap().make().unwrap()));
        let fs = mount(&device, how);
        let file = |fs: &FileSystem, name: &[u8]| -> InodeHandle {
            let root = fs.open_root().unwrap();
            fs.create(&root, name, &NewFile::new(NewKind::Regular, 0o600)).unwrap()
        };
        let (damaged, changed) = (file(&fs, b"damaged").number(), file(&fs, b"changed").number());
        let offset_bytes = offset_of(&fs, damaged);
        fs.close().unwrap();
        // The owner is another, and the checksum no longer right.
        device.write(offset_bytes + 8, &[7; 4]).unwrap();

        let fs = mount(&device, how);
        let before = fs.inode_bytes(damaged).unwrap();
        let root = fs.open_root().unwrap();
        let handle = fs.open(changed).unwrap();
        fs.link(&handle, &root, b"again").unwrap();
        drop((handle, root));
        let new = file(&fs, b"new").number();
        fs.close().unwrap();
        let fs = mount(&device, how);
        assert_eq!(fs.inode_bytes(damaged).unwrap(), before, "{how:?}");
        assert!(fs.inode(damaged).is_err(), "{how:?}: it is still refused");
        assert_eq!(fs.inode(changed).unwrap().link_count(), 2, "{how:?}");
        assert!(fs.inode(new).is_ok(), "{how:?}");
    }
}
