//! Files that we make ourselves, with names, parent pointers, attributes and targets.

use std::{fs, os::unix::ffi::OsStrExt, os::unix::fs::MetadataExt, time::Instant};

use uxfs_engine::{
    attribute::{AttributeName, SetMode},
    directory::NameCheck,
    inode::{create::NewInode, edit::EditInode},
    transaction::Transaction,
};
use uxfs_format::inode::Timestamp;
use uxfs_testkit::{
    judges::Judge,
    mount::{Access, LoopMount},
    require, verdict,
};
use uxfs_volume::{attribute::Namespace, inode::FileType, parent_pointer::ParentPointer};

use super::fixture::{Form, Image, form_of, get};

const REGULAR: u16 = 0o100_644;
const LINK: u16 = 0o120_777;

fn link(transaction: &mut Transaction<'_>, root: &mut EditInode, child: &mut EditInode, name: &[u8]) {
    let file_type = if child.core.mode.get() == LINK { FileType::SymbolicLink } else { FileType::Regular };
    transaction.directories().add_name(root, name, child.number, file_type, NameCheck::KnownToBeNew).unwrap();
    let generation = root.core.generation.get();
    let pointer = ParentPointer { parent: root.number, generation, name };
    transaction.parent_pointers().add_parent_pointer(child, pointer).unwrap();
}

#[test]
fn very_many_links_of_one_file() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    const LINKS: u32 = 40_000;
    let image = Image::empty(&["-n", "parent=1"], 400);
    let file_system = image.change();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut root = transaction.load_inode(file_system.geometry().root_inode).unwrap();
    let new = NewInode::new(REGULAR, Timestamp::default());
    let mut child = transaction.inodes().create_inode(root.number, &new).unwrap();
    let name = |index: u32| format!("link-{index}").into_bytes();
    let start = Instant::now();
    for index in 0..LINKS {
        link(&mut transaction, &mut root, &mut child, &name(index));
        if index.is_multiple_of(64) {
            transaction.commit().unwrap();
        }
    }
    println!("{LINKS} linked in {:?}", start.elapsed());
    child.set_link_count(LINKS);
    transaction.store_inode(&mut child).unwrap();
    transaction.store_inode(&mut root).unwrap();
    transaction.commit().unwrap();
    assert_eq!(form_of(&file_system, &child), Form::Tree);
    drop(transaction);
    file_system.close().unwrap();
    drop(file_system);
    verdict::repair_is_silent(&image.path).unwrap();

    let file_system = image.change();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut root = transaction.load_inode(root.number).unwrap();
    let mut child = transaction.load_inode(child.number).unwrap();
    // All but one, in no order.
    for index in 1..LINKS {
        let index = (u64::from(index) * 61_843 % u64::from(LINKS)) as u32;
        let name = name(index);
        transaction.directories().remove_name(&mut root, &name).unwrap();
        let generation = root.core.generation.get();
        let pointer = ParentPointer { parent: root.number, generation, name: &name };
        transaction.parent_pointers().remove_parent_pointer(&mut child, pointer).unwrap();
        if index.is_multiple_of(64) {
            transaction.commit().unwrap();
        }
    }
    child.set_link_count(1);
    transaction.store_inode(&mut child).unwrap();
    transaction.store_inode(&mut root).unwrap();
    transaction.commit().unwrap();
    assert_eq!(form_of(&file_system, &child), Form::List);
    drop(transaction);
    file_system.close().unwrap();
    verdict::repair_is_silent(&image.path).unwrap();
    let mount = LoopMount::new(&image.path, Access::ReadOnly).unwrap();
    assert_eq!(fs::metadata(mount.join("link-0")).unwrap().nlink(), 1);
    assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 1);
    mount.unmount().unwrap();
}

fn make_links_with_attributes(options: &[&str]) {
    let image = Image::empty(options, 320);
    let file_system = image.change();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut root = transaction.load_inode(file_system.geometry().root_inode).unwrap();
    let target = |length: u32| vec![b'a' + (length % 26) as u8; length as usize];
    let value = |length: u32| vec![length as u8; (length * 7 % 3000) as usize];
    for length in 1..1024_u32 {
        let name = format!("link-{length}");
        let new = NewInode::new(LINK, Timestamp::default());
        let mut child = transaction.inodes().create_inode(root.number, &new).unwrap();
        transaction.symlinks().set_symlink_target(&mut child, &target(length)).unwrap();
        link(&mut transaction, &mut root, &mut child, name.as_bytes());
        let attribute = AttributeName { namespace: Namespace::Trusted, name: name.as_bytes() };
        transaction
            .attributes()
            .set_attribute(&mut child, attribute, &value(length), SetMode::Create)
            .unwrap();
        transaction.store_inode(&mut child).unwrap();
        transaction.store_inode(&mut root).unwrap();
        transaction.commit().unwrap();
    }
    drop(transaction);
    file_system.close().unwrap();
    verdict::repair_is_silent(&image.path).unwrap();
    let mount = LoopMount::new(&image.path, Access::ReadOnly).unwrap();
    for length in 1..1024_u32 {
        let path = mount.join(format!("link-{length}"));
        assert_eq!(fs::read_link(&path).unwrap().as_os_str().as_bytes(), target(length));
        assert_eq!(get(&path, format!("trusted.link-{length}").as_bytes()), value(length));
    }
    mount.unmount().unwrap();
    verdict::kernel_removes_everything(&image.path, 9).unwrap();
}

#[test]
fn links_of_all_lengths_with_attributes() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    make_links_with_attributes(&["-n", "parent=0"]);
    make_links_with_attributes(&["-n", "parent=1"]);
    make_links_with_attributes(&["-b", "size=2048", "-n", "parent=0", "-i", "size=1024", "-m", "rmapbt=0"]);
}

/// Linux of today does not mount such images; `xfs_repair` compares every parent pointer with the directory, and its
/// place with the hash that ignores case.
#[test]
fn names_without_regard_to_case() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = Image::empty(&["-b", "size=1024", "-n", "version=ci,parent=1"], 320);
    let file_system = image.change();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut root = transaction.load_inode(file_system.geometry().root_inode).unwrap();
    let new = NewInode::new(REGULAR, Timestamp::default());
    let mut child = transaction.inodes().create_inode(root.number, &new).unwrap();
    let name = |index: u32| format!("Name-\u{c4}\u{dc}-{index}-UPPER-lower").into_bytes();
    for index in 0..600 {
        link(&mut transaction, &mut root, &mut child, &name(index));
    }
    // As in a directory, another case is another name to the parent pointer.
    let generation = root.core.generation.get();
    for index in (0..600).step_by(3) {
        let lower = name(index).to_ascii_lowercase();
        let wrong = ParentPointer { parent: root.number, generation, name: &lower };
        assert!(transaction.parent_pointers().remove_parent_pointer(&mut child, wrong).is_err());
        let right = ParentPointer { name: &name(index), ..wrong };
        transaction.parent_pointers().remove_parent_pointer(&mut child, right).unwrap();
        transaction.directories().remove_name(&mut root, &name(index)).unwrap();
    }
    child.set_link_count(400);
    transaction.store_inode(&mut child).unwrap();
    transaction.store_inode(&mut root).unwrap();
    transaction.commit().unwrap();
    assert_eq!(form_of(&file_system, &child), Form::Tree);
    drop(transaction);
    file_system.close().unwrap();
    verdict::repair_is_silent(&image.path).unwrap();
}
