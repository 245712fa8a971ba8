//! Intents to free blocks that damaged free space cannot take: the image can be read and changed all the same.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
};

use uxfs_block::engine::{self, OpenOptions as DeviceOptions};
use uxfs_engine::{
    bulk::create::NewKind,
    options::{LogOptions, MountOptions},
};
use uxfs_filesystem::{file::Touch, operations::create::NewFile, recovery};
use uxfs_format::{
    geometry::Geometry,
    units::{AgBlock, AgNumber},
};
use uxfs_testkit::{image::TestImage, judges::Judge, require};

/// Where an AGF says the block of the root of the btree by block number.
const ROOT_BY_BLOCK_OFFSET_BYTES: u64 = 16;

/// Overwrites the root of the free space btree by block number of each allocation group.
fn zero_free_space(image: &File, geometry: &Geometry) {
    for group in 0..geometry.ag_count {
        let group = AgNumber::new(group);
        let header = Geometry::byte_of_sector(geometry.sector_of_group_header(group, 1).unwrap());
        let mut root = [0; 4];
        image.read_exact_at(&mut root, header + ROOT_BY_BLOCK_OFFSET_BYTES).unwrap();
        let root = AgBlock::new(u32::from_be_bytes(root));
        let root = Geometry::byte_of_sector(geometry.sector_of_group_block(group, root).unwrap());
        image.write_all_at(&vec![0; geometry.block_size()], root).unwrap();
    }
}

#[test]
fn blocks_that_damage_keeps_from_being_freed_do_not_lock_the_image() {
    require!(Judge::Mkfs);
    without_free_space(1, |path, geometry| {
        zero_free_space(&OpenOptions::new().read(true).write(true).open(path).unwrap(), geometry);
    });
}

/// What the journal refuses when it goes on is given up in the overlay.
#[test]
fn free_space_ahead_of_the_log_does_not_lock_the_image() {
    require!(Judge::Mkfs, Judge::XfsDb);
    without_free_space(0, |path, geometry| {
        for group in geometry.groups() {
            let mut db = Judge::XfsDb.command();
            db.args(["-x", "-c", &format!("agf {group}"), "-c", "addr cntroot"]);
            db.args(["-c", "write -d lsn 0x7fffffff00000010"]).arg(path);
            assert!(db.output().unwrap().status.success());
        }
    });
}

/// Removes a file, crashes, damages the free space, and recovers. `given_up_by_readers`: how many intents are given up where the
/// recovered image is only read.
fn without_free_space(given_up_by_readers: usize, damage: impl Fn(&Path, &Geometry)) {
    let image = TestImage::new("free space given up", 64, &[], 3);
    let log = LogOptions { has_background: false, ..LogOptions::default() };
    let file_system = image.mount_logged(log);
    let root = file_system.open_root().unwrap();
    let new = NewFile::new(NewKind::Regular, 0o600);
    for name in [&b"kept"[..], b"removed"] {
        let file = file_system.create(&root, name, &new).unwrap();
        file_system.write(&file, 0, &[7; 100_000], Touch::NOTHING).unwrap();
    }
    drop(root);
    file_system.close().unwrap();
    drop(file_system);

    let file_system = image.mount_logged(log);
    let geometry = file_system.geometry().clone();
    let root = file_system.open_root().unwrap();
    file_system.unlink(&root, b"removed").unwrap();
    file_system.force().unwrap();
    // A crash: the checkpoint holds the intent to free the blocks.
    drop((root, file_system));
    damage(&image.path, &geometry);

    let device =
        engine::open(&image.path, &DeviceOptions { writable: true, ..DeviceOptions::default() }).unwrap();
    let (volume, report) = recovery::mount_recovered(&device, &MountOptions::default()).unwrap();
    assert_eq!(report.unwrap().given_up.free_intents.len(), given_up_by_readers);
    drop(volume);
    let recovered = recovery::recover(&device, &MountOptions::default(), &mut ()).unwrap().unwrap();
    assert_eq!(recovered.write().unwrap().given_up.free_intents.len(), 1);
    drop(device);

    // The log is clean, and an operation that needs no free space works.
    let file_system = image.mount_logged(log);
    let root = file_system.open_root().unwrap();
    let kept = file_system.find(&root, b"kept").unwrap();
    let mut bytes = vec![0; 100_000];
    assert_eq!(file_system.read(&kept, 0, &mut bytes).unwrap(), bytes.len());
    assert!(bytes.iter().all(|byte| *byte == 7));
    file_system.find(&root, b"removed").unwrap_err();
    drop((kept, root));
}
