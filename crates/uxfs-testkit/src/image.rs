//! Images that tests change: `mkfs.xfs` makes them, the library under test changes them, the judges look at them.
// Without its image a test has nothing to say.
#![allow(clippy::unwrap_used)]

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use anyhow::{Result, ensure};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use uxfs_block::engine::{OpenOptions, sync::SyncDevice};
use uxfs_engine::options::{Clock, Generations, LogOptions, MountOptions};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_filesystem::mount;
use uxfs_format::{inode::Timestamp, units::InodeNumber};
use uxfs_volume::volume::Volume;

use crate::{
    exclusive::Exclusive,
    judges::{Judge, judged, workspace_directory},
    manifest::to_hex,
    mount::{Access, LoopMount},
    sparse,
    verdict::{repair_findings, repair_is_silent},
};

const MEBIBYTE: u64 = 1 << 20;

/// Where images do not touch a disk, if there is such a place.
pub fn memory_folder() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() }
}

/// Names the folder that keeps unpacked and made images for all test programs of a run. Without it they are kept in `target`.
pub const CACHE_VARIABLE: &str = "UXFS_IMAGES_DIR";

/// The folder that keeps images, which exists then.
pub(crate) fn cache_folder() -> Result<PathBuf> {
    let named = std::env::var_os(CACHE_VARIABLE).map(PathBuf::from);
    let folder = named.unwrap_or_else(|| target_directory().join("images"));
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Where build products lie.
fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace_directory().join("target"), PathBuf::from)
}

/// The image `name` of the cache, which `fill` makes where it is not there yet. Only for reading.
///
/// # Errors
/// `fill` fails.
pub(crate) fn cached(name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let folder = cache_folder()?;
    let image = folder.join(name);
    if image.exists() {
        return Ok(image);
    }
    // Several tests may want it at once. A complete one is put in place.
    let _one = Exclusive::wait_for(name)?;
    if !image.exists() {
        let fresh = tempfile::Builder::new().prefix("making-").tempfile_in(&folder)?.into_temp_path();
        fill(&fresh)?;
        fresh.persist(&image)?;
    }
    Ok(image)
}

/// Lets `mkfs.xfs` make a file system in a new file, the same each time. Sizes that are not supported are allowed.
///
/// # Errors
/// It says no.
pub fn make(path: &Path, size_bytes: u64, options: &[&str]) -> Result<()> {
    // The image depends on nothing else, unless a prototype names files of the host.
    if options.contains(&"-p") {
        return make_fresh(path, size_bytes, options);
    }
    let key = to_hex(&Sha256::digest(format!("{size_bytes} {options:?}")));
    let made = cached(&format!("mkfs-{}", &key[..24]), |fresh| {
        let folder = tempfile::tempdir_in(memory_folder())?;
        let whole = folder.path().join("image");
        make_fresh(&whole, size_bytes, options)?;
        sparse::copy(&whole, fresh)
    })?;
    sparse::copy(&made, path)
}

fn make_fresh(path: &Path, size_bytes: u64, options: &[&str]) -> Result<()> {
    File::create(path)?.set_len(size_bytes)?;
    let output = Judge::Mkfs
        .command()
        .args(["-q", "-f", "--unsupported", "-m", "uuid=5a0d9f0e-0b6c-4a36-8d2f-0f8f4a8a1a11"])
        .args(options)
        .arg(path)
        .envs([("DETERMINISTIC_SEED", "1"), ("SOURCE_DATE_EPOCH", "1700000000")])
        .output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "mkfs.xfs {options:?}: {words}");
    Ok(())
}

/// Opens the file system in a file for changes in bulk mode.
///
/// # Errors
/// It cannot be opened.
pub fn mount_bulk(path: &Path, options: &MountOptions) -> Result<FileSystem> {
    Ok(FileSystem::mount_bulk(device(path)?, options)?)
}

fn device(path: &Path) -> Result<Arc<SyncDevice>> {
    let options = OpenOptions { writable: true, ..OpenOptions::default() };
    Ok(Arc::new(SyncDevice::open(path, &options)?))
}

/// How tests mount: with so much cache, and numbers and times that are the same each time.
pub fn mount_options(cache_bytes: u64) -> MountOptions {
    MountOptions {
        cache_budget_bytes: Some(cache_bytes),
        generations: Generations::REPRODUCIBLE,
        clock: Clock::Fixed(Timestamp { seconds: 1_700_000_000, nanoseconds: 7 }),
        ..MountOptions::default()
    }
}

/// A file system that exists as long as this does.
#[derive(Debug)]
pub struct TestImage {
    _folder: TempDir,
    /// The file that it is in.
    pub path: PathBuf,
    name: String,
}

impl TestImage {
    /// `mkfs.xfs` makes it, with `files` empty regular files in its root directory.
    pub fn new(name: &str, size_mebibytes: u64, options: &[&str], files: usize) -> Self {
        let folder = tempfile::Builder::new().prefix("uxfs-image-").tempdir_in(memory_folder()).unwrap();
        let path = folder.path().join("image");
        let tree = folder.path().join("tree");
        let mut options = options.to_vec();
        if files > 0 {
            fs::create_dir(&tree).unwrap();
            (0..files).for_each(|index| drop(File::create(tree.join(format!("file-{index}"))).unwrap()));
            options.extend(["-p", tree.to_str().unwrap()]);
        }
        make(&path, size_mebibytes * MEBIBYTE, &options).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        Self { _folder: folder, path, name: name.to_owned() }
    }

    /// Opens it for changes in bulk mode.
    pub fn mount_bulk(&self) -> FileSystem {
        self.try_mount_bulk().unwrap()
    }

    /// As [`mount_bulk`](Self::mount_bulk), for an image that may be damaged.
    ///
    /// # Errors
    /// Those of the mount.
    pub fn try_mount_bulk(&self) -> Result<FileSystem> {
        mount_bulk(&self.path, &mount_options(64 * MEBIBYTE))
    }

    /// With little memory, changed blocks are written back and read again all the time.
    pub fn mount_bulk_with_cache(&self, bytes: u64) -> FileSystem {
        mount_bulk(&self.path, &mount_options(bytes)).unwrap()
    }

    /// With its journal.
    pub fn mount_logged(&self, log: LogOptions) -> Arc<FileSystem> {
        let options = MountOptions { log, ..mount_options(64 * MEBIBYTE) };
        FileSystem::mount_logged(device(&self.path).unwrap(), &options).unwrap()
    }

    /// The file system after a new mount.
    pub fn mount(&self) -> Volume {
        mount::open_volume(device(&self.path).unwrap(), &mount_options(64 * MEBIBYTE)).unwrap()
    }

    /// The inodes that `xfs_repair -n` calls disconnected, where it finds nothing else wrong.
    pub fn disconnected_inodes(&self) -> Vec<u64> {
        let number = |line: &String| {
            let number =
                line.trim().strip_prefix("disconnected inode ").and_then(|rest| rest.split(',').next());
            let number = number.and_then(|number| number.parse().ok());
            number.unwrap_or_else(|| panic!("{}: {line}", self.name))
        };
        repair_findings(&self.path).unwrap().iter().map(number).collect()
    }

    /// Fails unless `xfs_repair` finds nothing.
    pub fn must_satisfy_repair(&self) {
        repair_is_silent(&self.path).unwrap_or_else(|error| panic!("{}: {error:#}", self.name));
        judged("xfs_repair", &format!("{}: silent", self.name));
    }

    /// Fails unless all that `xfs_repair` finds, which must be something, begins like this.
    pub fn must_satisfy_repair_but_for(&self, expected: &str) {
        let findings = repair_findings(&self.path).unwrap();
        let unexpected: Vec<&String> = findings.iter().filter(|line| !line.starts_with(expected)).collect();
        assert!(unexpected.is_empty() && !findings.is_empty(), "{}: {unexpected:#?}", self.name);
        judged("xfs_repair", &format!("{}: {expected}", self.name));
    }

    /// Fails unless `xfs_repair` finds nothing and the kernel reads all of it.
    pub fn must_be_sound(&self) {
        self.must_satisfy_repair();
        if !Judge::Kernel.is_present() {
            return;
        }
        let mount = LoopMount::new(&self.path, Access::ReadOnly).unwrap();
        let mut find = Command::new("find");
        find.arg(mount.path()).args(["-type", "f", "-size", "-64M", "-exec", "cat", "{}", "+"]);
        let output = find.output().unwrap();
        assert!(output.status.success(), "{}: {}", self.name, String::from_utf8_lossy(&output.stderr));
        mount.unmount().unwrap();
        judged("kernel", &format!("{}: mounted and read", self.name));
    }
}

/// The number of one of the files that [`TestImage::new`] makes.
pub fn file(file_system: &Volume, index: usize) -> InodeNumber {
    let root = file_system.inode(file_system.geometry().root_inode).unwrap();
    let name = format!("file-{index}");
    file_system.lookup(&root, name.as_bytes()).unwrap().unwrap().inode
}
