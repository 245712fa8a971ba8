//! A golden image, which mkfs.xfs and the kernel made, for a test to damage. `xfs_db` says where things lie.

use std::{fs::OpenOptions, os::unix::fs::FileExt, path::PathBuf, sync::Arc};

use tempfile::TempDir;
use uxfs_block::engine::sync::SyncDevice;
use uxfs_testkit::{golden::GoldenImage, image::memory_folder, judges::Judge};
use uxfs_volume::{
    tolerant::TolerantOptions,
    volume::{Volume, VolumeOptions},
};

pub struct DamagedImage {
    _folder: TempDir,
    path: PathBuf,
}

impl DamagedImage {
    pub fn golden(name: &str) -> Self {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        let path = folder.path().join("image");
        GoldenImage::named(name).unwrap().unpack_to(&path).unwrap();
        Self { _folder: folder, path }
    }

    /// What xfs_db prints. Its `write -d` makes the checksum right.
    pub fn db(&self, commands: &[&str]) -> String {
        let mut judge = Judge::XfsDb.command();
        judge.arg("-x");
        for command in commands {
            judge.args(["-c", command]);
        }
        let output = judge.arg(&self.path).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The byte at which the object begins that `commands` go to.
    pub fn offset_bytes(&self, commands: &[&str]) -> u64 {
        let words = self.db(&[commands, &["daddr"]].concat());
        let sector: u64 =
            words.split_whitespace().last().unwrap().parse().unwrap_or_else(|_| panic!("{words}"));
        assert!(sector > 0, "{words}");
        sector * 512
    }

    pub fn write(&self, offset_bytes: u64, bytes: &[u8]) {
        OpenOptions::new().write(true).open(&self.path).unwrap().write_all_at(bytes, offset_bytes).unwrap();
    }

    pub fn clear(&self, commands: &[&str], length_bytes: usize) {
        self.write(self.offset_bytes(commands), &vec![0; length_bytes]);
    }

    fn device(&self) -> Arc<SyncDevice> {
        Arc::new(SyncDevice::open_read_only(&self.path, 0).unwrap())
    }

    pub fn strict(&self) -> Volume {
        Volume::open(self.device(), &VolumeOptions::default()).unwrap()
    }

    pub fn tolerant(&self) -> Volume {
        Volume::open_tolerantly(self.device(), &TolerantOptions::default()).unwrap()
    }
}
