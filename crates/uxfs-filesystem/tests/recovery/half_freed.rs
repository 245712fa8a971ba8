//! Inodes without names whose attributes somebody was freeing.

use std::sync::Arc;

use uxfs_block::device::BlockDevice;
use uxfs_engine::{attribute::SetMode, bulk::create::NewKind, options::MountOptions};
use uxfs_filesystem::mount;
use uxfs_filesystem::{filesystem::FileSystem, operations::create::NewFile, recovery::recover};
use uxfs_lab::crash::{consistency, geometry::Shape, image::ImageDevice, tree::Tree, volume::mount_options};
use uxfs_testkit::{judges::Judge, require, verdict};
use uxfs_volume::inode::Fork;

/// Linux frees an attribute fork from its end, and the root last: after a crash in between, the root leads to blocks that are
/// free or in use elsewhere. Recovery frees the inode all the same. (Linux leaves it on the unlinked list.)
#[test]
fn attributes_that_lead_nowhere_are_freed() {
    require!(Judge::XfsRepair);
    for shape in ["default", "plain", "block-1k"] {
        let shape = Shape::named(shape).unwrap();
        let device = Arc::new(ImageDevice::new(shape.make().unwrap()));
        let file_system = FileSystem::mount_logged(device.clone(), &mount_options(4)).unwrap();
        let root = file_system.open_root().unwrap();
        let file = file_system.create(&root, b"file", &NewFile::new(NewKind::Regular, 0o600)).unwrap();
        for number in 0..400 {
            let name = format!("trusted.attribute-{number}");
            let value = vec![1; if number % 50 == 0 { 9000 } else { 80 }];
            file_system.set_xattr(&file, name.as_bytes(), &value, SetMode::Upsert).unwrap();
        }
        file_system.unlink(&root, b"file").unwrap();
        file_system.force().unwrap();
        file_system.push_active_items(true).unwrap();
        let geometry = file_system.geometry();
        let extents = file.read().extents(Fork::Attribute).to_vec();
        assert!(extents.iter().map(|extent| extent.length_blocks).sum::<u64>() > 10);
        // All but the root.
        for extent in extents {
            for block in u64::from(extent.file_block.get() == 0)..extent.length_blocks {
                let sector = geometry.sector_of_block(extent.start.checked_add(block).unwrap()).unwrap();
                device.write(sector.get() * 512, &vec![0x55; geometry.block_size()]).unwrap();
            }
        }
        // Something younger, so that the log begins behind all this.
        for name in [b"a", b"b"] {
            file_system.create(&root, name, &NewFile::new(NewKind::Regular, 0o600)).unwrap();
            file_system.force().unwrap();
            file_system.push_active_items(true).unwrap();
        }
        let crashed = Arc::new(ImageDevice::new(device.image()));
        drop((file, root));

        let device: Arc<dyn BlockDevice> = crashed.clone();
        let recovered = recover(&device, &MountOptions::default(), &mut ()).unwrap().unwrap();
        assert_eq!(recovered.report().freed_inodes, 1, "{shape}");
        let report = recovered.write().unwrap();
        assert_eq!(report.freed_inodes, 1, "{shape}");
        let file_system = mount::open_volume(device, &MountOptions::default()).unwrap();
        let tree = Tree::read(&file_system).unwrap();
        consistency::check(&file_system, &tree).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        crashed.image().save(&path).unwrap();
        verdict::repair_is_silent(&path).unwrap();
    }
}
