//! Images to be changed.

use std::{path::Path, sync::Arc};

use tempfile::NamedTempFile;
use uxfs_block::engine::{OpenOptions, sync::SyncDevice};
use uxfs_core::{filesystem::FileSystem, mount::MountOptions};
use uxfs_testkit::judges::{Judge, judged};

/// An image in a temporary file.
pub struct Image {
    file: NamedTempFile,
    name: &'static str,
}

impl Image {
    pub fn new(name: &'static str, size: &str, options: &[&str]) -> Self {
        let folder = if Path::new("/dev/shm").is_dir() { "/dev/shm".into() } else { std::env::temp_dir() };
        let file = NamedTempFile::new_in(folder).unwrap();
        let mut command = Judge::Mkfs.command();
        command.args([
            "-q",
            "-f",
            "--unsupported",
            "-d",
            &format!("size={size}"),
            "-m",
            "uuid=6f4f9f3c-5a1e-4d57-9e6b-6f3c0b5e8a11",
        ]);
        let output = command.args(options).arg(file.path()).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        Self { file, name }
    }

    pub fn mount(&self) -> FileSystem {
        self.mount_with_cache(64 << 20)
    }

    /// With so little memory that changed blocks go home, and come back, all the time.
    pub fn mount_with_small_cache(&self) -> FileSystem {
        self.mount_with_cache(256 << 10)
    }

    fn mount_with_cache(&self, bytes: u64) -> FileSystem {
        let device =
            SyncDevice::open(self.file.path(), &OpenOptions { writable: true, ..OpenOptions::default() })
                .unwrap();
        let options = MountOptions { cache_budget_bytes: Some(bytes), ..MountOptions::default() };
        FileSystem::mount_bulk(Arc::new(device), &options).unwrap()
    }

    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// `xfs_repair -n` must have nothing to say.
    pub fn judge(&self) {
        self.judge_but_for(None);
    }

    /// `xfs_repair -n` must say nothing else than lines that begin like this.
    pub fn judge_but_for(&self, expected: Option<&str>) {
        let output = Judge::XfsRepair.command().arg("-n").arg(self.file.path()).output().unwrap();
        let words = [output.stdout, output.stderr].concat();
        let words = String::from_utf8_lossy(&words);
        let is_expected = |line: &&str| expected.is_some_and(|expected| line.starts_with(expected));
        assert_eq!(output.status.success(), expected.is_none(), "{}: xfs_repair -n: {words}", self.name);
        let is_usual = |line: &&str| {
            let usual = ["Phase ", "        - ", "No modify flag set", "Using internal log"];
            // About the file system that the image lies on, where it is not XFS.
            let host = ["Cannot get host filesystem", "Repair may fail if", "the image and the host"];
            let usual = [usual.as_slice(), &host].concat();
            usual.iter().any(|usual| line.starts_with(usual)) || line.is_empty()
        };
        let unusual: Vec<&str> = words.lines().filter(|line| !is_usual(line) && !is_expected(line)).collect();
        assert!(unusual.is_empty(), "{}: xfs_repair -n: {unusual:#?}", self.name);
        judged("xfs_repair", self.name);
    }
}
