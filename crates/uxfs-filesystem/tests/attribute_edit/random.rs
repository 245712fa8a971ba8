//! Random attributes of all sizes on files of all kinds, over several rounds that fill and empty them.

use std::collections::{BTreeMap, BTreeSet};

use rustix::fs::{XattrFlags, lremovexattr, lsetxattr};
use uxfs_engine::{
    attribute::{AttributeName, SetMode},
    inode::edit::{ForkExtents, InodeFork},
    transaction::Transaction,
};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_testkit::{
    judges::Judge,
    mount::{Access, LoopMount},
    require,
    seeds::{Random, Seed},
    verdict,
};
use uxfs_volume::{
    attribute::Namespace,
    error::{Error, OperationError},
};

use super::fixture::{Form, Image, Model, contents, fill_files, form_of, make_files, read_back};

/// Names from few, so that they are met again.
pub fn name_of(random: &mut Random, most: u64) -> Vec<u8> {
    let number = random.below(most);
    let mut name = format!("n{number}").into_bytes();
    if number.is_multiple_of(7) {
        name.resize(20 + (number as usize * 13) % 200, b'x');
    }
    name
}

pub fn value_of(random: &mut Random, is_large: bool) -> Vec<u8> {
    let most = match random.below(20) {
        0..10 => 40,
        10..15 => 300,
        15..18 => 3000,
        _ if is_large => 65537,
        _ => 5000,
    };
    let mut value = vec![0; random.below(most) as usize];
    random.fill(&mut value);
    value
}

struct Round<'a> {
    file_system: &'a FileSystem,
    model: &'a mut Model,
    forms: &'a mut BTreeMap<String, BTreeSet<(Form, Form)>>,
    /// Of 100 changes, how many set.
    sets: u64,
}

impl Round<'_> {
    fn step(&mut self, transaction: &mut Transaction<'_>, file: &str, image: &Image, random: &mut Random) {
        let mut inode = transaction.load_inode(image.files[file]).unwrap();
        let before = form_of(self.file_system, &inode);
        let is_special = file.contains("link") || file == "device" || file == "fifo";
        let (namespace, prefix) = match random.below(3) {
            0 if !is_special => (Namespace::User, "user."),
            1 => (Namespace::Security, "security."),
            _ => (Namespace::Trusted, "trusted."),
        };
        let name = name_of(random, 60);
        let full = [prefix.as_bytes(), &name].concat();
        let attributes = self.model.get_mut(file).unwrap();
        let attribute = AttributeName { namespace, name: &name };
        if random.below(100) < self.sets {
            let value = value_of(random, file == "empty");
            let mode = [SetMode::Upsert, SetMode::Create, SetMode::Replace][random.below(3) as usize];
            let result = transaction.attributes().set_attribute(&mut inode, attribute, &value, mode);
            match (mode, attributes.contains_key(&full)) {
                (SetMode::Create, true) => {
                    assert!(matches!(result, Err(Error::Operation(OperationError::Exists))));
                }
                (SetMode::Replace, false) => {
                    assert!(matches!(result, Err(Error::Operation(OperationError::NoSuchAttribute))));
                }
                _ => {
                    result.unwrap();
                    attributes.insert(full, value);
                }
            }
        } else {
            // One that is there, mostly.
            let full = match attributes.keys().nth(random.below(attributes.len() as u64 + 1) as usize) {
                Some(full) => full.clone(),
                None => full,
            };
            let result = transaction.attributes().remove_xattr(&mut inode, &full);
            match attributes.remove(&full) {
                Some(_) => result.unwrap(),
                None => {
                    assert!(matches!(result, Err(Error::Operation(OperationError::NoSuchAttribute))));
                }
            }
        }
        transaction.store_inode(&mut inode).unwrap();
        let after = form_of(self.file_system, &inode);
        if before != after {
            self.forms.entry(file.to_owned()).or_default().insert((before, after));
        }
    }
}

fn random_changes(options: &[&str], size_mib: u64, default_seed: u64) -> BTreeSet<(Form, Form)> {
    let seed = Seed::from_environment("random attributes", default_seed);
    let mut random = seed.random();
    let mut image = Image::empty(options, size_mib);
    image.populate(make_files);
    // The kernel makes files with an attribute fork. Those that fill the inode before the first attribute comes must
    // be met, too.
    drop_forks(&image);
    image.populate(fill_files);
    assert_wide_roots(&image);
    let before = contents(&image);
    let files: Vec<String> = image.files.keys().cloned().collect();
    let mut model: Model = files.iter().map(|file| (file.clone(), BTreeMap::new())).collect();
    let mut forms = BTreeMap::new();
    for (round, sets) in [60, 10, 90, 35, 5].into_iter().enumerate() {
        let file_system = image.change();
        let mut transaction = Transaction::begin(&file_system).unwrap();
        let mut changes = Round { file_system: &file_system, model: &mut model, forms: &mut forms, sets };
        for step in 0..1500_u32 {
            let file = &files[random.below(files.len() as u64) as usize];
            changes.step(&mut transaction, file, &image, &mut random);
            transaction.commit().unwrap();
            if step % 100 == 0 {
                read_back(&file_system, image.files[file], &changes.model[file]);
            }
        }
        drop(transaction);
        if round == 4 {
            remove_the_rest(&file_system, &image, &mut model, &mut forms);
        }
        file_system.close().unwrap();
        drop(file_system);
        image.judge(&model);
        assert_eq!(contents(&image), before, "files are not what they were, after round {round}");
        kernel_changes(&image, &mut model, &mut random, sets);
        image.judge(&model);
    }
    verdict::kernel_removes_everything(&image.path, default_seed).unwrap();
    forms.into_values().flatten().collect()
}

/// The kernel goes on where we stopped: it must find the room in leaves that we say is there.
fn kernel_changes(image: &Image, model: &mut Model, random: &mut Random, sets: u64) {
    let mount = LoopMount::new(&image.path, Access::ReadWrite).unwrap();
    for (file, attributes) in model.iter_mut() {
        let path = mount.join(file);
        for _ in 0..60 {
            let name = [b"trusted.", &name_of(random, 60)[..]].concat();
            if random.below(100) < sets {
                let value = value_of(random, file == "empty");
                lsetxattr(&path, name.as_slice(), &value, XattrFlags::empty()).unwrap();
                attributes.insert(name, value);
            } else {
                let removed = lremovexattr(&path, name.as_slice());
                assert_eq!(removed.is_ok(), attributes.remove(&name).is_some());
            }
        }
    }
    mount.unmount().unwrap();
}

/// Sets and removes one attribute of each file.
fn drop_forks(image: &Image) {
    let file_system = image.change();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    for number in image.files.values() {
        let mut inode = transaction.load_inode(*number).unwrap();
        let attribute = AttributeName { namespace: Namespace::Trusted, name: b"a" };
        transaction.attributes().set_attribute(&mut inode, attribute, b"", SetMode::Create).unwrap();
        transaction.attributes().remove_attribute(&mut inode, attribute).unwrap();
        transaction.store_inode(&mut inode).unwrap();
        transaction.commit().unwrap();
    }
    drop(transaction);
    file_system.close().unwrap();
}

/// Otherwise it is not tested how the root of a btree makes room for a new attribute fork.
fn assert_wide_roots(image: &Image) {
    let file_system = image.change();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let inodes = image.files.values().map(|number| transaction.load_inode(*number).unwrap());
    let roots = inodes.filter(|inode| inode.attribute.is_none()).map(|inode| match &inode.data {
        InodeFork::Extents(ForkExtents { root: Some(root), .. }) => root.keys.len(),
        _ => 0,
    });
    let widest = roots.max().unwrap_or(0);
    let geometry = file_system.geometry();
    let must_be_wide = geometry.block_size_bytes <= 4096
        && geometry.inode_size_bytes == 512
        && !geometry.features.has_parent_pointers();
    assert!(!must_be_wide || widest > 11, "{widest}");
}

fn remove_the_rest(
    file_system: &FileSystem,
    image: &Image,
    model: &mut Model,
    forms: &mut BTreeMap<String, BTreeSet<(Form, Form)>>,
) {
    let mut transaction = Transaction::begin(file_system).unwrap();
    for (file, attributes) in model.iter_mut() {
        let mut inode = transaction.load_inode(image.files[file]).unwrap();
        for name in std::mem::take(attributes).into_keys() {
            let before = form_of(file_system, &inode);
            transaction.attributes().remove_xattr(&mut inode, &name).unwrap();
            transaction.commit().unwrap();
            let after = form_of(file_system, &inode);
            if before != after {
                forms.entry(file.clone()).or_default().insert((before, after));
            }
        }
        transaction.store_inode(&mut inode).unwrap();
        transaction.commit().unwrap();
    }
}

const UP: [(Form, Form); 2] = [(Form::List, Form::Leaf), (Form::Leaf, Form::Tree)];
const DOWN: [(Form, Form); 2] = [(Form::Tree, Form::Leaf), (Form::Leaf, Form::List)];

fn assert_seen(forms: &BTreeSet<(Form, Form)>, expected: &[(Form, Form)]) {
    for change in UP.iter().chain(&DOWN).chain(expected) {
        assert!(forms.contains(change), "{change:?} did not happen, only {forms:?}");
    }
}

const COMING: (Form, Form) = (Form::NoFork, Form::List);
const GOING: (Form, Form) = (Form::List, Form::NoFork);

#[test]
fn changes_in_small_blocks() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let forms = random_changes(&["-b", "size=1024", "-n", "parent=0"], 320, 1);
    assert_seen(&forms, &[COMING, GOING]);
}

#[test]
fn changes_in_usual_blocks() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let forms = random_changes(&["-n", "parent=0"], 320, 2);
    assert_seen(&forms, &[COMING, GOING]);
}

#[test]
fn changes_with_parent_pointers() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let forms = random_changes(&["-n", "parent=1"], 320, 3);
    assert_seen(&forms, &[]);
}

#[test]
fn changes_in_large_inodes() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let options = ["-i", "size=2048", "-n", "parent=0", "-m", "rmapbt=0,reflink=0"];
    let forms = random_changes(&options, 320, 4);
    assert_seen(&forms, &[COMING, GOING]);
}

#[test]
fn changes_in_large_blocks() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let forms = random_changes(&["-b", "size=65536", "-n", "parent=0"], 512, 5);
    // So many attributes are not set that a leaf of this size is full.
    for change in [COMING, GOING, (Form::List, Form::Leaf), (Form::Leaf, Form::List)] {
        assert!(forms.contains(&change), "{change:?} did not happen, only {forms:?}");
    }
}
