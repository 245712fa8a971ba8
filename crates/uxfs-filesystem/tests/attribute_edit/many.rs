//! Very many attributes on one inode.

use std::{fs, time::Instant};

use uxfs_engine::{
    attribute::{AttributeName, SetMode},
    inode::edit::{EditInode, ForkExtents, InodeFork},
    transaction::Transaction,
};
use uxfs_format::inode::Fork;
use uxfs_testkit::{
    judges::Judge,
    mount::{Access, LoopMount},
    require, verdict,
};
use uxfs_volume::attribute::Namespace;

use super::fixture::{Form, Image, form_of, get};

const COUNT: u32 = 100_000;

fn name_of(index: u32) -> String {
    format!("attribute-{index:07}")
}

fn value_of(index: u32) -> Vec<u8> {
    let length = if index.is_multiple_of(1000) { 5000 } else { (index % 40) as usize };
    vec![index as u8; length]
}

/// Each number below `count` once, in no order.
fn shuffled(index: u32) -> u32 {
    (u64::from(index) * 61_843 % u64::from(COUNT)) as u32
}

#[test]
fn a_hundred_thousand_attributes_come_and_go() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let mut image = Image::empty(&[], 400);
    image.populate(|root| fs::write(root.join("file"), "contents").unwrap());
    let number = image.files["file"];

    let start = Instant::now();
    let file_system = image.change();
    let free_before = file_system.free_blocks();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut inode = transaction.load_inode(number).unwrap();
    for index in 0..COUNT {
        let name = name_of(index);
        let name = AttributeName { namespace: Namespace::User, name: name.as_bytes() };
        transaction.attributes().set_attribute(&mut inode, name, &value_of(index), SetMode::Create).unwrap();
        if index % 64 == 0 {
            transaction.store_inode(&mut inode).unwrap();
            transaction.commit().unwrap();
        }
    }
    transaction.store_inode(&mut inode).unwrap();
    transaction.commit().unwrap();
    assert_eq!(form_of(&file_system, &inode), Form::Tree);
    let blocks: u64 = inode.extents(Fork::Attribute).iter().map(|extent| extent.length_blocks).sum();
    // Names of 17 bytes, values of 20 on average, 11 beside: 48 bytes, and two blocks for each thousandth value.
    let least = u64::from(COUNT) * 48 / 4096 + u64::from(COUNT) / 500;
    assert!(blocks < least * 16 / 10, "{blocks} blocks, {least} at least");
    println!("{COUNT} set in {:?}, {blocks} blocks", start.elapsed());
    drop(transaction);
    file_system.close().unwrap();
    drop(file_system);
    verdict::repair_is_silent(&image.path).unwrap();
    let mount = LoopMount::new(&image.path, Access::ReadOnly).unwrap();
    for index in (0..COUNT).step_by(37) {
        let found = get(&mount.join("file"), format!("user.{}", name_of(index)).as_bytes());
        assert!(found == value_of(index), "{index}");
    }
    mount.unmount().unwrap();

    let start = Instant::now();
    let file_system = image.change();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut inode = transaction.load_inode(number).unwrap();
    for index in 0..COUNT {
        let name = name_of(shuffled(index));
        let name = AttributeName { namespace: Namespace::User, name: name.as_bytes() };
        transaction.attributes().remove_attribute(&mut inode, name).unwrap();
        if index % 64 == 0 {
            transaction.store_inode(&mut inode).unwrap();
            transaction.commit().unwrap();
        }
    }
    transaction.store_inode(&mut inode).unwrap();
    transaction.commit().unwrap();
    assert!(inode.extents(Fork::Attribute).is_empty());
    println!("{COUNT} removed in {:?}", start.elapsed());
    assert_eq!(file_system.free_blocks(), free_before);
    drop(transaction);
    file_system.close().unwrap();
    verdict::repair_is_silent(&image.path).unwrap();
}

#[test]
fn all_attributes_of_an_inode_go_at_once() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let mut image = Image::empty(&["-b", "size=1024", "-n", "parent=0"], 320);
    image.populate(|root| fs::write(root.join("file"), "contents").unwrap());
    let file_system = image.change();
    let free_before = file_system.free_blocks();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut inode = transaction.load_inode(image.files["file"]).unwrap();
    for index in 0..5000 {
        let name = name_of(index);
        let name = AttributeName { namespace: Namespace::User, name: name.as_bytes() };
        transaction.attributes().set_attribute(&mut inode, name, &value_of(index), SetMode::Create).unwrap();
    }
    transaction.store_inode(&mut inode).unwrap();
    transaction.commit().unwrap();
    assert_eq!(form_of(&file_system, &inode), Form::Tree);
    transaction.attributes().remove_all_attributes(&mut inode).unwrap();
    transaction.store_inode(&mut inode).unwrap();
    transaction.commit().unwrap();
    assert_eq!(form_of(&file_system, &inode), Form::NoFork);
    assert_eq!(file_system.free_blocks(), free_before);
    drop(transaction);
    file_system.close().unwrap();
    verdict::repair_is_silent(&image.path).unwrap();
    verdict::kernel_removes_everything(&image.path, 3).unwrap();
}

/// Whether the extents of the attribute fork lie in a btree.
fn has_btree(inode: &EditInode) -> bool {
    matches!(&inode.attribute, Some(InodeFork::Extents(ForkExtents { root: Some(_), .. })))
}

#[test]
fn forks_that_grow_side_by_side_need_btrees() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    for options in [&["-n", "parent=0"][..], &["-b", "size=1024", "-n", "parent=1"]] {
        side_by_side(options);
    }
}

fn side_by_side(options: &[&str]) {
    const FILES: [&str; 3] = ["one", "two", "three"];
    let mut image = Image::empty(options, 320);
    image.populate(|root| FILES.iter().for_each(|name| fs::write(root.join(name), "contents").unwrap()));
    let file_system = image.change();
    let free_before = file_system.free_blocks();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut inodes = FILES.map(|name| transaction.load_inode(image.files[name]).unwrap());
    let value = |index: u32| vec![index as u8; 3000 + index as usize * 7];
    for index in 0..900 {
        for inode in &mut inodes {
            let name = name_of(index);
            let name = AttributeName { namespace: Namespace::User, name: name.as_bytes() };
            transaction.attributes().set_attribute(inode, name, &value(index), SetMode::Create).unwrap();
            transaction.store_inode(inode).unwrap();
        }
        transaction.commit().unwrap();
    }
    assert!(inodes.iter().all(has_btree), "otherwise this tests less than it says");
    drop(transaction);
    file_system.close().unwrap();
    drop(file_system);
    verdict::repair_is_silent(&image.path).unwrap();
    let mount = LoopMount::new(&image.path, Access::ReadOnly).unwrap();
    for (file, index) in FILES.iter().flat_map(|file| (0..900).map(move |index| (file, index))) {
        assert!(get(&mount.join(file), format!("user.{}", name_of(index)).as_bytes()) == value(index));
    }
    mount.unmount().unwrap();

    let file_system = image.change();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    // The third is left to the kernel.
    for file in &FILES[..2] {
        let mut inode = transaction.load_inode(image.files[*file]).unwrap();
        for index in 0..900 {
            let name = name_of(index * 7 % 900);
            let name = AttributeName { namespace: Namespace::User, name: name.as_bytes() };
            transaction.attributes().remove_attribute(&mut inode, name).unwrap();
            transaction.commit().unwrap();
        }
        assert!(inode.extents(Fork::Attribute).is_empty());
        transaction.store_inode(&mut inode).unwrap();
        transaction.commit().unwrap();
    }
    let mut third = transaction.load_inode(image.files["three"]).unwrap();
    let used = third.extents(Fork::Attribute).iter().map(|extent| extent.length_blocks).sum::<u64>();
    assert!(file_system.free_blocks() + used <= free_before);
    transaction.store_inode(&mut third).unwrap();
    transaction.commit().unwrap();
    drop(transaction);
    file_system.close().unwrap();
    verdict::kernel_removes_everything(&image.path, 17).unwrap();
}
