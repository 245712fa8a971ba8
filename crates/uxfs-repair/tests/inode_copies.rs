//! Copies of inodes in the log that lack the attributes, since Linux logs only the parts of an inode that changed.

use std::{
    fs::{self, File, FileTimes},
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    time::{Duration, SystemTime},
};

use rustix::fs::{XattrFlags, getxattr, setxattr};
use uxfs_block::engine::sync::SyncDevice;
use uxfs_format::geometry::Geometry;
use uxfs_repair::repair::action::{Action, Certainty, InodeSource};
use uxfs_testkit::{
    image::{make, memory_folder},
    judges::Judge,
    mount::{Access, LoopMount},
    require, structures,
    verdict::repair_is_silent,
};

use crate::common::repair_image;

/// A file with an attribute, whose times alone changed since the log was made. Gives its inode.
fn make_image(image: &Path) -> u64 {
    make(image, 300 << 20, &[]).unwrap();
    let mount = LoopMount::new(image, Access::ReadWrite).unwrap();
    let path = mount.path().join("file");
    fs::write(&path, "contents").unwrap();
    setxattr(&path, "user.name", b"value", XattrFlags::empty()).unwrap();
    mount.unmount().unwrap();
    let status = Judge::XfsRepair.command().args(["-L", "-f"]).arg(image).output().unwrap().status;
    assert!(status.success());
    let mount = LoopMount::new(image, Access::ReadWrite).unwrap();
    let path = mount.path().join("file");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let file = File::options().write(true).open(&path).unwrap();
    file.set_times(FileTimes::new().set_modified(time)).unwrap();
    drop(file);
    let inode = fs::metadata(&path).unwrap().ino();
    mount.unmount().unwrap();
    inode
}

/// The attribute and the time of the file, as the kernel tells them.
fn attribute_and_time(image: &Path) -> (Option<Vec<u8>>, i64) {
    repair_is_silent(image).unwrap();
    let mount = LoopMount::new(image, Access::ReadOnly).unwrap();
    let path = mount.path().join("file");
    assert_eq!(fs::read_to_string(&path).unwrap(), "contents");
    let mut value = [0; 64];
    let length = getxattr(&path, "user.name", &mut value[..]).ok();
    let time = fs::metadata(&path).unwrap().mtime();
    mount.unmount().unwrap();
    (length.map(|length| value[..length].to_vec()), time)
}

#[test]
fn attributes_that_the_log_has_not_come_from_the_place_of_the_inode_or_are_told_as_lost() {
    require!(Judge::Kernel, Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    let inode = make_image(&image);
    let sources = |staged: &uxfs_repair::repair::Staged| -> Vec<InodeSource> {
        let rebuilt = staged.actions.iter().filter_map(|action| match action {
            Action::InodeRebuilt { source, .. } => Some(*source),
            _ => None,
        });
        rebuilt.collect()
    };

    let (geometry, _) = structures::list(&SyncDevice::open_read_only(&image, 0).unwrap()).unwrap();
    let place = geometry.inode_place(uxfs_format::units::InodeNumber::new(inode)).unwrap();
    let sector = geometry.sector_of_group_block(place.group, place.block).unwrap();
    let start = Geometry::byte_of_sector(sector) + u64::from(place.offset_bytes);
    let file = File::options().write(true).open(&image).unwrap();
    // The rest of the core tells that it is the same inode.
    file.write_all_at(&[0xff; 64], start).unwrap();
    let staged = repair_image(&image);
    assert_eq!(attribute_and_time(&image), (Some(b"value".to_vec()), 1_000_000_000), "{:#?}", staged.actions);
    assert_eq!(sources(&staged), [InodeSource::LogAndReverseMap]);

    file.write_all_at(&vec![0; geometry.inode_size()], start).unwrap();
    let staged = repair_image(&image);
    assert_eq!(attribute_and_time(&image), (None, 1_000_000_000), "{:#?}", staged.actions);
    assert_eq!(sources(&staged), [InodeSource::LogWithoutAttributes]);
    let told = staged.actions.iter().find(|action| matches!(action, Action::InodeRebuilt { .. })).unwrap();
    assert_eq!(told.certainty(), Certainty::Guess);
    assert!(told.missing_witness().is_some());
}
