//! Blocks that were torn on their way home when they had just become something else.

use uxfs_engine::bulk::create::NewKind;
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_filesystem::operations::{create::NewFile, rename::RenameOptions};
use uxfs_lab::crash::states::Plan;
use uxfs_testkit::{
    image::TestImage,
    judges::{Judge, judged},
    require,
};

use super::crashes::{in_each_state, names_of, record};

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
            file_system.push_active_items(true).unwrap();
            let exchange = RenameOptions { exchange: true, ..RenameOptions::default() };
            file_system.rename(&directory, &name(3), &directory, &name(25), &exchange).unwrap();
            file_system.force().unwrap();
        }
    }
    file_system.force().unwrap();
    file_system.push_active_items(true).unwrap();
}

#[test]
fn a_block_that_became_another_kind_and_was_torn_is_recovered() {
    require!(Judge::Mkfs);
    let image = TestImage::new("torn blocks", 64, &[], 0);
    let device = record(&image, change);
    let mut plan = Plan::new(1);
    (plan.subsets, plan.torn) = (8, 8);
    let mut most = 0;
    let states = in_each_state(&device, &plan, |_, read| {
        most = most.max(names_of(read)?);
        Ok(())
    });
    // "." and ".." are names, too.
    assert!(states > 100 && most == NAMES + 2, "otherwise this tests less than it says: {states}, {most}");
    judged("recovery", &format!("blocks that became another kind: {states} crash states"));
}
