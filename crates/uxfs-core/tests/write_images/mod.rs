//! Images made by `mkfs.xfs`, changed in bulk mode, judged by `xfs_repair` and the kernel.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, dead_code)]

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use tempfile::TempDir;
use uxfs_block::engine::OpenOptions;
use uxfs_block::engine::sync::SyncDevice;
use uxfs_core::{
    directory::DirectoryEntry,
    filesystem::FileSystem,
    mount::{Clock, Generations, MountOptions},
};
use uxfs_format::{inode::Timestamp, units::InodeNumber};
use uxfs_testkit::{
    judges::{Judge, judged},
    mount::{Access, LoopMount},
    verdict::repair_is_silent,
};

const MEBIBYTE: u64 = 1 << 20;

/// A file system that exists as long as this does.
pub struct TestImage {
    _folder: TempDir,
    pub path: PathBuf,
    name: String,
}

impl TestImage {
    /// `mkfs.xfs` makes it, with `files` empty regular files in its root directory.
    pub fn new(name: &str, size_mebibytes: u64, options: &[&str], files: usize) -> Self {
        let folder = tempfile::Builder::new().prefix("uxfs-extent-").tempdir_in(memory_folder()).unwrap();
        let tree = folder.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        for index in 0..files {
            File::create(tree.join(format!("file-{index}"))).unwrap();
        }
        let path = folder.path().join("image");
        File::create(&path).unwrap().set_len(size_mebibytes * MEBIBYTE).unwrap();
        let mut mkfs = Judge::Mkfs.command();
        // Small file systems are refused but for tests of this kind.
        mkfs.envs([("TEST_DIR", "1"), ("TEST_DEV", "1"), ("QA_CHECK_FS", "1")]);
        mkfs.args(["-q", "-f"]).args(options).arg("-p").arg(&tree).arg(&path);
        run(&mut mkfs);
        Self { _folder: folder, path, name: name.to_owned() }
    }

    pub fn mount_bulk(&self) -> FileSystem {
        FileSystem::mount_bulk(self.device(), &options()).unwrap()
    }

    /// As somebody else sees it who comes later.
    pub fn mount(&self) -> FileSystem {
        FileSystem::mount(self.device(), &options()).unwrap()
    }

    fn device(&self) -> Arc<SyncDevice> {
        let options = OpenOptions { writable: true, ..OpenOptions::default() };
        Arc::new(SyncDevice::open(&self.path, &options).unwrap())
    }

    /// The inodes that `xfs_repair -n` calls disconnected, where it finds nothing else wrong.
    pub fn disconnected_inodes(&self) -> Vec<u64> {
        let output = Judge::XfsRepair.command().args(["-n", "-f"]).arg(&self.path).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut numbers = Vec::new();
        for line in text.lines().map(str::trim) {
            if let Some(rest) = line.strip_prefix("disconnected inode ") {
                numbers.push(rest.split(',').next().unwrap().parse().unwrap());
            } else {
                let is_usual = [
                    "Phase ",
                    "- ",
                    "No modify flag set",
                    "Cannot get host",
                    "Repair may fail",
                    "the image and",
                ]
                .iter()
                .any(|usual| line.starts_with(usual));
                assert!(is_usual || line.is_empty(), "{}: {line}", self.name);
            }
        }
        numbers
    }

    /// Fails unless `xfs_repair` finds nothing and the kernel reads all of it.
    pub fn must_be_sound(&self) {
        repair_is_silent(&self.path).unwrap_or_else(|error| panic!("{}: {error:#}", self.name));
        judged("xfs_repair", &format!("{}: silent", self.name));
        if !Judge::Kernel.is_present() {
            return;
        }
        let mount = LoopMount::new(&self.path, Access::ReadOnly).unwrap();
        let mut find = Command::new("find");
        let output =
            find.arg(mount.path()).args(["-type", "f", "-size", "-64M", "-exec", "cat", "{}", "+"]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}: {}", self.name, String::from_utf8_lossy(&output.stderr));
        mount.unmount().unwrap();
        judged("kernel", &format!("{}: mounted and read", self.name));
    }
}

fn options() -> MountOptions {
    MountOptions {
        cache_budget_bytes: Some(64 * MEBIBYTE),
        generations: Generations::REPRODUCIBLE,
        clock: Clock::Fixed(Timestamp { seconds: 1_700_000_000, nanoseconds: 7 }),
        ..MountOptions::default()
    }
}

/// Where images do not touch a disk, if there is such a place.
fn memory_folder() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() }
}

pub fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The number of a file in the root directory.
pub fn file(file_system: &FileSystem, index: usize) -> InodeNumber {
    let root = file_system.inode(file_system.geometry().root_inode).unwrap();
    let name = format!("file-{index}");
    let mut found = None;
    let visit = |entry: DirectoryEntry<'_>| {
        if entry.name == name.as_bytes() {
            found = Some(entry.inode);
        }
        std::ops::ControlFlow::Continue(())
    };
    file_system.read_directory(&root, 0, visit).unwrap();
    found.unwrap()
}
