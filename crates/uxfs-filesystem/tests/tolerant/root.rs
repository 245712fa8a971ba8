//! The root directory of images whose superblock does not name it.

use uxfs_format::geometry::Geometry;
use uxfs_testkit::{golden::GoldenImage, judges::Judge, require};
use uxfs_volume::{
    tolerant::root::computed_roots,
    volume::{Volume, VolumeOptions},
};

use super::{damaged_image::DamagedImage, findings};

/// 128 is the root directory, 131 another directory, and 131203 a file.
const ROOT: u64 = 128;

fn root_of(volume: &Volume) -> u64 {
    volume.resolve(b"/directories/block", false).unwrap();
    volume.root().unwrap().number.get()
}

fn image_with_roots(roots: &[(u32, &str)]) -> DamagedImage {
    let image = DamagedImage::golden("default");
    for (group, root) in roots {
        let written = image.db(&[&format!("sb {group}"), &format!("write -d rootino {root}")]);
        assert!(written.contains("rootino"), "{written}");
    }
    image
}

#[test]
fn superblocks_that_agree_with_each_other_name_the_root_directory() {
    require!(Judge::XfsDb);
    for wrong in ["0", "131", "131203", "250", "99999999999"] {
        let volume = image_with_roots(&[(0, wrong)]).tolerant();
        assert_eq!(root_of(&volume), ROOT, "{wrong}");
        let words = findings(&volume).join("\n");
        assert!(words.contains("inode 128 is taken for it: another superblock names it"), "{wrong}: {words}");
    }
}

#[test]
fn the_place_where_mkfs_puts_the_root_directory_is_tried() {
    require!(Judge::XfsDb);
    for wrong in ["0", "131", "131203", "250"] {
        let volume = image_with_roots(&[(0, wrong), (1, wrong), (2, wrong), (3, wrong)]).tolerant();
        assert_eq!(root_of(&volume), ROOT, "{wrong}");
        let words = findings(&volume).join("\n");
        assert!(words.contains("inode 128 is taken for it: it lies where mkfs.xfs puts"), "{wrong}: {words}");
    }
}

#[test]
fn a_directory_that_is_not_its_own_parent_is_not_taken() {
    require!(Judge::XfsDb);
    // The root directory names another parent, so that nothing proves it; the superblock is believed.
    let image = image_with_roots(&[]);
    let printed = image.db(&["inode 128", "print u3.sfdir3.hdr.parent.i4", "print core.format"]);
    let field = if printed.contains("parent.i4") {
        vec!["inode 128", "write -d u3.sfdir3.hdr.parent.i4 131"]
    } else {
        vec!["inode 128", "dblock 0", "write -d bu[1].inumber 131"]
    };
    image.db(&field);
    let volume = image.tolerant();
    assert_eq!(volume.superblock().root_inode.get(), ROOT, "{printed}");
    assert!(findings(&volume).is_empty());
    // Named by no superblock it is not guessed.
    for group in 0..4 {
        image.db(&[&format!("sb {group}"), "write -d rootino 0"]);
    }
    assert!(image.tolerant().root().is_err());
}

#[test]
fn mkfs_puts_the_root_directory_where_it_is_computed_on_every_golden_image() {
    for golden in GoldenImage::all().unwrap() {
        let device =
            uxfs_block::engine::sync::SyncDevice::open_read_only(&golden.unpacked().unwrap(), 0).unwrap();
        let volume = Volume::open(std::sync::Arc::new(device), &VolumeOptions::default()).unwrap();
        let superblock = volume.superblock();
        let [with_stripe, _] = computed_roots(superblock, &Geometry::new(superblock));
        assert_eq!(with_stripe.get(), superblock.root_inode.get(), "{}", golden.name());
    }
}
