//! Single bits that lie with right checksums: of extents, that they were never written; of attributes, that they are parent pointers.

use std::{path::Path, sync::Arc};

use tempfile::TempDir;
use uxfs_block::engine::{OpenOptions, sync::SyncDevice};
use uxfs_engine::{attribute::SetMode, bulk::create::NewKind, options::MountOptions};
use uxfs_filesystem::{
    file::{Touch, space::SizeChange},
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::create::NewFile,
};
use uxfs_format::{
    inode::Fork,
    units::{FileBlock, InodeNumber},
};
use uxfs_repair::repair::{Staged, action::Action};
use uxfs_testkit::{
    golden::GoldenImage,
    image::memory_folder,
    judges::Judge,
    require,
    sparse::Contents,
    verdict::{repair_findings, repair_is_silent},
};
use uxfs_volume::volume::{Volume, VolumeOptions};

use crate::common;
use crate::common::{findings_of, plant, repair_image, repair_image_without_log, stage, write_staged};

/// The golden image `default` with one more file, which `fill` fills.
fn with_file(fill: impl FnOnce(&FileSystem, &InodeHandle)) -> (TempDir, std::path::PathBuf, InodeNumber) {
    with_file_in("default", fill)
}

fn with_file_in(
    golden: &str,
    fill: impl FnOnce(&FileSystem, &InodeHandle),
) -> (TempDir, std::path::PathBuf, InodeNumber) {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    GoldenImage::lean(golden).unwrap().unpack_to(&image).unwrap();
    let options = OpenOptions { writable: true, ..OpenOptions::default() };
    let device = Arc::new(SyncDevice::open(&image, &options).unwrap());
    let file_system = FileSystem::mount_logged(device, &MountOptions::default()).unwrap();
    let root = file_system.open_root().unwrap();
    let file = file_system.create(&root, b"marked", &NewFile::new(NewKind::Regular, 0o644)).unwrap();
    fill(&file_system, &file);
    let number = file.number();
    drop((root, file));
    file_system.close().unwrap();
    (folder, image, number)
}

fn contents_of(image: &Path, inode: InodeNumber) -> Vec<u8> {
    let device = Arc::new(SyncDevice::open_read_only(image, 0).unwrap());
    let volume = Volume::open(device, &VolumeOptions::default()).unwrap();
    let inode = volume.inode(inode).unwrap();
    let mut bytes = vec![0; usize::try_from(inode.size_bytes()).unwrap()];
    let count = volume.read_file(&inode, 0, &mut bytes).unwrap();
    assert_eq!(count, bytes.len());
    bytes
}

fn is_written(staged: &Staged) -> bool {
    staged.actions.iter().any(|action| matches!(action, Action::ExtentsWritten { .. }))
}

/// With the copies of the log and without.
fn repair_both(image: &Path, changes: &[&str], check: impl Fn(&Staged)) {
    let sound = Contents::read(image).unwrap();
    for with_log in [true, false] {
        sound.write(image).unwrap();
        plant(image, changes);
        let staged = if with_log { repair_image(image) } else { repair_image_without_log(image) };
        assert!(staged.remaining.is_empty(), "{:#?}", staged.remaining);
        check(&staged);
        repair_is_silent(image).unwrap();
    }
}

#[test]
fn data_behind_many_zeros_was_written() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let mut bytes = vec![0; 3 << 20];
    bytes[2 << 20..].fill(0x5a);
    let (_folder, image, inode) = with_file(|file_system, file| {
        assert_eq!(file_system.write(file, 0, &bytes, Touch::NOTHING).unwrap(), bytes.len());
    });
    let changes = [&format!("inode {inode}"), "write -d u3.bmx[0].extentflag 1"];
    repair_both(&image, &changes, |staged| {
        assert!(is_written(staged), "{:#?}", staged.actions);
        assert!(contents_of(&image, inode) == bytes);
    });
}

#[test]
fn an_extent_is_split_where_a_part_was_written() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let bytes = vec![0x5a; 40 << 10];
    let (_folder, image, inode) = with_file(|file_system, file| {
        file_system.allocate_range(file, 0, 80 << 10, SizeChange::Keep, Touch::NOTHING).unwrap();
        assert_eq!(file_system.write(file, 0, &bytes, Touch::NOTHING).unwrap(), bytes.len());
        let extents = file_system.mappings(file, 0, 80 << 10, 10).unwrap();
        assert_eq!(extents.len(), 2, "{extents:?}");
    });
    let changes = [
        &format!("inode {inode}"),
        "write -d u3.bmx[0].extentflag 1",
        "write -d u3.bmx[0].blockcount 20",
        "write -d core.nextents 1",
    ];
    repair_both(&image, &changes, |staged| {
        assert!(contents_of(&image, inode) == bytes, "{:#?}", staged.actions);
        let device = Arc::new(SyncDevice::open_read_only(&image, 0).unwrap());
        let volume = Volume::open(device, &VolumeOptions::default()).unwrap();
        let inode = volume.inode(inode).unwrap();
        let map = volume.extent_map(&inode, Fork::Data).unwrap();
        let marks: Vec<_> = map.iter().map(|extent| (extent.file_block, extent.is_unwritten)).collect();
        assert_eq!(marks, [(FileBlock::new(0), false), (FileBlock::new(10), true)]);
    });
}

/// Values of twelve bytes are as long as those of parent pointers.
fn with_attributes() -> (TempDir, std::path::PathBuf, InodeNumber) {
    with_file(|file_system, file| {
        for number in 1..10 {
            let (short, long) = (format!("user.attr{number}"), format!("user.text{number}"));
            let value = format!("value {number} of12");
            let text = format!("a longer text that is number {number}");
            file_system.set_xattr(file, short.as_bytes(), value.as_bytes(), SetMode::Upsert).unwrap();
            file_system.set_xattr(file, long.as_bytes(), text.as_bytes(), SetMode::Upsert).unwrap();
        }
    })
}

fn attributes_of(image: &Path, inode: InodeNumber) -> Vec<(Vec<u8>, Vec<u8>)> {
    let device = Arc::new(SyncDevice::open_read_only(image, 0).unwrap());
    let volume = Volume::open(device, &VolumeOptions::default()).unwrap();
    let inode = volume.inode(inode).unwrap();
    let reader = volume.attributes(&inode).unwrap();
    let names = reader.xattr_names_within(Default::default(), 1 << 16).unwrap();
    names.into_iter().map(|name| (name.clone(), reader.xattr(&name).unwrap())).collect()
}

#[test]
fn an_attribute_that_is_marked_as_a_parent_pointer_stays() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let (_folder, image, inode) = with_attributes();
    let before = attributes_of(&image, inode);
    assert_eq!(before.len(), 18);
    let sound = Contents::read(&image).unwrap();
    for entry in 0..19 {
        let changes = [&format!("inode {inode}"), "ablock 0", &format!("write -d entries[{entry}].parent 1")];
        plant(&image, &changes);
        let staged = repair_image_without_log(&image);
        assert!(staged.remaining.is_empty(), "{entry}: {:#?}", staged.remaining);
        assert!(attributes_of(&image, inode) == before, "{entry}: {:#?}", staged.actions);
        repair_is_silent(&image).unwrap();
        sound.write(&image).unwrap();
    }
}

/// A single bit in an inode or a leaf of a file system without parent pointers.
#[test]
fn a_mark_without_the_feature_is_found_and_goes() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    for (count, place) in [(2, "a.sfattr.list[0].parent"), (18, "entries[3].parent")] {
        let (_folder, image, inode) = with_file_in("no-parent", |file_system, file| {
            for number in 0..count {
                let (name, value) = (format!("user.attr{number}"), format!("value {number} of its own"));
                file_system.set_xattr(file, name.as_bytes(), value.as_bytes(), SetMode::Upsert).unwrap();
            }
        });
        let before = attributes_of(&image, inode);
        assert_eq!(before.len(), count);
        let block = if place.starts_with("entries") { &["ablock 0"][..] } else { &[] };
        let (inode_command, change) = (format!("inode {inode}"), format!("write -d {place} 1"));
        plant(&image, &[&[&*inode_command][..], block, &[&*change]].concat());
        assert_ne!(repair_findings(&image).unwrap(), Vec::<String>::new(), "{place}");
        let findings = findings_of(&image);
        assert!(findings.len() == 1, "{place}: {findings:#?}");
        let staged = repair_image_without_log(&image);
        assert!(staged.remaining.is_empty(), "{place}: {:#?}", staged.remaining);
        assert!(attributes_of(&image, inode) == before, "{place}: {:#?}", staged.actions);
        repair_is_silent(&image).unwrap();
    }
}

#[test]
fn an_entry_that_is_taken_out_as_a_parent_pointer_and_is_none_is_told() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let (_folder, image, inode) = with_attributes();
    let before = attributes_of(&image, inode);
    let changes = [
        &format!("inode {inode}"),
        "ablock 0",
        "write -d entries[3].parent 1",
        "write -d entries[3].nameidx 3824",
        "write -d entries[3].hashval 0x12345678",
    ];
    plant(&image, &changes);
    let mut options = common::in_order();
    options.ignore_log_copies = true;
    let staged = stage(&image, &options);
    let is_told = staged.actions.iter().any(|action| {
        matches!(
            action,
            Action::BlockField { removed: 1.., .. } | Action::Attributes { is_any_lost: true, .. }
        )
    });
    assert!(staged.remaining.is_empty(), "{:#?}", staged.remaining);
    write_staged(&image, &staged);
    let after = attributes_of(&image, inode);
    assert!(is_told || after == before, "{:#?}", staged.actions);
    repair_is_silent(&image).unwrap();
}
