//! Targets of symbolic links of every length, inside the inode and outside.

use std::{collections::BTreeMap, fs, os::unix::ffi::OsStrExt, os::unix::fs::symlink};

use uxfs_engine::{
    attribute::{AttributeName, SetMode},
    transaction::Transaction,
};
use uxfs_testkit::{
    judges::Judge,
    mount::{Access, LoopMount},
    require,
    seeds::Seed,
    verdict,
};
use uxfs_volume::{
    attribute::Namespace,
    error::{Error, OperationError},
};

use super::fixture::Image;

const LENGTHS: [usize; 16] = [1, 100, 191, 192, 193, 300, 335, 336, 337, 500, 967, 968, 969, 970, 1022, 1023];

fn target_of(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|index| b'a' + ((index + usize::from(seed)) % 26) as u8).collect()
}

fn change_targets(options: &[&str]) {
    let seed = Seed::from_environment("link targets", 11);
    let mut random = seed.random();
    let mut image = Image::empty(options, 320);
    image.populate(|root| {
        for index in 0..LENGTHS.len() {
            let target = target_of(LENGTHS[(index * 5) % LENGTHS.len()], 0);
            symlink(std::ffi::OsStr::from_bytes(&target), root.join(format!("link{index}"))).unwrap();
        }
    });
    let mut targets = BTreeMap::new();
    for round in 0..3_u8 {
        let file_system = image.change();
        let mut transaction = Transaction::begin(&file_system).unwrap();
        for (name, number) in &image.files {
            let mut inode = transaction.load_inode(*number).unwrap();
            let target = target_of(LENGTHS[random.below(LENGTHS.len() as u64) as usize], round);
            let twice = transaction.symlinks().set_symlink_target(&mut inode, &target);
            assert!(matches!(twice, Err(Error::Operation(OperationError::Exists))));
            transaction.symlinks().remove_symlink_target(&mut inode).unwrap();
            let long = transaction.symlinks().set_symlink_target(&mut inode, &[b'x'; 1024]);
            assert!(matches!(long, Err(Error::Operation(OperationError::TargetTooLong))));
            for impossible in [&b""[..], b"a\0b"] {
                let result = transaction.symlinks().set_symlink_target(&mut inode, impossible);
                assert!(matches!(result, Err(Error::Operation(OperationError::InvalidName))));
            }
            transaction.symlinks().set_symlink_target(&mut inode, &target).unwrap();
            // Attributes that need the room of the target drive it out.
            if random.below(2) == 0 {
                let attribute = AttributeName { namespace: Namespace::Trusted, name: b"room" };
                let value = vec![7; 150 + random.below(100) as usize];
                transaction
                    .attributes()
                    .set_attribute(&mut inode, attribute, &value, SetMode::Upsert)
                    .unwrap();
                if random.below(2) == 0 {
                    transaction.attributes().remove_attribute(&mut inode, attribute).unwrap();
                }
            }
            transaction.store_inode(&mut inode).unwrap();
            transaction.commit().unwrap();
            let inode = file_system.inode(*number).unwrap();
            assert_eq!(file_system.read_symlink(&inode).unwrap(), target);
            targets.insert(name.clone(), target);
        }
        drop(transaction);
        file_system.close().unwrap();
        verdict::repair_is_silent(&image.path).unwrap();
        let mount = LoopMount::new(&image.path, Access::ReadOnly).unwrap();
        for (name, target) in &targets {
            let found = fs::read_link(mount.join(name)).unwrap();
            assert_eq!(found.as_os_str().as_bytes(), target, "{name}");
        }
        mount.unmount().unwrap();
    }
    verdict::kernel_removes_everything(&image.path, 5).unwrap();
}

#[test]
fn targets_change_in_usual_blocks() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    change_targets(&["-n", "parent=0"]);
}

#[test]
fn targets_change_in_small_blocks() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    change_targets(&["-b", "size=1024", "-n", "parent=0"]);
}

#[test]
fn targets_change_beside_parent_pointers() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    change_targets(&["-b", "size=1024", "-n", "parent=1"]);
}
