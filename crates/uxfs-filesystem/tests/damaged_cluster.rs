//! New files beside an inode cluster that fails its verifier: they get other inodes, and nothing is shut down.

use std::{
    fs::{self, File},
    ops::Range,
    os::unix::fs::FileExt,
};

use uxfs_engine::{bulk::create::NewKind, options::LogOptions};
use uxfs_filesystem::operations::create::NewFile;
use uxfs_format::{
    checksum,
    geometry::Geometry,
    inode::core::CHECKSUM_OFFSET_BYTES,
    units::{AgInode, InodeNumber},
};
use uxfs_testkit::{
    image::TestImage,
    judges::{Judge, judged},
    require,
};

/// Of the next unlinked inode in an inode.
const NEXT_UNLINKED_BYTES: usize = 96;
/// No inode can have this number in its group.
const IMPOSSIBLE: u32 = 0xffff_bfff;
const FILES: usize = 300;

/// Where an inode lies in the image.
fn bytes_of(geometry: &Geometry, number: InodeNumber) -> Range<usize> {
    let place = geometry.inode_place(number).unwrap();
    let sector = geometry.sector_of_group_block(place.group, place.block).unwrap();
    let start = Geometry::byte_of_sector(sector) as usize + place.offset_bytes as usize;
    start..start + geometry.inode_size()
}

/// Sets the next unlinked inode of an inode, with a right checksum.
fn set_next_unlinked(image: &TestImage, bytes: Range<usize>, next: u32) {
    let file = File::options().read(true).write(true).open(&image.path).unwrap();
    let mut inode = vec![0; bytes.len()];
    file.read_exact_at(&mut inode, bytes.start as u64).unwrap();
    inode[NEXT_UNLINKED_BYTES..][..4].copy_from_slice(&next.to_be_bytes());
    checksum::seal(&mut inode, CHECKSUM_OFFSET_BYTES);
    file.write_all_at(&inode, bytes.start as u64).unwrap();
}

#[test]
fn files_are_made_beside_a_damaged_cluster() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("damaged cluster", 320, &[], 0);
    let (root_number, number, bytes) = {
        let volume = image.mount();
        let geometry = volume.geometry();
        let (group, root) = geometry.split_inode_number(geometry.root_inode).unwrap();
        let number = geometry.inode_number(group, AgInode::new(root.get() + 63));
        (geometry.root_inode, number, bytes_of(geometry, number))
    };
    set_next_unlinked(&image, bytes.clone(), IMPOSSIBLE);
    let before = fs::read(&image.path).unwrap();
    let file_system = image.mount_logged(LogOptions::default());
    let root = file_system.open_root().unwrap();
    for index in 0..FILES {
        let new = NewFile::new(NewKind::Regular, 0o600);
        let made = file_system.create(&root, format!("file-{index}").as_bytes(), &new).unwrap();
        assert!(made.number() != number, "an inode that cannot be stored");
    }
    assert!(file_system.journal().unwrap().check().is_ok());
    drop(root);
    file_system.close().unwrap();
    drop(file_system);
    // The damage is what it was, and there is no other.
    assert_eq!(fs::read(&image.path).unwrap()[bytes.clone()], before[bytes.clone()]);
    set_next_unlinked(&image, bytes, u32::MAX);
    image.must_be_sound();
    let volume = image.mount();
    let root = volume.inode(root_number).unwrap();
    assert!(volume.lookup(&root, b"file-299").unwrap().is_some());
    judged("xfs_repair", "files beside a damaged inode cluster");
}
