//! An image and a place for its mount, for tests of `uxfs mount`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;
use uxfs_testkit::{image::memory_folder, verdict::repair_is_silent, watchdog::Watchdog};

use crate::common::{host, succeeds, text, uxfs};

/// An image and a directory to mount it on, which is free again afterwards.
pub struct Place {
    pub folder: TempDir,
    pub image: PathBuf,
    pub directory: PathBuf,
    watchdog: Watchdog,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        let (image, directory) = (folder.path().join("image"), folder.path().join("mount"));
        succeeds(&["mkfs", "--size", "300M", text(&image)]);
        fs::create_dir(&directory).unwrap();
        Self::of(folder, image)
    }

    pub fn of(folder: TempDir, image: PathBuf) -> Self {
        let directory = folder.path().join("mount");
        let watchdog = Watchdog::new(&[&directory]);
        Self { folder, image, directory, watchdog }
    }

    pub fn mount(&self, options: &[&str]) -> Output {
        uxfs(&[&["mount"], options, &[text(&self.image), text(&self.directory)]].concat())
    }

    pub fn unmount(&self) {
        succeeds(&["umount", text(&self.directory)]);
        repair_is_silent(&self.image).unwrap();
    }

    pub fn file(&self) -> PathBuf {
        self.directory.join("file")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut unmount = Command::new("umount");
        let _ = unmount.arg("-l").arg(&self.directory).stderr(Stdio::null()).status();
        let _ = (self.folder.path(), &self.watchdog);
    }
}

/// The kernel's view of a loop device that is there already, and stays. Dropping it unmounts.
pub struct KernelMount(TempDir);

impl KernelMount {
    /// `None` where the kernel refuses.
    pub fn new(device: &Path, options: &str) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "xfs", "-o", options]).arg(device).arg(folder.path()).stderr(Stdio::null());
        mount.status().unwrap().success().then(|| Self(folder))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for KernelMount {
    fn drop(&mut self) {
        host("umount", &[text(self.path())]);
    }
}

/// A command that went well.
pub fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The processes of a mount of this image. Others are not asked for their command line: that can wait for ever.
pub fn processes(image: &Path) -> Vec<String> {
    let numbers =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let read = |process: &str, file: &str| fs::read_to_string(format!("/proc/{process}/{file}"));
    let is_of_mount = |process: &String| {
        read(process, "comm").is_ok_and(|name| name.starts_with("uxfs-"))
            && read(process, "cmdline").is_ok_and(|line| line.split('\0').any(|word| word == text(image)))
    };
    numbers.filter(|name| name.parse::<u32>().is_ok()).filter(is_of_mount).collect()
}
