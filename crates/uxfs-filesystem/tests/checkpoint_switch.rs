//! A checkpoint switch that must wait for a group which a transaction still has that has just ended.

use std::{sync::Arc, thread, time::Duration};

use uxfs_engine::{allocation_group::state::GroupState, bulk::create::NewKind, options::LogOptions};
use uxfs_filesystem::{
    file::Touch, filesystem::FileSystem, inode::table::InodeHandle, operations::create::NewFile,
};
use uxfs_format::units::{AgNumber, InodeNumber};
use uxfs_testkit::{
    image::TestImage,
    judges::{Judge, judged},
    require,
};

const FIRST: AgNumber = AgNumber::new(0);

fn group_of(file_system: &FileSystem, inode: InodeNumber) -> AgNumber {
    file_system.geometry().split_inode_number(inode).unwrap().0
}

/// A file with contents in the first group, and a directory in another one.
fn populate(file_system: &Arc<FileSystem>) -> (InodeHandle, InodeHandle) {
    let root = file_system.open_root().unwrap();
    let file = file_system.create(&root, b"file", &NewFile::new(NewKind::Regular, 0o600)).unwrap();
    file_system.write(&file, 0, &[7; 100_000], Touch::NOTHING).unwrap();
    let elsewhere = (0..16).find_map(|number| {
        let name = format!("directory-{number}");
        let new = NewFile::new(NewKind::Directory, 0o700);
        let made = file_system.create(&root, name.as_bytes(), &new).unwrap();
        (group_of(file_system, made.number()) != FIRST).then_some(made)
    });
    assert_eq!(group_of(file_system, file.number()), FIRST);
    file_system.force().unwrap();
    (file, elsewhere.unwrap())
}

/// The switch settles a higher group, and then needs the lower one, to make sure that blocks there may become free. It gives the higher
/// one back while it waits. That is no half change.
#[test]
fn a_switch_may_give_back_what_it_has_settled() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("checkpoint switch", 320, &["-m", "rmapbt=0"], 0);
    let file_system = image.mount_logged(LogOptions::default());
    let (file, directory) = populate(&file_system);
    // Blocks of the first group are given up, and the other group changes.
    file_system.set_size(&file, 0, Touch::NOTHING).unwrap();
    let new = NewFile::new(NewKind::Regular, 0o600);
    for number in 0..100 {
        file_system.create(&directory, format!("file-{number}").as_bytes(), &new).unwrap();
    }
    let held = GroupState::lock(file_system.group_state(FIRST).unwrap(), FIRST);
    thread::scope(|scope| {
        let forced = scope.spawn(|| file_system.force());
        thread::sleep(Duration::from_millis(200));
        assert!(!forced.is_finished(), "the switch does not need the first group");
        drop(held);
        forced.join().unwrap().unwrap();
    });
    assert!(file_system.journal().unwrap().check().is_ok());
    file_system.create(&directory, b"later", &new).unwrap();
    drop((file, directory));
    file_system.close().unwrap();
    drop(file_system);
    image.must_be_sound();
    judged("xfs_repair", "a checkpoint switch that gave a group back");
}
