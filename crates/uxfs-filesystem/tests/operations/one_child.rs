//! The last node of a level never has one child only: `xfs_repair` would take such a tree away.

use std::sync::Arc;

use uxfs_engine::{attribute::SetMode, bulk::create::NewKind};
use uxfs_filesystem::{filesystem::FileSystem, operations::create::NewFile};
use uxfs_format::directory::name_hash;
use uxfs_lab::crash::{geometry::Shape, image::ImageDevice, volume::mount_options};
use uxfs_testkit::{judges::Judge, require, verdict::repair_is_silent};

/// So many of each long name fill a few nodes of 120 children.
const NAMES: u64 = 600;

#[test]
fn the_last_node_has_two_children() {
    require!(Judge::XfsRepair);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    // Two seeds with which the last node loses its children beside one that stays full.
    for (seed, least) in [(2, 300), (3, 295)] {
        let device = Arc::new(ImageDevice::new(Shape::named("block-1k").unwrap().make().unwrap()));
        let mount = || FileSystem::mount_logged(device.clone(), &mount_options(8)).unwrap();
        let file_system = mount();
        let root = file_system.open_root().unwrap();
        let file = file_system.create(&root, b"file", &NewFile::new(NewKind::Regular, 0o600)).unwrap();
        let mut names: Vec<(u32, String)> = (0..NAMES)
            .map(|number| format!("{:0>200}", (number * 7919 + seed * 104_729) % 1_000_003))
            .map(|name| (name_hash::hash(name.as_bytes()), name))
            .collect();
        for (_, name) in &names {
            let name = format!("trusted.{name}");
            file_system.set_xattr(&file, name.as_bytes(), &[1; 20], SetMode::Upsert).unwrap();
        }
        names.sort();
        drop((file, root));
        file_system.close().unwrap();
        drop(file_system);
        while names.len() > least {
            let file_system = mount();
            let root = file_system.open_root().unwrap();
            let file = file_system.find(&root, b"file").unwrap();
            // The highest hashes go first, several at once while there are many.
            let count = if names.len() > least + 40 { 5 } else { 1 };
            for (_, name) in names.split_off(names.len() - count) {
                file_system.remove_xattr(&file, format!("trusted.{name}").as_bytes()).unwrap();
            }
            drop((file, root));
            file_system.close().unwrap();
            if count == 1 {
                device.image().save(&path).unwrap();
                repair_is_silent(&path).unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
            }
        }
    }
}
