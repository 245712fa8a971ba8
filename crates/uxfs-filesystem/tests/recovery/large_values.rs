//! Values of attributes of the largest size: with their headers they take more than a log item can name.

use std::sync::Arc;

use uxfs_block::device::BlockDevice;
use uxfs_engine::{attribute::SetMode, bulk::create::NewKind, options::MountOptions};
use uxfs_filesystem::mount;
use uxfs_filesystem::{filesystem::FileSystem, operations::create::NewFile, recovery::recover};
use uxfs_lab::crash::{consistency, geometry::Shape, image::ImageDevice, tree::Tree, volume::mount_options};
use uxfs_testkit::{
    judges::Judge,
    mount::{Access, LoopMount},
    require, verdict,
};

#[test]
fn the_largest_values_come_and_go() {
    require!(Judge::XfsRepair, Judge::Kernel);
    for shape in ["default", "block-1k", "plain"] {
        let shape = Shape::named(shape).unwrap();
        let device = Arc::new(ImageDevice::new(shape.make().unwrap()));
        let file_system = FileSystem::mount_logged(device.clone(), &mount_options(4)).unwrap();
        let root = file_system.open_root().unwrap();
        let make =
            |name: &[u8]| file_system.create(&root, name, &NewFile::new(NewKind::Regular, 0o600)).unwrap();
        let (kept, gone, changed) = (make(b"kept"), make(b"gone"), make(b"changed"));
        for (length, name) in [(65536, "a"), (65535, "b"), (61_440, "c"), (4000, "d")] {
            for file in [&kept, &gone, &changed] {
                let name = format!("trusted.{name}");
                file_system.set_xattr(file, name.as_bytes(), &vec![7; length], SetMode::Upsert).unwrap();
            }
        }
        file_system.force().unwrap();
        file_system.set_xattr(&changed, b"trusted.a", &[8; 65536], SetMode::Upsert).unwrap();
        file_system.remove_xattr(&changed, b"trusted.b").unwrap();
        file_system.unlink(&root, b"gone").unwrap();
        drop(gone);
        file_system.inactivate_pending().unwrap();
        file_system.force().unwrap();
        let crashed = Arc::new(ImageDevice::new(device.image()));

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        crashed.image().save(&path).unwrap();
        LoopMount::new(&path, Access::ReadWrite).unwrap().unmount().unwrap();
        verdict::repair_is_silent(&path).unwrap();
        let device: Arc<dyn BlockDevice> = crashed.clone();
        recover(&device, &MountOptions::default(), &mut ()).unwrap().unwrap().write().unwrap();
        crashed.image().save(&path).unwrap();
        verdict::repair_is_silent(&path).unwrap();
        let file_system = mount::open_volume(device, &MountOptions::default()).unwrap();
        let tree = Tree::read(&file_system).unwrap();
        consistency::check(&file_system, &tree).unwrap();
        let lengths = |number: u64| -> Vec<usize> {
            tree.files[&number].facts.attributes.values().map(|value| value.0.len()).collect()
        };
        assert_eq!(lengths(kept.number().get()), [65536, 65535, 61_440, 4000], "{shape}");
        assert_eq!(lengths(changed.number().get()), [65536, 61_440, 4000], "{shape}");
    }
}
