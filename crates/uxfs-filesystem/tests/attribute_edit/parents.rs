//! Parent pointers: taken away and given back, in another order, they must be what the kernel's directories say.

use std::{fs, time::Instant};

use uxfs_engine::transaction::Transaction;
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_format::units::InodeNumber;
use uxfs_testkit::{judges::Judge, require, verdict};
use uxfs_volume::{
    error::{Error, OperationError},
    parent_pointer::ParentPointer,
};

use super::fixture::{Form, Image, form_of};

fn generation_of(file_system: &FileSystem, number: InodeNumber) -> u32 {
    file_system.inode(number).unwrap().generation()
}

fn take_away_and_give_back(options: &[&str], links: u32) {
    let mut image = Image::empty(options, 400);
    let name_of = |index: u32| format!("link with a name {index:06}");
    image.populate(|root| {
        fs::write(root.join("file"), "").unwrap();
        for directory in ["one", "two"] {
            fs::create_dir(root.join(directory)).unwrap();
        }
        for index in 0..links {
            let directory = if index % 3 == 0 { "one" } else { "two" };
            fs::hard_link(root.join("file"), root.join(directory).join(name_of(index))).unwrap();
        }
    });
    let file_system = image.change();
    let directories =
        ["one", "two"].map(|name| (image.files[name], generation_of(&file_system, image.files[name])));
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut child = transaction.load_inode(image.files["file"]).unwrap();
    let names: Vec<String> = (0..links).map(name_of).collect();
    let pointer = |index: u32| {
        let (parent, generation) = directories[usize::from(!index.is_multiple_of(3))];
        ParentPointer { parent, generation, name: names[index as usize].as_bytes() }
    };
    let start = Instant::now();
    for index in 0..links {
        let index = (u64::from(index) * 61_843 % u64::from(links)) as u32;
        transaction.parent_pointers().remove_parent_pointer(&mut child, pointer(index)).unwrap();
        if index.is_multiple_of(64) {
            transaction.commit().unwrap();
        }
    }
    transaction.commit().unwrap();
    assert_eq!(form_of(&file_system, &child), Form::List);
    let again = transaction.parent_pointers().remove_parent_pointer(&mut child, pointer(0));
    assert!(matches!(again, Err(Error::Operation(OperationError::NoSuchAttribute))));
    println!("{links} removed in {:?}", start.elapsed());
    let start = Instant::now();
    for index in (0..links).rev() {
        transaction.parent_pointers().add_parent_pointer(&mut child, pointer(index)).unwrap();
        if index.is_multiple_of(64) {
            transaction.commit().unwrap();
        }
    }
    println!("{links} added in {:?}", start.elapsed());
    let again = transaction.parent_pointers().add_parent_pointer(&mut child, pointer(links / 2));
    assert!(matches!(again, Err(Error::Operation(OperationError::Exists))));
    // There and back.
    for index in (0..links).step_by(7) {
        let (parent, generation) = directories[0];
        let moved = ParentPointer { parent, generation, name: b"elsewhere" };
        transaction.parent_pointers().replace_parent_pointer(&mut child, pointer(index), moved).unwrap();
        transaction.parent_pointers().replace_parent_pointer(&mut child, moved, pointer(index)).unwrap();
    }
    transaction.store_inode(&mut child).unwrap();
    transaction.commit().unwrap();
    assert_eq!(form_of(&file_system, &child), Form::Tree);
    drop(transaction);
    file_system.close().unwrap();
    drop(file_system);
    verdict::repair_is_silent(&image.path).unwrap();
}

#[test]
fn pointers_of_many_links() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    take_away_and_give_back(&["-n", "parent=1"], 40_000);
}

#[test]
fn pointers_in_small_blocks() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    take_away_and_give_back(&["-b", "size=1024", "-n", "parent=1"], 3000);
}
