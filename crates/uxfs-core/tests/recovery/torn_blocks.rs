//! Blocks that were torn on their way home when they had just become something else.

use std::{ops::ControlFlow, sync::Arc};

use uxfs_block::device::BlockDevice;
use uxfs_core::{
    filesystem::FileSystem,
    mount::{LogOptions, MountOptions},
    operations::{create::NewKind, new_file::NewFile, rename::RenameOptions},
    recovery::mount_recovered,
};
use uxfs_testkit::{
    crash::{
        image::{Image, ImageDevice},
        recording::RecordingDevice,
        states::{Plan, visit},
    },
    image::TestImage,
    judges::{Judge, judged},
    require,
};

/// More than one block of 4 KiB holds.
const NAMES: u32 = 60;

fn name(number: u32) -> Vec<u8> {
    format!("{number:0>60}").into_bytes()
}

/// A name leads elsewhere in a directory of one block, which logs nothing of the block's beginning; then the block becomes the
/// first of several, and only then it goes home.
fn change(file_system: &FileSystem) {
    let root = file_system.open_root().unwrap();
    let new = NewFile::new(NewKind::Directory, 0o755);
    let directory = file_system.create(&root, b"directory", &new).unwrap();
    for number in 0..NAMES {
        let new = NewFile::new(NewKind::Regular, 0o600);
        drop(file_system.create(&directory, &name(number), &new).unwrap());
        if number == 30 {
            file_system.force().unwrap();
            file_system.write_home(true).unwrap();
            let exchange = RenameOptions { exchange: true, ..RenameOptions::default() };
            file_system.rename(&directory, &name(3), &directory, &name(25), &exchange).unwrap();
            file_system.force().unwrap();
        }
    }
    file_system.force().unwrap();
    file_system.write_home(true).unwrap();
}

fn names_of(file_system: &FileSystem) -> usize {
    let root = file_system.root().unwrap();
    let Some(found) = file_system.lookup(&root, b"directory").unwrap() else { return 0 };
    let directory = file_system.inode(found.inode).unwrap();
    let mut reader = file_system.open_directory(&directory, 0).unwrap();
    std::iter::from_fn(|| reader.next_entry().unwrap().map(|_| ())).count() - 2
}

#[test]
fn a_block_that_became_another_kind_and_was_torn_is_recovered() {
    require!(Judge::Mkfs);
    let image = TestImage::new("torn blocks", 64, &[], 0);
    let device = Arc::new(RecordingDevice::new(Image::load(&image.path).unwrap()));
    let options = MountOptions { cache_budget_bytes: Some(16 << 20), ..MountOptions::default() };
    let log = LogOptions { has_background: false, ..LogOptions::default() };
    let file_system = FileSystem::mount_logged(device.clone(), &MountOptions { log, ..options }).unwrap();
    change(&file_system);
    drop(file_system);
    let mut plan = Plan::new(1);
    (plan.subsets, plan.torn) = (8, 8);
    let (mut states, mut most) = (0, 0);
    let _ = visit(&device.history(), &plan, &mut |state| {
        let device: Arc<dyn BlockDevice> = Arc::new(ImageDevice::read_only(state.image.clone()));
        let read = mount_recovered(&device, &options);
        let (read, _) = read.unwrap_or_else(|error| panic!("{} ({:?}): {error}", state.number, state.kind));
        (states, most) = (states + 1, most.max(names_of(&read)));
        ControlFlow::Continue(())
    });
    assert!(
        states > 100 && most == NAMES as usize,
        "otherwise this tests less than it says: {states}, {most}"
    );
    judged("recovery", &format!("blocks that became another kind: {states} crash states"));
}
