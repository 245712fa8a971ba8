//! Directories that are changed, on file systems of many kinds: judged by our own reader after every phase, and in the
//! end by `xfs_repair` and by what the kernel lists.

use std::{collections::BTreeMap, ffi::OsStr, fs, ops::ControlFlow, os::unix::ffi::OsStrExt, time::Instant};

use uxfs_engine::{
    directory::{NameCheck, NewName},
    extent_map::map::Mapping,
    inode::{
        create::NewInode,
        edit::{EditInode, InodeFork},
    },
    transaction::Transaction,
};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_format::{
    inode::{Fork, ForkFormat},
    units::{FileBlock, InodeNumber},
};
use uxfs_testkit::{
    image::{TestImage, file},
    judges::{Judge, judged},
    mount::{Access, LoopMount},
    require, sparse,
    verdict::{kernel_removes_everything, repair_is_silent},
};
use uxfs_volume::extent_map::ExtentMap;
use uxfs_volume::{
    error::{Error, OperationError},
    inode::FileType,
};

const CASE_FOLDED: &str = "case-folded";

/// Options of `mkfs.xfs`, how large the image is in MiB, and how many names the directory gets. Names are all links to
/// the same few files, which parent pointers would have to answer: those have tests of their own.
const KINDS: &[(&str, u64, &[&str], u32)] = &[
    ("default", 300, &["-n", "parent=0"], 20_000),
    ("block-1k", 300, &["-b", "size=1024", "-n", "parent=0"], 20_000),
    ("directory-64k", 300, &["-n", "parent=0,size=65536"], 30_000),
    ("directory-16k-of-1k", 300, &["-b", "size=1024", "-n", "parent=0,size=16384"], 20_000),
    ("block-64k", 600, &["-b", "size=65536", "-n", "parent=0"], 20_000),
    ("inode-2k", 300, &["-i", "size=2048", "-n", "parent=0"], 5_000),
    (CASE_FOLDED, 300, &["-n", "version=ci,parent=0"], 5_000),
    ("no-reverse-map", 300, &["-m", "rmapbt=0,reflink=0", "-n", "parent=0"], 5_000),
];

/// The name with this number, of many lengths.
fn name(number: u32) -> Vec<u8> {
    let length = (number.wrapping_mul(2_654_435_761) >> 28) as usize * 3;
    let mut name = format!("n{number}").into_bytes();
    name.resize(name.len() + length, b'x');
    name
}

/// Files that names lead to.
const TARGETS: usize = 3;

/// A directory in the root directory, with what should be in it.
struct Twin<'fs> {
    tx: Transaction<'fs>,
    file_system: &'fs FileSystem,
    inode: EditInode,
    model: BTreeMap<Vec<u8>, InodeNumber>,
    targets: Vec<InodeNumber>,
}

impl<'fs> Twin<'fs> {
    fn new(file_system: &'fs FileSystem) -> Self {
        let mut tx = Transaction::begin(file_system).unwrap();
        let root_number = file_system.geometry().root_inode;
        let new = NewInode::new(0o040_755, file_system.now());
        let mut inode = tx.inodes().create_inode(root_number, &new).unwrap();
        inode.core.link_count = 2.into();
        tx.directories().init_directory(&mut inode, root_number).unwrap();
        let mut root = tx.load_inode(root_number).unwrap();
        tx.directories()
            .add_name(&mut root, b"directory", inode.number, FileType::Directory, NameCheck::Check)
            .unwrap();
        root.core.link_count = (root.core.link_count.get() + 1).into();
        tx.store_inode(&mut root).unwrap();
        tx.store_inode(&mut inode).unwrap();
        tx.commit().unwrap();
        let targets = (0..TARGETS).map(|index| file(file_system, index)).collect();
        Self { tx, file_system, inode, model: BTreeMap::new(), targets }
    }

    /// The directory of an image that was changed before.
    fn again(file_system: &'fs FileSystem, model: BTreeMap<Vec<u8>, InodeNumber>) -> Self {
        let mut tx = Transaction::begin(file_system).unwrap();
        let root = file_system.inode(file_system.geometry().root_inode).unwrap();
        let number = file_system.lookup(&root, b"directory").unwrap().unwrap().inode;
        let inode = tx.load_inode(number).unwrap();
        let targets = (0..TARGETS).map(|index| file(file_system, index)).collect();
        Self { tx, file_system, inode, model, targets }
    }

    fn target(&self, number: u32) -> InodeNumber {
        self.targets[number as usize % TARGETS]
    }

    fn add(&mut self, number: u32, check: NameCheck) {
        let (name, target) = (name(number), self.target(number));
        self.tx.directories().add_name(&mut self.inode, &name, target, FileType::Regular, check).unwrap();
        assert_eq!(self.model.insert(name, target), None);
    }

    fn remove(&mut self, name: &[u8]) {
        let found = self.tx.directories().remove_name(&mut self.inode, name).unwrap();
        assert_eq!(Some(found.inode), self.model.remove(name));
    }

    fn replace(&mut self, name: &[u8], number: u32) {
        let target = self.target(number);
        let found =
            self.tx.directories().replace_name(&mut self.inode, name, target, FileType::Regular).unwrap();
        assert_eq!(Some(found.inode), self.model.insert(name.to_vec(), target));
    }

    /// Makes changes visible, and compares what a reader sees.
    fn check(&mut self) {
        self.tx.store_inode(&mut self.inode).unwrap();
        self.tx.commit().unwrap();
        assert_eq!(names_of(self.file_system, self.inode.number), self.model);
        assert_eq!(self.tx.directories().is_directory_empty(&self.inode).unwrap(), self.model.is_empty());
    }

    /// Sets the link counts of the files right and brings everything home.
    fn finish(mut self) -> BTreeMap<Vec<u8>, InodeNumber> {
        self.check();
        for target in &self.targets {
            let links = self.model.values().filter(|inode| *inode == target).count() as u32;
            let mut inode = self.tx.load_inode(*target).unwrap();
            inode.core.link_count = (links + 1).into();
            self.tx.store_inode(&mut inode).unwrap();
        }
        self.tx.commit().unwrap();
        drop(self.tx);
        self.file_system.close().unwrap();
        self.model
    }
}

fn names_of(file_system: &FileSystem, directory: InodeNumber) -> BTreeMap<Vec<u8>, InodeNumber> {
    let inode = file_system.inode(directory).unwrap();
    let mut names = BTreeMap::new();
    file_system
        .read_directory(&inode, 0, |entry| {
            if !matches!(entry.name, b"." | b"..") {
                assert_eq!(names.insert(entry.name.to_vec(), entry.inode), None);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    names
}

/// `xfs_repair` and the kernel judge; the kernel finds the same names.
fn judge(image: &TestImage, model: &BTreeMap<Vec<u8>, InodeNumber>, what: &str) {
    repair_is_silent(&image.path).unwrap_or_else(|error| panic!("{what}: {error:#}"));
    judged("xfs_repair", &format!("{what}: silent"));
    // Linux is mostly built without support for this.
    if !Judge::Kernel.is_present() || what.starts_with(CASE_FOLDED) {
        return;
    }
    let mount = LoopMount::new(&image.path, Access::ReadOnly).unwrap();
    let directory = mount.path().join("directory");
    let listed = fs::read_dir(&directory).unwrap().map(|entry| {
        use std::os::unix::fs::DirEntryExt;
        let entry = entry.unwrap();
        (entry.file_name().as_bytes().to_vec(), InodeNumber::new(entry.ino()))
    });
    let listed: BTreeMap<_, _> = listed.collect();
    assert!(listed == *model, "{what}: the kernel lists {} names of {}", listed.len(), model.len());
    // By hash, too.
    for name in model.keys().step_by(37) {
        assert!(directory.join(OsStr::from_bytes(name)).exists(), "{what}");
    }
    mount.unmount().unwrap();
    judged("kernel", &format!("{what}: {} names", model.len()));
}

/// Linux finds everything where it would have put it, and joins and frees what we made.
fn emptied_by_the_kernel(image: &TestImage, kind: &str) {
    if !Judge::Kernel.is_present() || kind == CASE_FOLDED {
        return;
    }
    let copy = image.path.with_extension("copy");
    sparse::copy(&image.path, &copy).unwrap();
    let removed = kernel_removes_everything(&copy, 7).unwrap_or_else(|error| panic!("{kind}: {error:#}"));
    judged("kernel", &format!("{kind}: {removed} names removed"));
    fs::remove_file(&copy).unwrap();
}

/// Numbers below `count`, each once, in an order that looks random.
fn shuffled(count: u32) -> impl Iterator<Item = u32> {
    let whole = count.next_power_of_two();
    let numbers =
        (0..whole).map(move |number| number.wrapping_mul(0x9e37_79b1).wrapping_add(77) & (whole - 1));
    numbers.filter(move |number| *number < count)
}

#[test]
fn names_come_and_go_in_every_form() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    for (kind, size, options, count) in KINDS {
        let image = TestImage::new(&format!("directories, {kind}"), *size, options, TARGETS);
        let file_system = image.mount_bulk();
        let mut twin = Twin::new(&file_system);
        for number in 0..*count {
            twin.add(number, NameCheck::Check);
            if number < 300 && number % 10 == 0 || number % 4000 == 0 {
                twin.check();
            }
        }
        twin.check();
        let exists = twin.tx.directories().add_name(
            &mut twin.inode,
            &name(1),
            twin.targets[0],
            FileType::Regular,
            NameCheck::Check,
        );
        assert!(matches!(exists, Err(Error::Operation(OperationError::Exists))));
        for number in shuffled(*count).take(*count as usize * 2 / 3) {
            twin.replace(&name(number), number + 1);
            twin.remove(&name(number));
        }
        twin.check();
        for number in *count..*count + *count / 3 {
            twin.add(number, NameCheck::KnownToBeNew);
        }
        let model = twin.finish();
        drop(file_system);
        judge(&image, &model, &format!("{kind}, grown, shrunk and grown"));
        emptied_by_the_kernel(&image, kind);

        let file_system = image.mount_bulk();
        let mut twin = Twin::again(&file_system, model);
        let names: Vec<Vec<u8>> = twin.model.keys().cloned().collect();
        for number in shuffled(names.len() as u32) {
            twin.remove(&names[number as usize]);
            let left = twin.model.len();
            if left < 300 && left.is_multiple_of(10) || left.is_multiple_of(4000) {
                twin.check();
            }
        }
        assert_eq!(twin.inode.data.format(), ForkFormat::Local);
        assert_eq!(twin.inode.blocks(), 0);
        let model = twin.finish();
        drop(file_system);
        judge(&image, &model, &format!("{kind}, emptied"));
    }
}

/// What Linux has made and thinned out is changed further.
#[test]
fn directories_of_the_kernel() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    for (kind, size, options, count) in KINDS.iter().filter(|kind| kind.0 != CASE_FOLDED) {
        let count = (*count).min(8_000);
        let image = TestImage::new(&format!("directories of the kernel, {kind}"), *size, options, TARGETS);
        let mount = LoopMount::new(&image.path, Access::ReadWrite).unwrap();
        let directory = mount.path().join("directory");
        fs::create_dir(&directory).unwrap();
        let path = |number: u32| directory.join(OsStr::from_bytes(&name(number)));
        for number in 0..count {
            let target = mount.path().join(format!("file-{}", number as usize % TARGETS));
            fs::hard_link(target, path(number)).unwrap();
        }
        let removed = |number: u32| number.is_multiple_of(3) || (count / 4..count / 2).contains(&number);
        (0..count)
            .filter(|number| removed(*number))
            .for_each(|number| fs::remove_file(path(number)).unwrap());
        mount.unmount().unwrap();
        let file_system = image.mount_bulk();
        let targets: Vec<InodeNumber> = (0..TARGETS).map(|index| file(&file_system, index)).collect();
        let left = (0..count).filter(|number| !removed(*number));
        let model = left.map(|number| (name(number), targets[number as usize % TARGETS])).collect();
        let mut twin = Twin::again(&file_system, model);
        twin.check();
        for number in shuffled(count).filter(|number| number % 5 < 2) {
            if removed(number) {
                twin.add(number, NameCheck::Check);
            } else {
                twin.replace(&name(number), number + 1);
                twin.remove(&name(number));
            }
        }
        twin.check();
        let keep = twin.model.len() / 100;
        let names: Vec<Vec<u8>> = twin.model.keys().skip(keep).cloned().collect();
        names.iter().for_each(|name| twin.remove(name));
        let model = twin.finish();
        drop(file_system);
        judge(&image, &model, &format!("{kind}, begun by the kernel"));
    }
}

#[test]
fn all_names_at_once() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    for (kind, size, options, most) in KINDS {
        for count in [10, 100, 1000, *most] {
            let image = TestImage::new(&format!("directories filled, {kind}"), *size, options, TARGETS);
            let file_system = image.mount_bulk();
            let mut twin = Twin::new(&file_system);
            // In two batches: the second finds names.
            for range in [0..count * 3 / 4, count * 3 / 4..count] {
                let names: Vec<Vec<u8>> = range.clone().map(name).collect();
                let file_type = FileType::Regular;
                let new = range.zip(&names).map(|(number, name)| NewName {
                    name,
                    inode: twin.target(number),
                    file_type,
                });
                let new: Vec<NewName<'_>> = new.collect();
                twin.tx.directories().fill_directory(&mut twin.inode, &new).unwrap();
                twin.model.extend(new.iter().map(|new| (new.name.to_vec(), new.inode)));
                twin.check();
            }
            for number in shuffled(count).take(count as usize / 5) {
                twin.remove(&name(number));
                twin.add(number + count, NameCheck::Check);
            }
            let model = twin.finish();
            drop(file_system);
            judge(&image, &model, &format!("{kind}, {count} names at once"));
            emptied_by_the_kernel(&image, kind);
        }
    }
}

#[test]
fn two_hundred_thousand_names_and_back() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("200,000 names", 300, &["-n", "parent=0"], TARGETS);
    let file_system = image.mount_bulk();
    let mut twin = Twin::new(&file_system);
    let start = Instant::now();
    for number in 0..200_000 {
        twin.add(number, NameCheck::KnownToBeNew);
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{:.2} µs for each name", seconds * 5.0);
    let model = twin.finish();
    drop(file_system);
    judge(&image, &model, "200,000 names");
    let file_system = image.mount_bulk();
    let mut twin = Twin::again(&file_system, model);
    for (step, number) in shuffled(200_000).enumerate() {
        twin.remove(&name(number));
        if step % 40_000 == 0 {
            twin.check();
        }
    }
    let model = twin.finish();
    drop(file_system);
    judge(&image, &model, "200,000 names, removed");
}

/// An image can map two blocks of a directory to one block: a thread must not wait for a buffer that it holds.
#[test]
fn blocks_in_one_place_are_damage() {
    require!(Judge::Mkfs);
    for count in [300, 5_000] {
        let image = TestImage::new("blocks in one place", 300, &["-n", "parent=0"], TARGETS);
        let file_system = image.mount_bulk();
        let mut twin = Twin::new(&file_system);
        (0..count).for_each(|number| twin.add(number, NameCheck::KnownToBeNew));
        twin.check();
        let leaf_start = file_system.geometry().directory_leaf_start();
        let sound = twin.inode.clone();
        let whole = sound.extents(Fork::Data).to_vec();
        let lying = |victim: usize, other: usize| {
            let mut extents = whole.clone();
            extents[victim].start = whole[other].start;
            ExtentMap::of(extents).unwrap()
        };
        let first = whole.iter().position(|extent| extent.file_block >= leaf_start).unwrap();
        for victim in 0..whole.len() {
            let InodeFork::Extents(fork) = &mut twin.inode.data else { panic!("a directory with blocks") };
            fork.extents = lying(victim, if victim == first { 0 } else { first });
            for number in 0..200 {
                let _ = twin.tx.directories().lookup_name(&mut twin.inode, &name(number));
            }
            let new = name(count + victim as u32);
            let _ = twin.tx.directories().add_name(
                &mut twin.inode,
                &new,
                twin.targets[0],
                FileType::Regular,
                NameCheck::Check,
            );
            twin.inode = sound.clone();
        }
        let InodeFork::Extents(fork) = &mut twin.inode.data else { panic!("a directory with blocks") };
        fork.extents = lying(0, first);
        if count == 300 {
            let found = twin.tx.directories().lookup_name(&mut twin.inode, &name(1)).unwrap_err();
            assert!(format!("{found}").contains("lies where another block"), "{found}");
        }
    }
}

/// Free space in single blocks: directory blocks of 64 KiB lie in 16 pieces each.
#[test]
fn directory_blocks_in_pieces() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    // Nothing is kept free for other trees.
    let options = ["-n", "parent=0,size=65536", "-m", "rmapbt=0,reflink=0,finobt=0,inobtcount=0"];
    let image = TestImage::new("blocks in pieces", 300, &options, TARGETS);
    let file_system = image.mount_bulk();
    let mut tx = Transaction::begin(&file_system).unwrap();
    let mut files = [1, 2].map(|index| tx.load_inode(file(&file_system, index)).unwrap());
    let length = file_system.free_blocks() / 2 - 4000;
    for block in 0..length {
        for inode in &mut files {
            tx.extent_maps()
                .map_blocks(inode, Fork::Data, FileBlock::new(block), 1, Mapping::default())
                .unwrap();
        }
        tx.commit().unwrap();
    }
    // What is still in one piece is taken, too.
    let rest = file_system.free_blocks() - 200;
    tx.extent_maps()
        .map_blocks(&mut files[0], Fork::Data, FileBlock::new(length), rest, Mapping::default())
        .unwrap();
    tx.commit().unwrap();
    tx.extent_maps().unmap_blocks(&mut files[1], Fork::Data, FileBlock::new(0), length).unwrap();
    let size = (length + rest) << file_system.geometry().block_log;
    files[0].set_size_bytes(size);
    for inode in &mut files {
        tx.store_inode(inode).unwrap();
    }
    tx.commit().unwrap();
    drop(tx);
    let mut twin = Twin::new(&file_system);
    for number in 0..60_000 {
        twin.add(number, NameCheck::KnownToBeNew);
    }
    twin.check();
    let extents = twin.inode.extents(Fork::Data);
    let blocks: u64 = extents.iter().map(|extent| extent.length_blocks).sum();
    assert!(extents.len() as u64 * 2 > blocks, "{} extents for {blocks} blocks", extents.len());
    for number in shuffled(60_000).take(40_000) {
        twin.remove(&name(number));
    }
    let model = twin.finish();
    drop(file_system);
    judge(&image, &model, "blocks in pieces");
}
