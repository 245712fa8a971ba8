//! Random sequences of transactions through the journal, closed in good order or not at all, against a model in memory;
//! then `xfs_repair`, the kernel (which recovers what was not closed) and our own reader say whether image and model are
//! the same.

mod model;

use std::{fs::File, path::Path};

use model::Model;
use uxfs_block::engine::{self, OpenOptions};
use uxfs_engine::{
    attribute::SetMode,
    bulk::create::{FileAttributes, NewKind},
    directory::NameCheck,
    extent_map::map::Mapping,
    options::{LogOptions, MountOptions},
    transaction::Transaction,
};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_format::{btree::extent_map::MAX_FILE_BLOCKS, units::FileBlock};
use uxfs_testkit::{
    judges::{self, Judge},
    manifest::Header,
    mount::{Access, LoopMount},
    seeds::Random,
    verdict::{kernel_removes_everything, repair_is_silent, same},
    walk,
};
use uxfs_volume::{
    error::{Error, OperationError},
    inode::{DeviceNumber, FileType, Fork},
};

const JUDGES: [Judge; 4] = [Judge::Mkfs, Judge::XfsRepair, Judge::XfsIo, Judge::Kernel];

/// How often each operation comes: some are switched off by the seed.
#[derive(Debug)]
struct Weights([usize; OPERATIONS]);

const OPERATIONS: usize = 9;

impl Weights {
    fn new(random: &mut Random) -> Self {
        let mut weights = [30, 12, 6, 3, 8, 20, 12, 6, 14];
        for weight in &mut weights[2..] {
            if random.index(4) == 0 {
                *weight = 0;
            }
        }
        Self(weights)
    }

    fn choose(&self, random: &mut Random) -> usize {
        let mut left = random.index(self.0.iter().sum());
        self.0
            .iter()
            .position(|weight| {
                left < *weight || {
                    left -= weight;
                    false
                }
            })
            .unwrap_or(0)
    }
}

struct Run<'fs> {
    file_system: &'fs FileSystem,
    model: Model,
    random: Random,
    weights: Weights,
}

impl Run<'_> {
    fn step(&mut self) {
        let mut transaction = Transaction::begin(self.file_system).unwrap();
        match self.weights.choose(&mut self.random) {
            0 => self.create(&mut transaction, &NewKind::Regular),
            1 => self.create(&mut transaction, &NewKind::Directory),
            2 => {
                let target = vec![b't'; 1 + self.random.index(1000)];
                self.create(&mut transaction, &NewKind::Symlink(&target));
            }
            3 => {
                let number = DeviceNumber { major: 7, minor: self.random.index(1000) as u32 };
                self.create(&mut transaction, &NewKind::Special(FileType::BlockDevice, number));
            }
            4 => self.link(&mut transaction),
            5 => self.remove(&mut transaction),
            6 => self.set_attribute(&mut transaction),
            7 => self.remove_attribute(&mut transaction),
            _ => self.change_extents(&mut transaction),
        }
        transaction.commit().unwrap();
    }

    fn name(&mut self) -> Vec<u8> {
        let length = if self.random.index(10) == 0 { 200 } else { 4 + self.random.index(30) };
        let mut name = format!("{:x}", self.random.index(1 << 40)).into_bytes();
        name.resize(length.max(name.len()), b'n');
        name
    }

    fn create(&mut self, transaction: &mut Transaction<'_>, kind: &NewKind<'_>) {
        let (parent, name) = (self.model.any_directory(&mut self.random), self.name());
        let mut directory = transaction.load_inode(self.model.number(parent)).unwrap();
        let attributes = FileAttributes { permissions: 0o640, uid: 5, gid: 6, ..FileAttributes::default() };
        let made = transaction.files().create(&mut directory, &name, kind, &attributes, NameCheck::Check);
        if self.model.has(parent, &name) {
            assert!(matches!(made, Err(Error::Operation(OperationError::Exists))));
            return;
        }
        let mut inode = made.unwrap();
        transaction.store_inode(&mut inode).unwrap();
        transaction.store_inode(&mut directory).unwrap();
        self.model.create(parent, name, inode.number, kind);
    }

    fn link(&mut self, transaction: &mut Transaction<'_>) {
        let Some(file) = self.model.any_file(&mut self.random) else { return };
        let (parent, name) = (self.model.any_directory(&mut self.random), self.name());
        let mut directory = transaction.load_inode(self.model.number(parent)).unwrap();
        let mut inode = transaction.load_inode(self.model.number(file)).unwrap();
        transaction.files().link(&mut directory, &name, &mut inode, NameCheck::Check).unwrap();
        transaction.store_inode(&mut inode).unwrap();
        transaction.store_inode(&mut directory).unwrap();
        self.model.link(parent, name, file);
    }

    fn remove(&mut self, transaction: &mut Transaction<'_>) {
        let Some((parent, name)) = self.model.any_name(&mut self.random) else { return };
        let mut directory = transaction.load_inode(self.model.number(parent)).unwrap();
        let removed = transaction.files().remove(&mut directory, &name);
        if self.model.is_full_directory(parent, &name) {
            assert!(matches!(removed, Err(Error::Operation(OperationError::NotEmpty))));
            return;
        }
        removed.unwrap();
        transaction.store_inode(&mut directory).unwrap();
        self.model.remove(parent, &name);
    }

    fn set_attribute(&mut self, transaction: &mut Transaction<'_>) {
        let node = self.model.any_node(&mut self.random);
        let space = if self.random.index(2) == 0 { "trusted" } else { "security" };
        let name = format!("{space}.a{}", self.random.index(60)).into_bytes();
        let length = match self.random.index(8) {
            0 => self.random.index(9000),
            1 => 0,
            _ => self.random.index(120),
        };
        let value = vec![self.random.index(256) as u8; length];
        let mut inode = transaction.load_inode(self.model.number(node)).unwrap();
        transaction.attributes().set_xattr(&mut inode, &name, &value, SetMode::Upsert).unwrap();
        transaction.store_inode(&mut inode).unwrap();
        self.model.set_attribute(node, name, value);
    }

    fn remove_attribute(&mut self, transaction: &mut Transaction<'_>) {
        let node = self.model.any_node(&mut self.random);
        let Some(name) = self.model.any_attribute(node, &mut self.random) else { return };
        let mut inode = transaction.load_inode(self.model.number(node)).unwrap();
        transaction.attributes().remove_xattr(&mut inode, &name).unwrap();
        transaction.store_inode(&mut inode).unwrap();
        self.model.remove_attribute(node, &name);
    }

    /// Maps, frees and cuts unwritten blocks of a regular file.
    fn change_extents(&mut self, transaction: &mut Transaction<'_>) {
        let Some(file) = self.model.any_regular(&mut self.random) else { return };
        let mut inode = transaction.load_inode(self.model.number(file)).unwrap();
        let block = FileBlock::new(self.random.index(300) as u64);
        let length = 1 + self.random.index(20) as u64;
        match self.random.index(4) {
            0 => {
                transaction.extent_maps().unmap_blocks(&mut inode, Fork::Data, block, length).unwrap();
            }
            1 => {
                let size = self.random.index(1 << 20) as u64;
                let block_bytes = u64::from(self.file_system.geometry().block_size_bytes);
                let behind = FileBlock::new(size.div_ceil(block_bytes));
                transaction
                    .extent_maps()
                    .unmap_blocks(&mut inode, Fork::Data, behind, MAX_FILE_BLOCKS)
                    .unwrap();
                inode.set_size_bytes(size);
                self.model.set_size(file, size);
            }
            _ => {
                let mapping = Mapping { hint: None, is_unwritten: true };
                transaction.extent_maps().map_blocks(&mut inode, Fork::Data, block, length, mapping).unwrap();
            }
        }
        transaction.store_inode(&mut inode).unwrap();
    }
}

/// The mode of a run, and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// Closed cleanly.
    Logged(LogOptions),
    /// All is in the log, and the file system is not closed: Linux recovers it.
    Crashed(LogOptions),
}

fn run(
    directory: &Path,
    arguments: &[&str],
    how: How,
    seed: u64,
    steps: usize,
) -> (std::path::PathBuf, usize) {
    let image = directory.join(format!("image-{seed}"));
    File::create(&image).unwrap().set_len(400 << 20).unwrap();
    let made = Judge::Mkfs.command().args(["-q", "-f"]).args(arguments).arg(&image).status().unwrap();
    assert!(made.success());
    let device = engine::open(&image, &OpenOptions { writable: true, ..OpenOptions::default() }).unwrap();
    let mut options = MountOptions { cache_budget_bytes: Some(2 << 20), ..MountOptions::default() };
    let (How::Logged(log) | How::Crashed(log)) = how;
    options.log = log;
    let file_system = FileSystem::mount_logged(device, &options).unwrap();
    let mut random = Random::new(seed);
    let weights = Weights::new(&mut random);
    let model = Model::new(file_system.geometry().root_inode);
    let mut run = Run { file_system: &file_system, model, random, weights };
    (0..steps).for_each(|_| run.step());
    let Run { model, .. } = run;
    if let How::Crashed(_) = how {
        file_system.force().unwrap();
        eprintln!("{:?}", file_system.journal_counters());
        LoopMount::new(&image, Access::ReadWrite).unwrap().unmount().unwrap();
    } else {
        file_system.close().unwrap();
    }
    assert_eq!(file_system.journal_counters().overruns, 0);
    drop(file_system);
    repair_is_silent(&image).unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
    let header = |judge: &str| Header { image: "image".into(), judge: judge.into(), made_by: "test".into() };
    let ours = walk::from_image(&image, header("uxfs")).unwrap();
    let paths = model.compare(&ours);
    let mount = LoopMount::new(&image, Access::ReadOnly).unwrap();
    let kernel = uxfs_testkit::manifest::from_mount(mount.path(), header("kernel")).unwrap();
    mount.unmount().unwrap();
    same(&kernel, &ours).unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
    (image, paths)
}

const GEOMETRIES: [&[&str]; 5] = [
    &[],
    &["-b", "size=1k", "-n", "size=4k"],
    &["-n", "parent=0", "-m", "reflink=0"],
    &["-m", "rmapbt=0,reflink=0,finobt=0,inobtcount=0", "-i", "sparse=0"],
    &["-i", "size=1024", "-n", "size=16k"],
];

fn random_operations(how: How, test: &str, seed: u64, steps: usize) {
    if !judges::all_present(&JUDGES, test) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for (seed, arguments) in (seed..).zip(GEOMETRIES) {
        let (image, paths) = run(directory.path(), arguments, how, seed, steps);
        kernel_removes_everything(&image, seed).unwrap();
        judges::judged(
            "kernel and xfs_repair",
            &format!("{steps} random operations, {how:?}, {arguments:?}: {paths} paths"),
        );
    }
}

#[test]
fn random_transactions_leave_what_the_model_says() {
    let log = LogOptions { has_background: true, ..LogOptions::default() };
    random_operations(How::Logged(log), "random_transactions_leave_what_the_model_says", 11, 2500);
}

#[test]
fn so_they_do_with_a_checkpoint_for_every_step() {
    let log = LogOptions { is_immediate: true, ..LogOptions::default() };
    random_operations(How::Logged(log), "so_they_do_with_a_checkpoint_for_every_step", 21, 1500);
}

#[test]
fn linux_recovers_them_from_the_log() {
    let log = LogOptions { record_size_bytes: 256 << 10, ..LogOptions::default() };
    random_operations(How::Crashed(log), "linux_recovers_them_from_the_log", 31, 1500);
}

#[test]
fn linux_recovers_single_steps_from_the_log() {
    let log = LogOptions { is_immediate: true, ..LogOptions::default() };
    random_operations(How::Crashed(log), "linux_recovers_single_steps_from_the_log", 41, 1000);
}
